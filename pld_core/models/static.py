"""Strict mode: one cache shape and one width for every pass, so that rounding cannot tell a
drafted position from a plain one."""

from __future__ import annotations

from typing import Sequence

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer, StaticLayer

from pld_core.models.eager import EagerTarget
from pld_core.sampling import ChosenScores, Chooser


class StaticTarget(EagerTarget):
    """Every forward runs `width` positions over a cache of fixed length; see Target.

    Matrix products round differently for one row and for many, so in half precision a near-tie
    can fall either way. With one shape for every pass the numbers of a position are the same
    bit for bit whichever row of the pass it is, and so plain decoding and PLD agree.
    Every layer keeps the whole context, sliding windows are the mask's affair: what a layer
    with a window of its own has overwritten could not be rolled back.
    """

    def __init__(
        self, model: PreTrainedModel, chooser: Chooser, width: int, positions: int
    ) -> None:
        super().__init__(model, chooser)
        self._fixed = width
        layers = model.config.get_text_config(decoder=True).num_hidden_layers
        length = min(positions, self.room) + width  # slack for the last pass's padding
        self._cache = Cache(layers=[StaticLayer(max_cache_len=length) for _ in range(layers)])

    def forward(self, tokens: Sequence[int]) -> ChosenScores:
        padding = [tokens[-1]] * (self._fixed - len(tokens))
        self._width = len(tokens)
        logits = self._run([*tokens, *padding])
        self._forget(len(padding))
        scores = self._chooser.scores(logits[: len(tokens)], self._ids)
        scores.width = self._fixed
        return scores

    def _inputs(self, ids: torch.Tensor) -> dict:
        end = len(self._ids)
        positions = torch.arange(end - ids.shape[1], end, device=ids.device)
        if self.context_limit is not None:
            positions = positions.clamp(max=self.context_limit - 1)  # padding may lie beyond
        return {"input_ids": ids, "position_ids": positions[None]}


def why_not_static(model: PreTrainedModel) -> str | None:
    """What keeps a model out of strict mode, as the end of a sentence; None when nothing does."""
    config = model.config.get_text_config(decoder=True)
    if model.config.is_encoder_decoder:
        return "its decoder reads a second cache"
    layers = DynamicCache(config=config).layers
    if any(type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers):
        return "it keeps more than keys and values"
    if getattr(config, "alibi", False) or config.model_type == "mpt":
        return "its ALiBi positions fit no cache of fixed length"
    if any("experts" in name and count for name, count in config.to_dict().items()):
        return "its experts round a token by which others share its pass"
    return None
