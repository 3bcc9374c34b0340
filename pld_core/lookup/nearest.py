"""Among equal matches the one nearest to where the last copy was going."""

from __future__ import annotations

from typing import Sequence

from pld_core.lookup.ngram import NgramLookup
from pld_core.settings import Settings

REACH = 8
# The place itself, then one further on, one before, two further on, ...
_AROUND = sorted(range(-REACH, REACH + 1), key=lambda offset: (abs(offset), -offset))


class NearestLookup(NgramLookup):
    """A model that changes a word of what it copies goes on behind that word. So after a
    proposal that came true, if only in its first token, the place in the source moves on with
    every kept token; of the longest match the place is copied whose continuation stands nearest
    to that, at most REACH tokens away (of two as near the later), and the most recent when
    there is none. Looks at 2 REACH + 1 places at most.
    """

    def __init__(self, settings: Settings, reference: Sequence[int] = ()) -> None:
        super().__init__(settings, reference)
        self._proposed: int | None = None  # where the newest proposal was copied from
        self._going: int | None = None  # where the last copy would go on
        self._in_reference = False

    def extend(self, tokens: Sequence[int]) -> None:
        source = self._index.tokens
        if self._proposed is not None and tokens and source[self._proposed] == tokens[0]:
            self._going = self._proposed
            self._in_reference = self._going < self._border
        if self._going is not None:
            self._going += len(tokens)
        self._proposed = None
        super().extend(tokens)

    def _place(self, n: int, start: int, count: int) -> int:
        if count > 1 and self._going is not None:
            start = self._nearest(n, start)
        self._proposed = start + n
        return start

    def _nearest(self, n: int, start: int) -> int:
        tokens = self._index.tokens
        if self._in_reference:
            first, end = 0, self._border
        else:
            first, end = self._border, self._prompt_end if self._prompt_only else len(tokens)
        suffix = tokens[len(tokens) - n :]
        for offset in _AROUND:
            near = self._going + offset - n
            if first <= near < end - n and tokens[near : near + n] == suffix:
                return near
        return start
