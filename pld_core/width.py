"""How many drafted positions are worth their time.

A draft token costs time whether it stands or not. Knowing what a pass of each width costs on
this device and how often drafts have stood in this text, a pass should be as wide as makes
expected tokens per second largest, and plain where no draft beats none. So a text with nothing
to copy is decoded at the speed of plain decoding.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Sequence

from pld_core import tree
from pld_core.cost import PassCost
from pld_core.events import Branch, Match
from pld_core.lookup import Draft, Lookup, build
from pld_core.settings import Settings


@dataclass(slots=True, eq=False)
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


_AGREED = (1, 2, 3, 8, 16, 32, 64)
"""Classes of how many tokens a place and the context's end agree in before a draft: so many or
more. A copy that has gone on for long goes on, so a long draft behind it is no bet."""

_FIRST = (0.25, 0.475, 0.7, 0.75, 0.85, 0.9, 0.95)
_FURTHER = (0.6, 0.75, 0.85, 0.9, 0.93, 0.95, 0.98)
_BESIDE = (0.14, 0.09, 0.05)
"""What is believed of each class before a text has shown its own: what recorded answers of the
embedded model showed, rounded."""


class AdaptiveLookup:
    """A lookup whose drafts are cut to the length that pays.

    A draft is expected to keep p1 * (1 + p2 + p2^2 + ...) tokens: its first stands with
    probability p1, each further one, once one stood, with p2; both are learned per class of how
    far back the match goes on, beyond the n-gram that was searched for. In a tree a token that
    stands beside others, the r-th of the continuations that part there, has a chance of its own,
    learned per r and the class of the first; the nodes that are likeliest to stand are drafted,
    as many as pay.

    The learning needs no drafting: every proposal, also one that was not drafted or only in part,
    is compared with what the text became. So a text that starts free and ends quoting is noticed
    at the first quote, without a probe that costs a pass. Chances can mislead, the balance cannot:
    while the drafts so far have cost more than they saved, one must promise more than a little.
    """

    LEAST = 1.05
    """What a draft must promise: more than plain decoding, because it costs more than its pass."""
    DEBT = 0.25
    """Plain passes that the drafts may be behind before one must promise PROMISE."""
    PROMISE = 1.2

    def __init__(self, lookup: Lookup, cost: PassCost, reference: Sequence[int] = ()) -> None:
        self._lookup = lookup
        self._cost = cost
        self._text = [*reference]  # and the context behind it
        self._border = len(reference)
        self._first = [_Chance(p * 2, 2.0) for p in _FIRST]
        self._further = [_Chance(p * 8, 8.0) for p in _FURTHER]
        self._beside = [[_Chance(p * 12, 12.0) for p in _BESIDE] for _ in _AGREED]
        self._pending: list[_Proposal] = []
        self._plain = cost.seconds(1)
        self._drafted: int | None = None  # by the newest proposal
        self._saved = 0.0  # seconds, of plain decoding's

    def extend(self, tokens: Sequence[int]) -> None:
        if self._drafted is not None:
            self._saved += len(tokens) * self._plain - self._cost.seconds(1 + self._drafted)
            self._drafted = None
        self._compare(tokens)
        self._text.extend(tokens)
        self._lookup.extend(tokens)

    def propose(self, k: int) -> Draft:
        draft = self._lookup.propose(k)
        if draft.match is None:
            return draft
        proposal = self._proposal(draft)
        self._pending.append(proposal)
        nodes, gain = self._best(proposal)
        self._drafted = len(nodes)
        if not nodes:
            return Draft(gain=gain)
        if draft.parents:
            return replace(draft, gain=gain).only(lambda node, depth: node in nodes)
        return replace(draft, tokens=draft.tokens[: len(nodes)], gain=gain)

    def _proposal(self, draft: Draft) -> _Proposal:
        parents = draft.parents or list(range(-1, len(draft.tokens) - 1))
        branches = draft.branches or [Branch(len(parents) - 1, draft.match)]
        classes = [0] * len(parents)  # that of the match that each node was copied from first
        for branch in reversed(branches):
            own = self._class(branch.match)
            for node in tree.path(parents, branch.leaf):
                classes[node] = own
        elder: dict[int, list[int]] = {}  # the children that each node has so far
        chances = []
        for node, parent in enumerate(parents):
            siblings = elder.setdefault(parent, [])
            siblings.append(node)
            own = classes[siblings[0]]
            if len(siblings) > 1:
                beside = self._beside[own]
                chances.append(beside[min(len(siblings) - 1, len(beside)) - 1])
            else:
                chances.append((self._first if parent < 0 else self._further)[own])
        return _Proposal(draft.tokens, parents, chances)

    def _class(self, match: Match) -> int:
        """Which of _AGREED the match belongs to: how far back the same tokens stand before both
        its place and the context's end."""
        text, border = self._text, self._border
        here, there, least = len(text) - match.n, border + match.start, border
        if match.region == "reference":
            there, least = match.start, 0
        agreed = match.n
        while (
            agreed < _AGREED[-1]
            and there > least
            and here > border
            and text[there - 1] == text[here - 1]
        ):
            here, there, agreed = here - 1, there - 1, agreed + 1
        return bisect(_AGREED, agreed) - 1

    def _best(self, proposal: _Proposal) -> tuple[set[int], float]:
        """The best nodes, and their expected tokens per second over those of a plain pass."""
        stands: list[float] = []
        for parent, chance in zip(proposal.parents, proposal.chances):
            stands.append((stands[parent] if parent >= 0 else 1.0) * chance.value)
        # no node is likelier than the one above it, so any number of the likeliest are a tree
        likeliest = sorted(range(len(stands)), key=lambda node: -stands[node])
        behind = self._saved < -self.DEBT * self._plain
        best, best_gain, tokens = 0, self.PROMISE if behind else self.LEAST, 1.0
        for count, node in enumerate(likeliest, 1):
            tokens += stands[node]
            gain = tokens * self._plain / self._cost.seconds(1 + count)
            if gain > best_gain:
                best, best_gain = count, gain
        return set(likeliest[:best]), best_gain if best else 1.0

    def _compare(self, tokens: Sequence[int]) -> None:
        self._pending = [proposal for proposal in self._pending if not proposal.judged(tokens)]


