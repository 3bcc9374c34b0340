"""The longest earlier n-gram that equals the context's suffix: the most recent or the oldest."""

from __future__ import annotations

from typing import Sequence

from pld_core.events import Match
from pld_core.lookup.index import NgramIndex, OldestIndex
from pld_core.lookup.protocol import Draft
from pld_core.settings import Settings


class NgramLookup:
    """Longest match first, from n_max down to n_min tokens; among equals the most recent. A
    reference text stands before the prompt: it is the oldest of all. Places are positions in
    the reference and the context behind it.

    Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding, is the idea; that a short
    continuation is a short draft and not none, and that the newest token is part of the
    search, are where its descendants went wrong (ml-explore/mlx-examples#202, jjang-ai/vmlx#150).
    """

    index: type[NgramIndex] = NgramIndex

    def __init__(self, settings: Settings, reference: Sequence[int] = ()) -> None:
        self._n = range(settings.n_max, settings.n_min - 1, -1)
        self._periodic = settings.periodic
        self._prompt_only = settings.search == "prompt"
        self._prompt_end: int | None = None
        self._index = self.index(settings.n_max)
        self._index.extend(reference)
        self._index.end_text()
        self._border = len(reference)

    def extend(self, tokens: Sequence[int]) -> None:
        first = self._prompt_end is None
        self._index.extend(tokens, enter=first or not self._prompt_only)
        if first:
            self._prompt_end = len(self._index.tokens)

    def propose(self, k: int) -> Draft:
        if k < 1:
            return Draft()
        for n in self._n:
            key = self._index.suffix(n)
            hit = None if key is None else self._index.find(n, key)
            if hit:
                start, count = hit
                return self._draft(self._place(n, start, count), n, count, k)
        return Draft()

    def _place(self, n: int, start: int, count: int) -> int:
        """Which of `count` places of the last n tokens is copied; the index has `start`."""
        return start

    def _draft(self, start: int, n: int, count: int, k: int) -> Draft:
        tokens = self._index.tokens
        begin = start + n
        if start < self._border:
            draft = tokens[begin : min(begin + k, self._border)]
            return Draft(draft, Match(start, n, "reference"), count)
        draft = tokens[begin : begin + k]
        if self._periodic:
            # aaaa, abab: what follows the end of the context is the draft itself
            period = len(tokens) - begin
            while len(draft) < k:
                draft.append(draft[len(draft) - period])
        region = "prompt" if start < self._prompt_end else "output"
        return Draft(draft, Match(start - self._border, n, region), count)


class OldestLookup(NgramLookup):
    """The oldest of equal matches, as transformers and the first PLD choose."""

    index = OldestIndex
