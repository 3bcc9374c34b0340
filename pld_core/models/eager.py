"""Any transformers causal language model whose cache can roll back, run as it is."""

from __future__ import annotations

import inspect
from typing import Iterator, Sequence

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from pld_core import tree
from pld_core.models.sequence import SequenceTarget, context_limit
from pld_core.models.trees import tree_mask
from pld_core.sampling import ChosenScores, Chooser


class EagerTarget(SequenceTarget):
    """A model with a growing cache of its own; see Target. Batch 1.

    The cache keeps what a rollback over a sliding window needs (`activate_past_recording`),
    which is why every forward is followed by a crop, also by one of nothing. reads_trees:
    whether the model was found to read trees, see models.trees; its cache must allow it too.
    """

    def __init__(self, model: PreTrainedModel, chooser: Chooser, reads_trees: bool = False) -> None:
        config = model.config.get_text_config(decoder=True)
        super().__init__(config, chooser)
        self._config = config
        self._model = model
        self._reads_trees = reads_trees
        self._cache = DynamicCache(config=None if _stray_window(config) else config)
        self._cache.activate_past_recording()
        self._last_only = (
            {"logits_to_keep": 1}
            if "logits_to_keep" in inspect.signature(model.forward).parameters
            else {}
        )

    @property
    def can_roll_back(self) -> bool:
        """Whether the cache says so; known for certain only after a prefill."""
        return self._cache.is_croppable

    def read(self, ids: Sequence[int]) -> Iterator[int]:
        self.context_limit = context_limit(self._config, len(ids))
        # a first part on this side of the border of "longrope" would be turned by other angles
        # than a prompt that goes beyond it
        if context_limit(self._config, self.part) == self.context_limit:
            yield from super().read(ids)

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

    def _read(self, ids: Sequence[int]) -> torch.Tensor:
        logits = self._run(ids, **self._last_only)
        self._forget(0)
        return logits[-1:]

    def _as_tree(self, parents: Sequence[int]) -> dict:
        begin, device = len(self._ids), self._model.device
        depths = torch.tensor([[0, *tree.depths(parents)]], device=device)
        mask = tree_mask(parents, begin, self._model.dtype, device)
        return {"position_ids": begin + depths, "attention_mask": mask[None, None]}

    @torch.inference_mode()
    def _move(self, begin: int, rows: Sequence[int]) -> None:
        places = [begin + row for row in rows]
        for layer in self._cache.layers:
            for states in (layer.keys, layer.values):
                states[..., begin : begin + len(rows), :] = states[..., places, :]

    def _forget(self, count: int) -> None:
        super()._forget(count)
        self._cache.crop(-count)

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