@dataclass(slots=True)
class _Proposal:
    """A draft as it was proposed, as a tree, with each node's chance to follow its parent, and
    the nodes that have come true."""

    tokens: list[int]
    parents: list[int]
    chances: list[_Chance]
    path: list[int] = field(default_factory=list)

    def judged(self, tokens: Sequence[int]) -> bool:
        """Takes what the text became. Once no more of the draft can come true its chances learn
        from it, and it is judged."""
        for token in tokens:
            below = [node for node in self._children() if self.tokens[node] == token]
            if not below:
                break
            self.path.append(below[0])
        else:
            if self._children():
                return False
        self._learn()
        return True

    def _children(self) -> list[int]:
        last = self.path[-1] if self.path else -1
        return [node for node in range(last + 1, len(self.parents)) if self.parents[node] == last]

    def _learn(self) -> None:
        stood: Counter[_Chance] = Counter()
        tried: Counter[_Chance] = Counter()
        walked = {-1, *self.path}
        for node, parent in enumerate(self.parents):
            if parent in walked:
                tried[self.chances[node]] += 1
                stood[self.chances[node]] += node in walked
        for chance, times in tried.items():
            chance.learn(stood[chance], times)


def needs_cost(settings: Settings) -> bool:
    """Whether its drafts depend on what passes cost; in strict mode all cost the same."""
    return settings.adaptive and settings.k > 0 and not settings.fixed_width


def drafter(settings: Settings, reference: Sequence[int] = ()) -> Lookup:
    """The lookup that the settings ask for, adaptive where they say so and know the costs."""
    lookup = build(settings, reference)
    if not needs_cost(settings) or not settings.pass_seconds:
        return lookup
    return AdaptiveLookup(lookup, PassCost(settings.pass_seconds), reference)
