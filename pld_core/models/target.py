"""What the decoder needs of a model: one sequence, run forward and rolled back."""

from __future__ import annotations

from typing import Iterator, Protocol, Sequence


class Scores(Protocol):
    """What the target thinks after each of the W positions of one forward pass."""

    choices: Sequence[int]
    """[W] the target's own next token after each position."""

    width: int
    """How many positions the pass really ran, >= W."""

    late: bool
    """Whether the choices may still be on their way from a device, and what is done before they
    are read is no time lost; without this attribute they are here."""

    def kept(self, rows: int) -> tuple[list[float], list[float]]:
        """Probabilities [rows] and top-2 logit margins [rows] of the first rows' choices."""

    def favourites(self, row: int, count: int) -> list[tuple[int, float]]:
        """The `count` likeliest (token, probability) after position `row`, best first."""

    def along(self, rows: Sequence[int]) -> Scores:
        """The scores of these positions alone, in this order: one way through a tree. Asked of
        the scores of trees only."""


class Target(Protocol):
    """A model with the cache of one sequence.

    After `prefill` or `commit` the cache holds the whole context but its newest token, which
    no position has read yet: that is the first token of the next `forward`.
    """

    vocabulary: int
    """Token ids are below this."""

    context_limit: int | None
    """Positions the model has, None when there is no limit."""

    trees: bool
    """Whether `forward` takes trees; a target without this attribute takes none."""

    @property
    def room(self) -> int:
        """How many more positions can be forwarded."""

    def read(self, ids: Sequence[int]) -> Iterator[int]:
        """Run a prompt from an empty cache in parts, all but the last one, and yield after each
        how many of its positions are read. A target without this method takes a prompt in one
        go."""

    def prefill(self, ids: Sequence[int]) -> Scores:
        """Run the prompt [P >= 1] from an empty cache, or what `read` has left of it: in the same
        parts either way, so that nobody who asks for them changes a number. The scores are those
        of its last position alone (W = 1)."""

    def forward(self, tokens: Sequence[int], parents: Sequence[int] = ()) -> Scores:
        """Run W <= room further positions. On a GPU they may still be running when this returns:
        reading the choices waits for them.

        parents [W - 1], given for a tree alone: tokens[1:] are its nodes and tokens[0] is its
        root, see pld_core.tree. A position then sees the context and the nodes above it, and
        its place in the context is its depth.
        """

    def commit(self, positions: int, rows: Sequence[int] = ()) -> None:
        """Of the last forward's positions keep the first `positions`, forget the others. After a
        tree `rows` are the positions of its accepted nodes, one below the other: the first one
        of all and the first `positions` - 1 of them are kept, and the cache is as if nothing
        else had been read."""
