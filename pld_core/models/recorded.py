"""A recorded output in the model's place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

from pld_core import tree

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

    def along(self, rows: Sequence[int]) -> RecordedScores:
        return RecordedScores([self.choices[row] for row in rows], self.width)


class RecordedTarget:
    """Chooses the tokens of a recorded greedy output [T], one after the other; see Target.

    Exact, not modelled: decoding is deterministic, so at every position the model would choose
    again what it chose, and whatever is drafted is accepted or rejected as it would be.
    """

    vocabulary = 2**31
    trees = True

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

    def forward(self, tokens: Sequence[int], parents: Sequence[int] = ()) -> RecordedScores:
        known = self._output[self._kept : self._kept + len(tokens)]
        known += [_UNKNOWN] * (len(tokens) - len(known))
        if parents:  # at a node that was never walked to, any choice will do
            known = [known[depth] for depth in (0, *tree.depths(parents))]
        return RecordedScores(known, len(tokens))

    def commit(self, positions: int, rows: Sequence[int] | None = None) -> None:
        self._kept += positions
