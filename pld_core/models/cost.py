"""What a forward pass costs by its width, on this device."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import Callable

from pld_core.models.target import Target

WIDTHS = (1, 2, 4, 5, 8, 16, 32)  # products that take rows by fours are dear at the fifth
CONTEXT = 256  # positions in the cache, where the model has so many
ROUNDS = 5


def pass_seconds(
    make: Callable[[], Target], limit: int | None
) -> tuple[tuple[int, float], ...]:
    """Pairs (width, median seconds of a pass over so many positions), widths rising.

    `make()` makes a fresh target; `limit` is how many positions the model has. The widths are
    measured in turn, so that a machine that slows down slows them all alike.
    """
    context = CONTEXT if limit is None else max(1, min(CONTEXT, limit - WIDTHS[-1]))
    target = make()
    target.prefill([place % target.vocabulary for place in range(context)])
    taken: dict[int, list[float]] = {width: [] for width in WIDTHS if width <= target.room}
    for width in [*taken, *taken]:
        _pass(target, width)  # the first two of a shape pay for what is set up once
    for _ in range(ROUNDS):
        for width, seconds in taken.items():
            seconds.append(_pass(target, width))
    return tuple((width, median(seconds)) for width, seconds in taken.items())


def _pass(target: Target, width: int) -> float:
    began = perf_counter()
    scores = target.forward([place % target.vocabulary for place in range(width)])
    scores.choices[0]  # they may still be on their way
    taken = perf_counter() - began
    target.commit(0)
    return taken
