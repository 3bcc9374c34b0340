"""Encoder-decoder models (T5, BART and their kin)."""

from __future__ import annotations

from typing import Iterator, Sequence

import torch
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel

from pld_core.models.eager import EagerTarget
from pld_core.sampling import ChosenScores, Chooser


class EncoderDecoderTarget(EagerTarget):
    """The prompt goes through the encoder once; the passes are the decoder's. See Target.

    The lookup still searches prompt and output as one context, so it drafts from the text
    that is being summarised, which transformers' own prompt lookup never sees.
    """

    def __init__(self, model: PreTrainedModel, chooser: Chooser) -> None:
        super().__init__(model, chooser)
        self._cache = EncoderDecoderCache(self._cache, DynamicCache())
        self._encoded = None

    def read(self, ids: Sequence[int]) -> Iterator[int]:
        return iter(())  # an encoder looks both ways, so it reads its text in one go

    def prefill(self, ids: Sequence[int]) -> ChosenScores:
        with torch.inference_mode():
            prompt = torch.tensor([list(ids)], device=self._model.device)
            self._encoded = self._model.get_encoder()(input_ids=prompt)
        return super().prefill([decoder_start(self._model)])

    def _inputs(self, ids: torch.Tensor) -> dict:
        return {"decoder_input_ids": ids, "encoder_outputs": self._encoded}


def decoder_start(model: PreTrainedModel) -> int:
    """The token that a decoder of this model begins with.

    Raises ValueError when the model names none.
    """
    for config in (model.generation_config, model.config.get_text_config(decoder=True)):
        for name in ("decoder_start_token_id", "bos_token_id"):
            token = getattr(config, name, None)
            if isinstance(token, int):
                return token
    raise ValueError("The model names no token to start its decoder with.")
