"""Trees of drafts: several continuations that share their beginnings, checked in one pass.

A tree is a list of nodes with the index of each one's parent, which stands before it; -1 is the
context's newest token, the root, which is no node. So the nodes up to any place are a tree.
"""

from __future__ import annotations

from typing import Sequence

BRANCHES = 8
"""A tree has at most so many."""

NODES = 64
"""Beside a first branch, further ones are drafted up to so many nodes in all."""


def path(parents: Sequence[int], node: int) -> list[int]:
    """The nodes from a child of the root down to `node`, itself included; [] for the root."""
    nodes = []
    while node >= 0:
        nodes.append(node)
        node = parents[node]
    return nodes[::-1]


def depths(parents: Sequence[int]) -> list[int]:
    """How many steps each node is from the root, which is at 0."""
    found: list[int] = []
    for parent in parents:
        found.append(1 if parent < 0 else found[parent] + 1)
    return found


def is_chain(parents: Sequence[int]) -> bool:
    """Whether each node is the child of the one before it."""
    return all(parent == node - 1 for node, parent in enumerate(parents))


def on_branches(parents: Sequence[int], leaves: Sequence[int]) -> set[int]:
    """The nodes that lie between the root and one of the leaves, these included."""
    nodes: set[int] = set()
    for node in leaves:
        while node >= 0 and node not in nodes:
            nodes.add(node)
            node = parents[node]
    return nodes


def kept(parents: Sequence[int], leaves: Sequence[int], walked: Sequence[int]) -> int:
    """Which leaf is the first behind which the nodes `walked` from the root lie; 0 when none was
    walked."""
    if walked:
        for branch, leaf in enumerate(leaves):
            if walked[-1] in path(parents, leaf):
                return branch
    return 0
