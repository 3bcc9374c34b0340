"""The longest earlier n-gram that equals the context's suffix: the most recent or the oldest."""

from __future__ import annotations

from typing import Sequence

from pld_core.events import Match
from pld_core.lookup.index import NgramIndex
from pld_core.lookup.protocol import Draft
from pld_core.settings import Settings


class NgramLookup:
    """Longest match first, from n_max down to n_min tokens; among equals the most recent (or
    the oldest). A reference text stands before the prompt: it is the oldest of all.

    Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding, is the idea; that a short
    continuation is a short draft and not none, and that the newest token is part of the
    search, are where its descendants went wrong (ml-explore/mlx-examples#202, jjang-ai/vmlx#150).
    """

    def __init__(self, settings: Settings, reference: Sequence[int] = ()) -> None:
        oldest = settings.policy == "oldest"
        self._n = range(settings.n_max, settings.n_min - 1, -1)
        self._periodic = settings.periodic
        self._prompt_only = settings.search == "prompt"
        self._prompt_length: int | None = None
        self._context = NgramIndex(settings.n_max, oldest)
        self._reference = NgramIndex(settings.n_max, oldest)
        self._reference.extend(reference)
        self._places = (
            [self._reference, self._context] if oldest else [self._context, self._reference]
        )

    def extend(self, tokens: Sequence[int]) -> None:
        first = self._prompt_length is None
        self._context.extend(tokens, enter=first or not self._prompt_only)
        if first:
            self._prompt_length = len(tokens)

    def propose(self, k: int) -> Draft:
        if k < 1:
            return Draft()
        for n in self._n:
            key = self._context.suffix(n)
            if key is None:
                continue
            hits = [(place, hit) for place in self._places if (hit := place.find(n, key))]
            if hits:
                place, (start, _) = hits[0]
                alternatives = sum(count for _, (_, count) in hits)
                return Draft(
                    self._copy(place, start + n, k),
                    Match(start, n, self._region(place, start)),
                    alternatives,
                )
        return Draft()

    def _copy(self, place: NgramIndex, begin: int, k: int) -> list[int]:
        draft = place.tokens[begin : begin + k]
        if self._periodic and place is self._context:
            # aaaa, abab: what follows the end of the context is the draft itself
            period = len(place.tokens) - begin
            while len(draft) < k:
                draft.append(draft[len(draft) - period])
        return draft

    def _region(self, place: NgramIndex, start: int) -> str:
        if place is self._reference:
            return "reference"
        return "prompt" if start < self._prompt_length else "output"
