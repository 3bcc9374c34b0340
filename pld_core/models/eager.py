"""Any transformers causal language model whose cache can roll back, run as it is."""

from __future__ import annotations

import inspect
from typing import Sequence

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from pld_core import tree
from pld_core.models.trees import tree_mask
from pld_core.sampling import ChosenScores, Chooser


class EagerTarget:
    """A model with a growing cache of its own; see Target. Batch 1.

    The cache keeps what a rollback over a sliding window needs (`activate_past_recording`),
    which is why every forward is followed by a crop, also by one of nothing. reads_trees:
    whether the model was found to read trees, see models.trees; its cache must allow it too.
    """

    def __init__(self, model: PreTrainedModel, chooser: Chooser, reads_trees: bool = False) -> None:
        config = model.config.get_text_config(decoder=True)
        self.vocabulary: int = config.vocab_size
        self.context_limit: int | None = context_limit(config)
        self._config = config
        self._model = model
        self._reads_trees = reads_trees
        self._chooser = chooser
        self._cache = DynamicCache(config=None if _stray_window(config) else config)
        self._cache.activate_past_recording()
        self._last_only = (
            {"logits_to_keep": 1}
            if "logits_to_keep" in inspect.signature(model.forward).parameters
            else {}
        )
        self._ids: list[int] = []  # those in the cache
        self._width = 0

    @property
    def room(self) -> int:
        limit = self.context_limit
        return 2**31 if limit is None else limit - len(self._ids)

    @property
    def can_roll_back(self) -> bool:
        """Whether the cache says so; known for certain only after a prefill."""
        return self._cache.is_croppable

    def prefill(self, ids: Sequence[int]) -> ChosenScores:
        self.context_limit = context_limit(self._config, len(ids))
        logits = self._run(ids, **self._last_only)
        self._cache.crop(0)
        return self._chooser.scores(logits[-1:], self._ids)

    @property
    def trees(self) -> bool:
        """Known for certain only after a prefill. A layer with a window has no row for every
        position, so none to move."""
        layers = self._cache.layers if self._reads_trees else []
        return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)

    def forward(self, tokens: Sequence[int], parents: Sequence[int] = ()) -> ChosenScores:
        self._width = len(tokens)
        as_tree = self._as_tree(parents) if parents else {}
        return self._chooser.scores(self._run(tokens, **as_tree), self._ids, parents)

    def commit(self, positions: int, rows: Sequence[int] = ()) -> None:
        kept = [0, *rows[: positions - 1]]
        if rows and kept != list(range(positions)):
            self._move(kept)
        self._forget(self._width - positions)

    def _as_tree(self, parents: Sequence[int]) -> dict:
        begin, device = len(self._ids), self._model.device
        depths = torch.tensor([[0, *tree.depths(parents)]], device=device)
        mask = tree_mask(parents, begin, self._model.dtype, device)
        return {"position_ids": begin + depths, "attention_mask": mask[None, None]}

    @torch.inference_mode()
    def _move(self, rows: Sequence[int]) -> None:
        """Puts the last forward's positions `rows`, rising, where it began."""
        begin = len(self._ids) - self._width
        places = [begin + row for row in rows]
        for layer in self._cache.layers:
            for states in (layer.keys, layer.values):
                states[..., begin : begin + len(rows), :] = states[..., places, :]
        self._ids[begin : begin + len(rows)] = [self._ids[place] for place in places]

    def _forget(self, count: int) -> None:
        self._cache.crop(-count)
        del self._ids[len(self._ids) - count :]

    @torch.inference_mode()
    def _run(self, tokens: Sequence[int], **more) -> torch.Tensor:
        self._ids.extend(tokens)
        inputs = self._inputs(torch.tensor([list(tokens)], device=self._model.device))
        return self._model(**inputs, cache=self._cache, use_cache=True, **more).logits[0]

    def _inputs(self, ids: torch.Tensor) -> dict:
        return {"input_ids": ids}


def _stray_window(config) -> bool:
    """Whether the config holds a sliding window that its architecture does not know, as a Llama's
    does that was made out of a Mistral. The model reads everything then, but transformers' cache
    would forget."""
    return (
        getattr(config, "layer_types", None) is None
        and getattr(config, "sliding_window", None) is not None
        and not hasattr(type(config), "sliding_window")
    )


def context_limit(config, prompt_length: int = 2**31) -> int | None:
    """How many positions a model of this config has; None when it names no limit or counts
    relative positions only (T5).

    "longrope" turns all positions by other angles once there are more than were trained at
    first, so the keys of the shorter context are worth nothing in the longer one: a prompt on
    this side of the border has the positions up to it, one beyond it has all.
    """
    if hasattr(config, "relative_attention_num_buckets"):
        return None
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        border = rope.get("original_max_position_embeddings")
        if border and prompt_length <= border:
            return border
    for name in ("max_position_embeddings", "n_positions", "max_seq_len"):
        limit = getattr(config, name, None)
        if isinstance(limit, int) and limit > 0:
            return limit
    return None
