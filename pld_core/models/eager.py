"""Any transformers causal language model whose cache can roll back, run as it is."""

from __future__ import annotations

import inspect
from typing import Sequence

import torch
from transformers import DynamicCache, PreTrainedModel


class EagerScores:
    """Greedy choices over logits [W, V]; see Scores. Making one waits for the device."""

    def __init__(self, logits: torch.Tensor) -> None:
        self._logits = logits
        self.choices: list[int] = logits.argmax(-1).tolist()

    def kept(self, rows: int) -> tuple[list[float], list[float]]:
        logits = self._logits[:rows].float()
        best = logits.topk(min(2, logits.shape[-1])).values
        probabilities = (best[:, 0] - logits.logsumexp(-1)).exp()
        return probabilities.tolist(), (best[:, 0] - best[:, -1]).tolist()

    def favourites(self, row: int, count: int) -> list[tuple[int, float]]:
        logits = self._logits[row].float()
        best = logits.topk(min(count, logits.shape[-1]))
        probabilities = (best.values - logits.logsumexp(-1)).exp()
        return list(zip(best.indices.tolist(), probabilities.tolist()))

    def close_to(self, other: EagerScores) -> bool:
        """Whether the logits are the same but for rounding."""
        a, b = self._logits.float(), other._logits.float()
        slack = 1e-3 if self._logits.dtype == torch.float32 else 5e-2
        return bool((a - b).abs().max() <= slack * b.std())


class EagerTarget:
    """A model with a growing cache of its own; see Target. Batch 1.

    The cache keeps what a rollback over a sliding window needs (`activate_past_recording`),
    which is why every forward is followed by a crop, also by one of nothing.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        config = model.config.get_text_config(decoder=True)
        self.vocabulary: int = config.vocab_size
        self.context_limit: int | None = context_limit(config)
        self._model = model
        self._cache = DynamicCache(config=config)
        self._cache.activate_past_recording()
        self._last_only = (
            {"logits_to_keep": 1}
            if "logits_to_keep" in inspect.signature(model.forward).parameters
            else {}
        )
        self._cached = 0
        self._width = 0

    @property
    def room(self) -> int:
        limit = self.context_limit
        return 2**31 if limit is None else limit - self._cached

    @property
    def can_roll_back(self) -> bool:
        """Whether the cache says so; known for certain only after a prefill."""
        return self._cache.is_croppable

    def prefill(self, ids: Sequence[int]) -> EagerScores:
        logits = self._run(ids, **self._last_only)
        self._cache.crop(0)
        return EagerScores(logits[-1:])

    def forward(self, tokens: Sequence[int]) -> EagerScores:
        self._width = len(tokens)
        return EagerScores(self._run(tokens))

    def commit(self, positions: int) -> None:
        self._cache.crop(positions - self._width)
        self._cached += positions - self._width

    @torch.inference_mode()
    def _run(self, tokens: Sequence[int], **last_only: int) -> torch.Tensor:
        ids = torch.tensor([list(tokens)], device=self._model.device)
        logits = self._model(input_ids=ids, cache=self._cache, use_cache=True, **last_only).logits
        self._cached += len(tokens)
        return logits[0]


def context_limit(config) -> int | None:
    """How many positions a model of this config has; None when it names no limit."""
    for name in ("max_position_embeddings", "n_positions", "max_seq_len"):
        limit = getattr(config, name, None)
        if isinstance(limit, int) and limit > 0:
            return limit
    return None
