"""Among equal matches the continuation that most of them share."""

from __future__ import annotations

from pld_core.lookup.index import NgramIndex
from pld_core.lookup.ngram import NgramLookup


class VoteIndex(NgramIndex):
    """Of every n-gram the most recent place that is followed by its most frequent next token; of
    two tokens as frequent the more recent wins. The newest place is the only one that can
    change that, so each costs O(1) and none is left out of the count."""

    def __init__(self, n_max: int) -> None:
        super().__init__(n_max)
        self._votes: list[dict[int, int]] = [{} for _ in range(n_max + 1)]  # of n + 1 tokens
        self._most: list[dict[int, int]] = [{} for _ in range(n_max + 1)]

    def _enter(self, n: int, key: int, start: int, token: int) -> None:
        followed = key << self._SHIFT | token
        votes = self._votes[n].get(followed, 0) + 1
        self._votes[n][followed] = votes
        if votes >= self._most[n].get(key, 0):
            self._most[n][key] = votes
            self._start[n][key] = start


class VoteLookup(NgramLookup):
    """Of the places of the longest match, those vote that stand before what may be copied."""

    index = VoteIndex
