"""What the decoder needs of a model: one sequence, run forward and rolled back."""

from __future__ import annotations

from typing import Protocol, Sequence


class Scores(Protocol):
    """What the target thinks after each of the W positions of one forward pass."""

    choices: Sequence[int]
    """[W] the target's own next token after each position."""

    width: int
    """How many positions the pass really ran, >= W."""

    def kept(self, rows: int) -> tuple[list[float], list[float]]:
        """Probabilities [rows] and top-2 logit margins [rows] of the first rows' choices."""

    def favourites(self, row: int, count: int) -> list[tuple[int, float]]:
        """The `count` likeliest (token, probability) after position `row`, best first."""


class Target(Protocol):
    """A model with the cache of one sequence.

    After `prefill` or `commit` the cache holds the whole context but its newest token, which
    no position has read yet: that is the first token of the next `forward`.
    """

    vocabulary: int
    """Token ids are below this."""

    context_limit: int | None
    """Positions the model has, None when there is no limit."""

    @property
    def room(self) -> int:
        """How many more positions can be forwarded."""

    def prefill(self, ids: Sequence[int]) -> Scores:
        """Run the prompt [P >= 1] from an empty cache. The scores are those of its last
        position alone (W = 1)."""

    def forward(self, tokens: Sequence[int]) -> Scores:
        """Run W <= room further positions; returns when the choices are on the host."""

    def commit(self, positions: int) -> None:
        """Of the last forward's positions keep the first `positions`, forget the others."""
