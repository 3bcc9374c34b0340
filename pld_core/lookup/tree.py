"""Several continuations at once: what a policy drafts, and what else followed the same tokens."""

from __future__ import annotations

from collections import deque
from typing import Iterator, Sequence

from pld_core.events import Branch
from pld_core.lookup.index import NgramIndex
from pld_core.lookup.ngram import NgramLookup
from pld_core.lookup.protocol import Draft, Lookup
from pld_core.settings import Settings
from pld_core.tree import NODES

PLACES = 8
"""So many of the latest places of an n-gram are looked at: what a lookup costs is bounded."""


class PlacesIndex(NgramIndex):
    """The latest places of every n-gram, PLACES of them."""

    def __init__(self, n_max: int) -> None:
        super().__init__(n_max)
        self._places: list[dict[int, deque[int]]] = [{} for _ in range(n_max + 1)]

    def places(self, n: int, key: int) -> list[int]:
        """Where a packed n-gram starts, the latest first."""
        return list(self._places[n].get(key, ()))[::-1]

    def _enter(self, n: int, key: int, start: int, token: int) -> None:
        self._places[n].setdefault(key, deque(maxlen=PLACES)).append(start)


class TreeLookup(NgramLookup):
    """The first branch is the draft of a policy, so a tree keeps whatever its chain would. The
    others are the continuations that differ from those before, of the longest n-gram first and
    the latest place first, merged where they begin alike. Shorter n-grams come when the longer
    ones have no more to say: their places hold those of the longer ones too.
    """

    index = PlacesIndex

    def __init__(self, first: Lookup, settings: Settings, reference: Sequence[int] = ()) -> None:
        super().__init__(settings, reference)
        self._first = first
        self._branches = settings.branches

    def extend(self, tokens: Sequence[int]) -> None:
        self._first.extend(tokens)
        super().extend(tokens)

    def propose(self, k: int) -> Draft:
        first = self._first.propose(k)
        if first.match is None or len(first.tokens) >= NODES:
            return first
        grown = _Growing()
        for draft in [first, *self._others(k)]:
            grown.add(draft)
            if len(grown.branches) == self._branches or len(grown.tokens) == NODES:
                break
        if len(grown.branches) == 1:
            return first
        return Draft(
            grown.tokens,
            first.match,
            first.alternatives,
            parents=grown.parents,
            branches=grown.branches,
        )

    def _others(self, k: int) -> Iterator[Draft]:
        ends: set[int] = set()
        for n in self._n:
            key = self._index.suffix(n)
            for start in () if key is None else self._index.places(n, key):
                if start + n not in ends:
                    ends.add(start + n)
                    yield self._draft(start, n, 1, k)


class _Growing:
    """A tree that takes one branch after the other, up to NODES nodes."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.branches: list[Branch] = []
        self._child: dict[tuple[int, int], int] = {}  # (node, token) -> node

    def add(self, draft: Draft) -> None:
        """A branch that has nothing of its own is none."""
        at, before = -1, len(self.tokens)
        for token in draft.tokens:
            child = self._child.get((at, token))
            if child is None:
                if len(self.tokens) == NODES:
                    break
                child = self._child[at, token] = len(self.tokens)
                self.tokens.append(token)
                self.parents.append(at)
            at = child
        if len(self.tokens) > before:
            self.branches.append(Branch(at, draft.match))
