"""An answer ends at the first token, in order, that gives a reason to."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pld_core.ends import Ends


def brute_force(tokens, pieces, eos, stop, limit):
    """(how many tokens are kept, why), by looking at the whole text after every token."""
    text = ""
    for kept, (token, piece) in enumerate(zip(tokens, pieces), 1):
        text += piece
        if token in eos:
            return kept, "eos"
        if any(string in text for string in stop):
            return kept, "stop"
        if kept == limit:
            return kept, "length"
    return len(tokens), None


def run(tokens, pieces, eos, stop, limit):
    ends = Ends(eos, stop, limit)
    for kept, (token, piece) in enumerate(zip(tokens, pieces), 1):
        assert ends.remaining == limit - kept + 1
        reason = ends.after(token, piece)
        if reason is not None:
            return kept, reason
    return len(tokens), None


pieces = st.lists(st.text("ab#", max_size=4), max_size=30)
stops = st.lists(st.text("ab#", min_size=1, max_size=7), max_size=3)


@hypothesis_settings(max_examples=1000)
@given(pieces, st.sets(st.integers(0, 20), max_size=3), stops, st.integers(1, 35))
def test_ends_where_looking_at_the_whole_text_after_every_token_ends(pieces, eos, stop, limit):
    tokens = [len(piece) + 5 * place for place, piece in enumerate(pieces)]
    expected = brute_force(tokens, pieces, eos, stop, limit)
    assert run(tokens, pieces, eos, stop, limit) == expected


@pytest.mark.parametrize(
    ("pieces", "stop", "kept"),
    [
        (["ok #", "##EN", "D##", "# go", "x"], ["###END###"], 4),  # over four tokens
        (["x###END###y", "z"], ["###END###"], 1),  # in the middle of one
        (["##", "", "", "#"], ["###"], 4),  # tokens without text between
        (["ab", "cd"], ["zz", "bc"], 2),  # the second of two
        (["a", "b"], ["ab", "b"], 2),  # both at once
        (["####", "#"], ["#####"], 2),  # a start inside a longer run
    ],
)
def test_a_stop_string_is_found_across_token_borders(pieces, stop, kept):
    assert run(range(len(pieces)), pieces, [], stop, 99) == (kept, "stop")


def test_a_stop_inside_the_budget_wins_over_the_budget():
    assert run([1, 2], ["a", "b"], [], ["ab"], 2) == (2, "stop")
    assert run([1, 2], ["a", "b"], [2], [], 2) == (2, "eos")


def test_an_end_token_wins_over_a_stop_string():
    assert run([1], ["stop"], [1], ["stop"], 1) == (1, "eos")


@pytest.mark.parametrize("eos", [[3], (3, 4), {4, 3}, frozenset([3])])
def test_any_of_several_end_tokens_ends(eos):
    assert run([1, 2, 3, 4], [""] * 4, eos, [], 9) == (3, "eos")


def test_without_any_end_the_limit_ends():
    assert run([1] * 5, ["x"] * 5, [], [], 3) == (3, "length")
