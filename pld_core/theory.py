"""The governing equation of prompt lookup decoding.

Of T generated tokens the share f is emitted by copy passes, which keep L tokens each on
average; every other pass emits one. All of it is counting, so it holds exactly.
"""

from __future__ import annotations


def passes(tokens: float, f: float, L: float) -> float:
    """Forward passes for `tokens` tokens: f*T/L + (1-f)*T."""
    _check(f, L)
    return f * tokens / L + (1 - f) * tokens


def tokens_per_pass(f: float, L: float) -> float:
    """T / passes = 1 / (f/L + 1 - f), the speed-up in passes over plain decoding."""
    _check(f, L)
    return 1 / (f / L + 1 - f)


def time_speedup(f: float, L: float, copy_cost: float, other_cost: float) -> float:
    """Predicted speed-up in time: 1 / ((f/L)*r_c + (1-f)*r_m).

    copy_cost r_c and other_cost r_m: mean time of a copy pass and of any other pass over the
    time of a plain pass. With both 1 it is `tokens_per_pass`.
    """
    _check(f, L)
    if not (copy_cost > 0 and other_cost > 0):
        raise ValueError("Costs are ratios of times, so above 0.")
    return 1 / ((f / L) * copy_cost + (1 - f) * other_cost)


def _check(f: float, L: float) -> None:
    if not 0 <= f <= 1:
        raise ValueError(f"f is a share from 0 to 1, not {f}.")
    if not L >= 1:
        raise ValueError(f"L is at least 1 token per copy pass, not {L}.")
