"""What opening a recorded run or a link puts on the page."""

import json

import gradio as gr
import pytest

from pld_core import links
from pld_core.page.examples import Examples
from pld_core.page.opening import Opening
from pld_core.page.words import Words

SKIP = gr.skip()
EXAMPLES = Examples()
FIRST, LAST = (list(EXAMPLES.recorded)[place] for place in (0, -1))
BASE = "http://127.0.0.1:7860/"


def form(values: tuple) -> dict:
    """The values that are put into the form."""
    assert len(values) == len(links.FORM)
    return {name: value for name, value in zip(links.FORM, values) if value != SKIP}


@pytest.mark.parametrize("prompt", ["", None, "  \n", EXAMPLES.first["prompt"]])
def test_a_recorded_run_brings_its_preset(prompt):
    view, notice, about, preset, *values = Opening(EXAMPLES).replay(LAST, prompt)
    asked = EXAMPLES.presets[LAST]
    assert view == EXAMPLES.stream(LAST) and notice == "" and about == asked["about"]
    assert preset == LAST and form(values)["prompt"] == asked["prompt"]


def test_a_prompt_of_ones_own_stays_when_a_recorded_run_is_opened():
    view, _, _, preset, *values = Opening(EXAMPLES).replay(LAST, "My own.")
    assert view == EXAMPLES.stream(LAST) and preset == SKIP and form(values) == {}


def place(search: str, hash_: str = "", pass_: int | None = None) -> str:
    return json.dumps({"base": BASE, "search": search, "hash": hash_, "pass": pass_})


def test_a_link_to_a_run_that_nobody_recorded_opens_on_an_empty_view():
    opening = Opening(EXAMPLES)
    own = {name: links.RANGES[name].default for name in links.NAMES}
    own |= dict.fromkeys(links.TEXTS, "") | {"prompt": "My own.", "k": 9}
    values = [own[name] for name in links.FORM]
    for with_texts, told in (True, Words.link_with_texts), (False, Words.link_with_settings):
        link, _ = opening.link_here(place("", pass_=8), with_texts, None, *values)
        query, _, hash_ = link.removeprefix(BASE).partition("#")
        assert "pass" not in query and "example" not in query
        view, _, recorded, about, preset, *filled = opening.follow(place(query, f"#{hash_}"))
        assert (view, recorded, about) == ("", None, told)
        assert form(filled)["k"] == 9
        assert form(filled).get("prompt") == ("My own." if with_texts else None)


def test_a_pass_is_linked_where_it_will_be_the_same():
    opening = Opening(EXAMPLES)
    values = [
        {**dict.fromkeys(links.FORM, 1), **EXAMPLES.presets[FIRST]}[name] for name in links.FORM
    ]
    recorded, _ = opening.link_here(place("", pass_=2), False, FIRST, *values)
    run_again, _ = opening.link_here(place("", pass_=2), False, None, *values)
    assert recorded.endswith("&pass=2") and "example=" in run_again and "pass" not in run_again


def test_the_page_itself_opens_on_the_first_recorded_run():
    view, notice, recorded, *_ = Opening(EXAMPLES).follow(place(""))
    assert view == notice == recorded == SKIP  # which stands there
