"""What the form's values mean."""

import json
from dataclasses import asdict

import pytest

from pld_core.links import FORM, RANGES
from pld_core.page.values import configured, requested
from pld_core.serving import Request

DEFAULTS = {name: RANGES[name].default if name in RANGES else "" for name in FORM}


def test_a_form_as_it_comes_is_a_request_as_it_comes():
    assert requested(DEFAULTS) == Request("")


def test_every_field_reaches_the_request():
    given = {
        name: index if type(value) is int else not value if type(value) is bool else f"{name}!"
        for index, (name, value) in enumerate(DEFAULTS.items(), 2)
    }
    request = asdict(requested(given))
    rival = request.pop("rival")
    assert given.pop("rival") is True
    told = {**request, **{f"rival_{name}": value for name, value in rival.items()}}
    assert told == given


def test_an_emptied_field_is_empty_and_a_whole_number_is_one():
    emptied = dict.fromkeys(("prompt", "answer_prefix", "system", "reference", "temperature"))
    request = requested({**DEFAULTS, **emptied, "k": 7.0, "seed": 2.0, "rival_k": 5.0})
    assert (request.prompt, request.answer_prefix, request.reference) == ("", "", "")
    assert (request.system, request.temperature, request.rival) == (None, 0.0, None)
    assert [(value, type(value)) for value in (request.k, request.seed)] == [(7, int), (2, int)]


@pytest.mark.parametrize("wrong", [None, "7", 7.5, float("nan")])
def test_what_is_no_whole_number_is_left_for_the_settings_to_refuse(wrong):
    assert requested({**DEFAULTS, "k": wrong}).k is wrong


def test_the_settings_of_other_engines_or_why_there_are_none():
    assert json.loads(configured(3.0, 1, 10, 1, "recent"))["engines"]
    told = json.loads(configured(1, 3, 10, 1, "recent"))
    assert (told["engines"], bool(told["problem"])) == ([], True)
