"""What a lookup is: it sees every kept token once and proposes what may follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, Sequence

from pld_core.events import Match


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
