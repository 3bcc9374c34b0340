"""How far rounding alone moves a choice: one-row passes against a many-row one."""

from __future__ import annotations

from typing import Callable, Sequence

from pld_core.models.target import Target

POSITIONS = 48
WIDTH = 16
DEVIATIONS = 6


def measure(
    make: Callable[[], Target], prompt: Sequence[int], output: Sequence[int], whole: bool
) -> float | None:
    """A bound for what rounding does to a top-2 logit margin of this model on this device.

    `make()` makes a fresh target. The last POSITIONS tokens of the output (of prompt + output
    where the target reads them as one, `whole`) are read twice, one row and WIDTH rows at a
    time; in exact arithmetic every margin would be the same. The bound is DEVIATIONS root mean
    squares of the margins' differences, and never below the largest one seen. None where there
    is nothing to read.
    """
    tokens = [*prompt, *output]
    first = max(1 if whole else len(prompt), len(tokens) - POSITIONS)
    if first >= len(tokens):
        return None
    ones = _margins(make(), tokens, first, 1)
    many = _margins(make(), tokens, first, WIDTH)
    moved = [abs(a - b) for a, b in zip(ones, many)]
    mean_square = sum(move * move for move in moved) / len(moved)
    return max(DEVIATIONS * mean_square**0.5, *moved)


def _margins(target: Target, tokens: list[int], first: int, width: int) -> list[float]:
    target.prefill(tokens[:first])
    margins: list[float] = []
    for start in range(first, len(tokens), width):
        block = tokens[start : start + width]
        scores = target.forward(block)
        target.commit(len(block))
        margins += scores.kept(len(block))[1]
    return margins
