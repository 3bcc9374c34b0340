"""Which draft tokens stand."""

from __future__ import annotations

from typing import Sequence


def agreement(draft: Sequence[int], choices: Sequence[int]) -> int:
    """How many leading draft tokens [k'] equal the target's own choices [>= k'].

    A drafted token is certain, its draft distribution is one-hot. So the lossless rule for
    sampling, "accept d with p(d), else sample from p without d" (Leviathan et al. 2023,
    arXiv 2211.17192, with q one-hot), is the same as letting the target choose its own token
    and accepting while they are equal: one rule for greedy and sampled decoding.
    """
    for accepted, (drafted, chosen) in enumerate(zip(draft, choices)):
        if drafted != chosen:
            return accepted
    return len(draft)


def walk(draft: Sequence[int], parents: Sequence[int], choices: Sequence[int]) -> list[int]:
    """The nodes of a tree that stand, from the root down: at each the same one comparison, with
    the target's choice after it. choices [1 + k']: after the root, then after each node."""
    at = -1
    nodes: list[int] = []
    for node, (token, parent) in enumerate(zip(draft, parents)):
        if parent == at and token == choices[1 + at]:
            nodes.append(node)
            at = node
    return nodes
