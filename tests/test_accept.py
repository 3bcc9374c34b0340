"""Acceptance is the longest common prefix of the draft and the target's own choices."""

import os.path

from hypothesis import given
from hypothesis import strategies as st

from pld_core.accept import agreement

tokens = st.lists(st.integers(0, 2), max_size=12)


@given(tokens, tokens)
def test_agreement_is_the_common_prefix(draft, more):
    choices = [*more, *[3] * (len(draft) + 1 - len(more))]
    assert agreement(draft, choices) == len(os.path.commonprefix([draft, choices]))


@given(tokens, st.integers(0, 12), st.integers(0, 3))
def test_everything_before_the_first_wrong_token_stands(choices, place, wrong):
    draft = list(choices)
    if place < len(draft):
        draft[place] = draft[place] + 1 + wrong
    assert agreement(draft, [*choices, 0]) == min(place, len(draft))


def test_an_empty_draft_agrees_on_nothing():
    assert agreement([], [7]) == 0
