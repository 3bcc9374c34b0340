"""What a lookup is: it sees every kept token once and proposes what may follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Protocol, Sequence

from pld_core import tree
from pld_core.events import Branch, Match


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens copied from behind `match`; `alternatives` counts the places where the matched
    n-gram stands, the chosen one included, 0 where they were not counted. No tokens, no match.
    gain: expected tokens per second over those of a plain pass, where the length was chosen by it
    (1.0: a match, but no draft was expected to pay).

    Several continuations at once are a tree: `parents` and `branches` as in events.Pass, the
    first branch's match also in `match`. Both are empty for a chain."""

    tokens: list[int] = field(default_factory=list)
    match: Match | None = None
    alternatives: int = 0
    gain: float | None = None
    parents: list[int] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)

    def match_of(self, path: Sequence[int]) -> Match | None:
        """Where the continuation was copied from on which the accepted nodes `path` lie."""
        if not self.parents:
            return self.match
        leaves = [branch.leaf for branch in self.branches]
        return self.branches[tree.kept(self.parents, leaves, path)].match

    def after(self, path: Sequence[int]) -> bool:
        """Whether something was drafted behind the accepted nodes `path`."""
        if not self.parents:
            return len(path) < len(self.tokens)
        return (path[-1] if path else -1) in self.parents

    def chain(self, branch: int) -> Draft:
        """One branch of a tree, by its place, as a chain."""
        if not self.branches:
            return Draft(gain=self.gain)
        leaf, match = self.branches[branch].leaf, self.branches[branch].match
        tokens = [self.tokens[node] for node in tree.path(self.parents, leaf)]
        return Draft(tokens, match, self.alternatives, self.gain)

    def only(self, wanted: Callable[[int, int], bool]) -> Draft:
        """The tree of the nodes that are wanted, as are all they follow: `wanted(node, depth)`.
        Whatever is no tree is cut: nodes that stand before their parents, and those on none of
        the first BRANCHES branches. A branch that is left without a node of its own is none."""
        depths: list[int] = []  # 0 for a node that goes
        for node, (_, parent) in enumerate(zip(self.tokens, self.parents)):
            above = 0 if parent == -1 else depths[parent] if 0 <= parent < node else None
            lost = above is None or (above == 0 and parent != -1)
            depths.append(0 if lost or not wanted(node, above + 1) else above + 1)
        branches: list[Branch] = []
        nodes: set[int] = set()
        for branch in self.branches[: tree.BRANCHES]:
            leaf = branch.leaf if branch.leaf < len(depths) else -1
            while leaf >= 0 and depths[leaf] == 0:
                leaf = self.parents[leaf] if self.parents[leaf] < leaf else -1
            if leaf >= 0 and leaf not in nodes:
                branches.append(Branch(leaf, branch.match))
                nodes.update(tree.path(self.parents, leaf))
        place = {node: place for place, node in enumerate(sorted(nodes))} | {-1: -1}
        if not nodes:
            return Draft(gain=self.gain)
        return Draft(
            [self.tokens[node] for node in sorted(nodes)],
            branches[0].match,
            self.alternatives,
            self.gain,
            [place[self.parents[node]] for node in sorted(nodes)],
            [Branch(place[branch.leaf], branch.match) for branch in branches],
        )


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
