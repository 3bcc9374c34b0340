"""Strict mode needs a width at which a position's numbers do not depend on its row. Which widths
are so is the affair of the machine's kernels, so it is found out by trying."""

from __future__ import annotations

from typing import Callable

import torch

from pld_core.models.target import Target

TRIED = 8
_PROMPT = 4


def exact_width(make: Callable[[int], Target], wanted: int) -> int | None:
    """The first width from `wanted` on at which rows agree bit for bit; None when none of the
    next TRIED does. `make(width)` makes a fresh target of that fixed width, with room for
    `positions_tried(width)`."""
    return next((w for w in range(wanted, wanted + TRIED) if rows_agree(make(w), w)), None)


def positions_tried(width: int) -> int:
    """How many positions the trial of a width reads."""
    return _PROMPT + width + 1


def rows_agree(target: Target, width: int) -> bool:
    """Reads the same tokens twice in passes of `width`, the second time one row higher, and
    compares the logits of each position."""
    tokens = [(7 + 797 * i * i) % target.vocabulary for i in range(positions_tried(width))]
    target.prefill(tokens[:_PROMPT])
    low = target.forward(tokens[_PROMPT:-1]).logits[1:].clone()
    target.commit(1)
    high = target.forward(tokens[_PROMPT + 1 :]).logits[:-1]
    return bool(torch.equal(low, high))
