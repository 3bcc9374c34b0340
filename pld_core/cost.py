"""What a forward pass costs by its width."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PassCost:
    """Seconds of a forward pass by its width, measured: pairs (width, seconds), widths rising.
    Between two measured widths the time is taken to grow evenly, beyond the last as before it."""

    measured: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        widths = [width for width, _ in self.measured]
        if len(widths) < 2 or widths != sorted(set(widths)) or widths[0] != 1:
            raise ValueError("Pass costs are measured at width 1 and at further, rising widths.")
        if not all(0 < seconds < float("inf") for _, seconds in self.measured):
            raise ValueError("A pass costs more than 0 seconds.")

    def seconds(self, width: int) -> float:
        points = self.measured
        right = min(max(1, bisect_left(points, (width,))), len(points) - 1)
        (w0, t0), (w1, t1) = points[right - 1], points[right]
        return max(t0 + (t1 - t0) * (width - w0) / (w1 - w0), points[0][1] * 1e-3)
