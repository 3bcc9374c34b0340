"""A recorded output in the model's place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

_UNKNOWN = -1  # equals no token: nothing is accepted beyond the recorded output


@dataclass(slots=True)
class RecordedScores:
    """The choices that the recorded model made; see Scores. It recorded no other logits."""

    choices: list[int]
    width: int

    def kept(self, rows: int) -> tuple[list[float], list[float]]:
        return [], []

    def favourites(self, row: int, count: int) -> list[tuple[int, float]]:
        return []


class RecordedTarget:
    """Chooses the tokens of a recorded greedy output [T], one after the other; see Target.

    Exact, not modelled: decoding is deterministic, so at every position the model would choose
    again what it chose, and whatever is drafted is accepted or rejected as it would be.
    """

    vocabulary = 2**31

    def __init__(self, output: Sequence[int], context_limit: int | None) -> None:
        self.context_limit = context_limit
        self._output = list(output)
        self._kept = 0
        self._prompt = 0

    @property
    def room(self) -> int:
        if self.context_limit is None:
            return 2**31
        return self.context_limit - (self._prompt + self._kept - 1)

    def prefill(self, ids: Sequence[int]) -> RecordedScores:
        self._prompt, self._kept = len(ids), 1
        return RecordedScores(self._output[:1], len(ids))

    def forward(self, tokens: Sequence[int]) -> RecordedScores:
        known = self._output[self._kept : self._kept + len(tokens)]
        return RecordedScores(
            known + [_UNKNOWN] * (len(tokens) - len(known)), len(tokens)
        )

    def commit(self, positions: int) -> None:
        self._kept += positions
