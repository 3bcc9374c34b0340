"""The governing equation: the worked example and the identity."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pld_core import theory

shares = st.floats(0, 1)
lengths = st.floats(1, 1e6)
costs = st.floats(1e-3, 1e3)


def test_worked_example():
    assert theory.passes(1000, 0.7, 8) == pytest.approx(387.5)
    assert theory.tokens_per_pass(0.7, 8) == pytest.approx(2.58, abs=0.005)
    assert theory.tokens_per_pass(0.9, 8) == pytest.approx(4.7, abs=0.05)
    assert theory.tokens_per_pass(0.2, 8) == pytest.approx(1.2, abs=0.05)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 20)), min_size=1, max_size=60))
def test_counting_passes_one_by_one_gives_the_equation(steps):
    # a copy pass keeps as many tokens as it says, any other pass keeps one
    kept = [n if copies else 1 for copies, n in steps]
    copied = [n for copies, n in steps if copies]
    T, f = sum(kept), sum(copied) / sum(kept)
    L = sum(copied) / len(copied) if copied else 1.0
    assert theory.passes(T, f, L) == pytest.approx(len(steps))
    assert theory.tokens_per_pass(f, L) == pytest.approx(T / len(steps))


@given(st.floats(1, 1e6), shares, lengths)
def test_tokens_per_pass_is_tokens_over_passes(T, f, L):
    assert theory.tokens_per_pass(f, L) * theory.passes(T, f, L) == pytest.approx(T)


@given(shares, lengths)
def test_nothing_is_slower_than_one_token_a_pass_and_nothing_faster_than_L(f, L):
    assert 1 - 1e-9 <= theory.tokens_per_pass(f, L) <= L * (1 + 1e-9)


@given(shares, lengths)
def test_when_every_pass_costs_the_same_time_follows_passes(f, L):
    assert theory.time_speedup(f, L, 1, 1) == pytest.approx(theory.tokens_per_pass(f, L))


@given(shares, lengths, costs)
def test_dearer_passes_divide_the_speedup(f, L, cost):
    assert theory.time_speedup(f, L, cost, cost) * cost == pytest.approx(
        theory.tokens_per_pass(f, L)
    )


def test_a_speedup_may_be_below_one():
    assert theory.time_speedup(0.05, 2, 1.8, 1.1) < 1


@pytest.mark.parametrize("f", [-0.01, 1.01, math.nan, math.inf])
def test_a_share_outside_0_to_1_is_refused(f):
    for call in (
        lambda: theory.passes(10, f, 2),
        lambda: theory.tokens_per_pass(f, 2),
        lambda: theory.time_speedup(f, 2, 1, 1),
    ):
        with pytest.raises(ValueError):
            call()


@pytest.mark.parametrize("L", [0, 0.99, -1, math.nan])
def test_a_copy_pass_of_less_than_one_token_is_refused(L):
    with pytest.raises(ValueError):
        theory.tokens_per_pass(0.5, L)


@pytest.mark.parametrize(("copy", "other"), [(0, 1), (1, 0), (-1, 1), (math.nan, 1)])
def test_a_cost_that_is_no_ratio_of_times_is_refused(copy, other):
    with pytest.raises(ValueError):
        theory.time_speedup(0.5, 2, copy, other)
