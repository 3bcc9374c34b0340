"""What a visitor may ask for, and how the host changes it."""

from dataclasses import fields, replace

import pytest

from pld_core.hosting.limits import HOSTED, LOCAL, LimitError, Limits, hosted, limits
from pld_core.serving import Request, RequestError


def test_strangers_are_allowed_nothing_that_a_laptop_is_not() -> None:
    pairs = [(getattr(HOSTED, f.name), getattr(LOCAL, f.name)) for f in fields(Limits)]
    assert all(hosted <= local for hosted, local in pairs)
    assert all(hosted({name: value}) for name, value in (("SPACE_ID", "o/n"), ("PLD_HOSTED", "1")))
    assert not hosted({}) and not hosted({"PLD_HOSTED": "0"})
    assert limits(True, {}) == HOSTED and limits(False, {}) == LOCAL


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_every_limit_has_its_variable(name: str) -> None:
    variable = f"PLD_MAX_{name.upper()}"
    assert limits(True, {variable: " 7 "}) == replace(HOSTED, **{name: 7})
    assert limits(False, {variable: ""}) == LOCAL


@pytest.mark.parametrize("text", ["0", "-1", "many", "1e3", "1.5", "٣", "9" * 5000, "0x10"])
def test_a_limit_that_cannot_be_meant_is_one_sentence(text: str) -> None:
    with pytest.raises(LimitError, match="PLD_MAX_WAITING is a whole number from 1, not ") as raised:
        limits(False, {"PLD_MAX_WAITING": text})
    assert len(str(raised.value)) < 100


def test_a_run_is_held_to_the_limits() -> None:
    small = replace(HOSTED, prompt_characters=9, reference_characters=4, new_tokens=5)
    small.check(Request("12345", "67", system="89", reference="1234", max_new_tokens=5))
    for request, sentence in (
        (Request("12345", "67", system="890", max_new_tokens=5), "The prompt has 10 characters"),
        (Request("1", reference="12345", max_new_tokens=5), "The reference text has 5 characters"),
        (Request("1", max_new_tokens=6), "A run here gives at most 5 new tokens, not 6."),
    ):
        with pytest.raises(RequestError) as raised:
            small.check(request)
        assert str(raised.value).startswith(sentence)
