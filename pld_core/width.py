"""How many drafted positions are worth their time.

A draft token costs time whether it stands or not. Knowing what a pass of each width costs on
this device and how often drafts have stood in this text, a pass should be as wide as makes
expected tokens per second largest, and plain where no draft beats none. So a text with nothing
to copy is decoded at the speed of plain decoding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Sequence

from pld_core.accept import agreement
from pld_core.cost import PassCost
from pld_core.lookup import Draft, Lookup, build
from pld_core.settings import Settings


@dataclass(slots=True)
class _Chance:
    """A probability, learned with a little patience: old evidence fades."""

    stood: float
    tried: float

    MEMORY = 24.0

    @property
    def value(self) -> float:
        return self.stood / self.tried

    def learn(self, stood: int, tried: int) -> None:
        fade = min(1.0, self.MEMORY / (self.tried + tried))
        self.stood = (self.stood + stood) * fade
        self.tried = (self.tried + tried) * fade


class AdaptiveLookup:
    """A lookup whose drafts are cut to the length that pays.

    A draft of a match of n tokens is expected to keep p1 * (1 + p2 + p2^2 + ...) tokens: its
    first stands with probability p1, each further one, once one stood, with p2; both are learned
    per match length. The learning needs no drafting: every proposal, also one that was not
    drafted or only in part, is compared with what the text became. So a text that starts free
    and ends quoting is noticed at the first quote, without a probe that costs a pass.
    """

    def __init__(self, lookup: Lookup, cost: PassCost, n_max: int) -> None:
        self._lookup = lookup
        self._cost = cost
        self._first = [_Chance(p * 2, 2.0) for p in _spread(0.25, 0.7, n_max)]
        self._further = [_Chance(p * 8, 8.0) for p in _spread(0.6, 0.9, n_max)]
        self._pending: list[tuple[Draft, int]] = []  # a proposal and how much of it has come true
        self._plain = cost.seconds(1)

    def extend(self, tokens: Sequence[int]) -> None:
        self._compare(tokens)
        self._lookup.extend(tokens)

    def propose(self, k: int) -> Draft:
        draft = self._lookup.propose(k)
        if draft.match is None:
            return draft
        self._pending.append((draft, 0))
        length, gain = self._best(draft)
        if length == 0:
            return Draft(gain=gain)
        return replace(draft, tokens=draft.tokens[:length], gain=gain)

    def _best(self, draft: Draft) -> tuple[int, float]:
        """The best length, and its expected tokens per second over those of a plain pass."""
        slot = self._slot(draft)
        first, further = self._first[slot].value, self._further[slot].value
        best, best_gain = 0, 1.0
        tokens, stands = 1.0, first
        for length in range(1, len(draft.tokens) + 1):
            tokens += stands
            stands *= further
            gain = tokens * self._plain / self._cost.seconds(1 + length)
            if gain > best_gain:
                best, best_gain = length, gain
        return best, best_gain

    def _compare(self, tokens: Sequence[int]) -> None:
        open_still = []
        for draft, known in self._pending:
            rest = draft.tokens[known : known + len(tokens)]
            agreed = agreement(rest, tokens)
            if agreed == len(rest) and known + agreed < len(draft.tokens):
                open_still.append((draft, known + agreed))
            else:
                self._learn(draft, known + agreed)
        self._pending = open_still

    def _learn(self, draft: Draft, agreed: int) -> None:
        slot = self._slot(draft)
        self._first[slot].learn(int(agreed > 0), 1)
        if agreed > 0 and len(draft.tokens) > 1:
            tried = min(agreed, len(draft.tokens) - 1)
            self._further[slot].learn(agreed - 1, tried)

    def _slot(self, draft: Draft) -> int:
        return min(draft.match.n, len(self._first)) - 1


def needs_cost(settings: Settings) -> bool:
    """Whether its drafts depend on what passes cost; in strict mode all cost the same."""
    return settings.adaptive and settings.k > 0 and not settings.fixed_width


def drafter(settings: Settings, reference: Sequence[int] = ()) -> Lookup:
    """The lookup that the settings ask for, adaptive where they say so and know the costs."""
    lookup = build(settings, reference)
    if not needs_cost(settings) or not settings.pass_seconds:
        return lookup
    return AdaptiveLookup(lookup, PassCost(settings.pass_seconds), settings.n_max)


def _spread(low: float, high: float, count: int) -> list[float]:
    return [low + (high - low) * i / max(1, count - 1) for i in range(count)]
