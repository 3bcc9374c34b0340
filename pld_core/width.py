"""How many drafted positions are worth their time.

A draft token costs time whether it stands or not. Knowing what a pass of each width costs on
this device and how often drafts have stood in this text, a pass should be as wide as makes
expected tokens per second largest, and plain where no draft beats none. So a text with nothing
to copy is decoded at the speed of plain decoding.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Sequence

from pld_core import tree
from pld_core.cost import PassCost
from pld_core.events import Branch
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


class AdaptiveLookup:
    """A lookup whose drafts are cut to the length that pays.

    A draft of a match of n tokens is expected to keep p1 * (1 + p2 + p2^2 + ...) tokens: its
    first stands with probability p1, each further one, once one stood, with p2; both are learned
    per match length. In a tree a token that stands beside others, the r-th of the continuations
    that part there, has a chance of its own, learned per r and the match of the first; the nodes
    that are likeliest to stand are drafted, as many as pay.

    The learning needs no drafting: every proposal, also one that was not drafted or only in part,
    is compared with what the text became. So a text that starts free and ends quoting is noticed
    at the first quote, without a probe that costs a pass.
    """

    def __init__(self, lookup: Lookup, cost: PassCost, n_max: int) -> None:
        self._lookup = lookup
        self._cost = cost
        self._first = [_Chance(p * 2, 2.0) for p in _spread(0.25, 0.7, n_max)]
        self._further = [_Chance(p * 8, 8.0) for p in _spread(0.6, 0.9, n_max)]
        self._beside = [[_Chance(p * 12, 12.0) for p in (0.14, 0.09, 0.05)] for _ in self._first]
        self._pending: list[_Proposal] = []
        self._plain = cost.seconds(1)

    def extend(self, tokens: Sequence[int]) -> None:
        self._compare(tokens)
        self._lookup.extend(tokens)

    def propose(self, k: int) -> Draft:
        draft = self._lookup.propose(k)
        if draft.match is None:
            return draft
        proposal = self._proposal(draft)
        self._pending.append(proposal)
        nodes, gain = self._best(proposal)
        if not nodes:
            return Draft(gain=gain)
        if draft.parents:
            return replace(draft, gain=gain).only(lambda node, depth: node in nodes)
        return replace(draft, tokens=draft.tokens[: len(nodes)], gain=gain)

    def _proposal(self, draft: Draft) -> _Proposal:
        parents = draft.parents or list(range(-1, len(draft.tokens) - 1))
        branches = draft.branches or [Branch(len(parents) - 1, draft.match)]
        lengths = [0] * len(parents)  # the match that each node was copied from first
        for branch in reversed(branches):
            for node in tree.path(parents, branch.leaf):
                lengths[node] = branch.match.n
        elder: dict[int, list[int]] = {}  # the children that each node has so far
        chances = []
        for node, parent in enumerate(parents):
            siblings = elder.setdefault(parent, [])
            siblings.append(node)
            slot = min(lengths[siblings[0]], len(self._first)) - 1
            if len(siblings) > 1:
                beside = self._beside[slot]
                chances.append(beside[min(len(siblings) - 1, len(beside)) - 1])
            else:
                chances.append((self._first if parent < 0 else self._further)[slot])
        return _Proposal(draft.tokens, parents, chances)

    def _best(self, proposal: _Proposal) -> tuple[set[int], float]:
        """The best nodes, and their expected tokens per second over those of a plain pass."""
        stands: list[float] = []
        for parent, chance in zip(proposal.parents, proposal.chances):
            stands.append((stands[parent] if parent >= 0 else 1.0) * chance.value)
        # no node is likelier than the one above it, so any number of the likeliest are a tree
        likeliest = sorted(range(len(stands)), key=lambda node: -stands[node])
        best, best_gain, tokens = 0, 1.0, 1.0
        for count, node in enumerate(likeliest, 1):
            tokens += stands[node]
            gain = tokens * self._plain / self._cost.seconds(1 + count)
            if gain > best_gain:
                best, best_gain = count, gain
        return set(likeliest[:best]), best_gain

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
    return AdaptiveLookup(lookup, PassCost(settings.pass_seconds), settings.n_max)


def _spread(low: float, high: float, count: int) -> list[float]:
    return [low + (high - low) * i / max(1, count - 1) for i in range(count)]
