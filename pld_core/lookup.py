"""Where drafts come from: the earlier n-gram that equals the context's suffix.

A lookup sees every kept token once (`extend`) and proposes what may follow (`propose`). The
decoder checks every draft, so a lookup decides how many passes a text takes, never the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, Sequence

from pld_core.events import Match
from pld_core.settings import Settings


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens copied from behind `match`; `alternatives` counts the places where the matched
    n-gram stands, the chosen one included. No tokens, no match. gain: expected tokens per second
    over those of a plain pass, where the length was chosen by it (1.0: a match, but no draft
    was expected to pay)."""

    tokens: list[int] = field(default_factory=list)
    match: Match | None = None
    alternatives: int = 0
    gain: float | None = None


class Lookup(Protocol):
    """A policy: any class with these two methods can draft."""

    def extend(self, tokens: Sequence[int]) -> None:
        """Append kept tokens to the context; the first call brings the whole prompt."""

    def propose(self, k: int) -> Draft:
        """At most k tokens that may follow the context. Does not change the context."""


class NoLookup:
    """Plain decoding."""

    def extend(self, tokens: Sequence[int]) -> None:
        pass

    def propose(self, k: int) -> Draft:
        return Draft()


class NgramIndex:
    """Where each n-gram of up to `n_max` tokens stands in a growing text.

    An n-gram is entered when a token follows it, so the text's own suffix is never found as
    its own match and every hit has a continuation. Costs O(n_max) per appended token and
    O(1) per find, whatever the length of the text.
    """

    _SHIFT = 32  # token ids fit 32 bits, so packed n-grams cannot collide

    def __init__(self, n_max: int, oldest: bool = False) -> None:
        self.tokens: list[int] = []
        self.n_max = n_max
        self._oldest = oldest
        self._suffix = [0] * (n_max + 1)  # [n]: the last n tokens, packed into one integer
        self._start: list[dict[int, int]] = [{} for _ in range(n_max + 1)]
        self._count: list[dict[int, int]] = [{} for _ in range(n_max + 1)]

    def extend(self, tokens: Sequence[int], enter: bool = True) -> None:
        """Append tokens; with enter=False n-grams that they continue are not entered."""
        suffix = self._suffix
        for token in tokens:
            length = len(self.tokens)
            if enter:
                for n in range(1, min(self.n_max, length) + 1):
                    key = suffix[n]
                    if not (self._oldest and key in self._start[n]):
                        self._start[n][key] = length - n
                    self._count[n][key] = self._count[n].get(key, 0) + 1
            for n in range(self.n_max, 0, -1):
                suffix[n] = suffix[n - 1] << self._SHIFT | token
            self.tokens.append(token)

    def suffix(self, n: int) -> int | None:
        """The packed last n tokens, None when there are fewer."""
        return self._suffix[n] if 0 < n <= len(self.tokens) else None

    def find(self, n: int, key: int) -> tuple[int, int] | None:
        """(start, how many) of a packed n-gram, or None."""
        start = self._start[n].get(key)
        return None if start is None else (start, self._count[n][key])


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


POLICIES = {"recent": NgramLookup, "oldest": NgramLookup}
"""The class of each policy that the settings name."""


def build(settings: Settings, reference: Sequence[int] = ()) -> Lookup:
    """The lookup that the settings ask for."""
    if settings.k == 0:
        return NoLookup()
    return POLICIES[settings.policy](settings, reference)
