"""What the page says of a run besides its numbers: what was asked for, what its lanes are doing,
what its times do not say, and that nothing was copied."""

import json
import re

import pytest
from playwright.sync_api import expect

from pld_core.page.examples import presets
from tests.browser.conftest import View, opened
from tests.browser.scripted import ScriptedSlot, lane, lines, tokens_of
from tests.browser.test_understand import figures, panel, rows

LETTERS = "a b c d e f g"
LETTERS_ANSWER = tokens_of(" b c d e X f")
LONG = tokens_of(" alpha beta gamma delta" * 60)
NOTHING = "Nothing was copied, so lookup saved no pass"


def trace(*names: str, plain: list[str] | None = None, **settings) -> str:
    """The letters' trace, every lane with these settings besides its own."""
    answers = {"plain": plain or LETTERS_ANSWER}
    lanes = (lane(tokens_of(LETTERS), answers.get(n, LETTERS_ANSWER), n, k=10) for n in names)
    events = [json.loads(line) for line in lines(*lanes)]
    for event in events:
        if event["type"] == "start":
            event["settings"].update(settings)
        if settings.get("fixed_width") and event["type"] == "pass":
            event["width"] = settings["fixed_width"]
    return "".join(json.dumps(event) + "\n" for event in events)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "n 3 to 1 · k 10 · most recent · greedy"),
        (
            {"adaptive": True, "pass_seconds": [[1, 0.03], [8, 0.04]], "branches": 4},
            "n 3 to 1 · k 10 as far as it pays · 4 branches · most recent · greedy",
        ),
        (
            {"n_min": 3, "policy": "vote", "search": "prompt", "fixed_width": 11, "adaptive": True},
            "n 3 · k 10 · most common continuation · from the prompt only"
            " · strict: 11 positions in every pass · greedy",
        ),
        (
            {"sampling": {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "seed": 7}},
            "n 3 to 1 · k 10 · most recent · temperature 0.8 · top k 40 · top p 0.9 · seed 7",
        ),
        (
            {"sampling": {"repetition_penalty": 1.15, "presence_penalty": 0.2, "frequency_penalty": -1,
                          "no_repeat_ngram": 4, "min_new_tokens": 8, "top_k": 40}},
            "n 3 to 1 · k 10 · most recent · greedy · repetition penalty 1.15 · presence penalty 0.2"
            " · frequency penalty -1 · no 4-gram twice · at least 8 tokens",
        ),
        ({"k": 0, "sampling": "none"}, "plain decoding · greedy"),
        ({"policy": "<b>mine</b>" * 9}, f"n 3 to 1 · k 10 · {('<b>mine</b>' * 9)[:40]} · greedy"),
    ],
    ids=str,
)  # fmt: skip
def test_a_run_says_what_it_was_asked(view: View, settings: dict, said: str) -> None:
    view.load(trace("pld", "plain", **settings))
    expect(view.part("settings")).to_have_text(said)


def test_a_strict_run_does_not_pass_for_another(view: View) -> None:
    view.load(trace("pld", "plain", fixed_width=11))
    assert view.figure("speedup") == ("2.14×", "strict, both lanes 11 wide · plain 151 ms, lookup 70 ms")
    for pass_ in (2, 3):  # with a draft and without one
        view.scrub(pass_)
        expect(view.part("pass")).to_contain_text("11 positions in one pass, as every pass in strict mode")
    body = panel(view, "positions")
    expect(body.locator("h3")).to_have_text("Every pass ran 11 positions (strict mode)")
    shown = body.locator(".keys span").evaluate_all("all => all.filter(e => !e.hidden).map(e => e.textContent)")
    assert shown == ["copy pass", "other pass", "plain pass", "median of a width"]


def test_what_strict_passes_of_another_width_take_is_not_told(view: View) -> None:
    view.load(trace("pld", "plain", fixed_width=11))
    body = panel(view, "whatIf")
    assert figures(body)["seconds"] != "–"
    body.get_by_role("slider", name="Draft length").fill("4")
    assert (figures(body)["seconds"], figures(body)["ratio"]) == ("–", "–")
    expect(body).to_contain_text("no pass times to go by")
    body.get_by_text("predicted time", exact=True).click()
    expect(body).to_contain_text("This run timed passes of 11 positions alone, so no other k")
    head, *cells = rows(body.locator("table.map"))
    timed = {name for line in cells for name, cell in zip(head, line) if cell[:1].isdigit()}
    assert timed == {"k 10"}


def test_lanes_of_two_texts_are_predicted_for_the_tokens_they_share(view: View) -> None:
    view.load(trace("pld", "plain", plain=[*LETTERS_ANSWER, " g", " h"]))
    predicted = figures(panel(view, "whatIf"))["ratio"]
    assert predicted == view.figure("speedup")[0] == "2.14×"
    view.load(trace("pld", "plain", plain=LETTERS_ANSWER[:3]))
    body = panel(view, "whatIf")
    assert figures(body)["ratio"] == "–"
    expect(body).to_contain_text("the plain lane ended earlier")


def test_a_lane_says_whether_it_reads_or_waits(view: View, slot: ScriptedSlot) -> None:
    reading = "Reading 7 prompt tokens …"
    said = {  # after the starts, the first prefill, the second
        2: ("reading the prompt", "waiting", reading),
        3: ("running", "reading the prompt", reading),
        4: ("running", "running", "Decoding …"),
    }
    for slot.gate_at, expected in said.items():
        slot.gate.clear()
        view.start(slot, LETTERS, LETTERS_ANSWER)
        for part, text in zip(("lookupState", "plainState", "status"), expected):
            expect(view.part(part)).to_have_text(text)
        slot.gate.set()
        view.wait_for_end()


def test_a_run_that_ended_before_its_first_pass_awaits_none(view: View, slot: ScriptedSlot) -> None:
    slot.gate_at = 2
    slot.gate.clear()
    view.start(slot, LETTERS, LETTERS_ANSWER)
    expect(view.part("pass")).to_contain_text("Nothing yet")
    view.page.locator("#stop").click()
    expect(view.part("lookupState")).to_have_text("stopped")
    expect(view.part("pass")).to_have_text("The run ended before its first pass.")


def test_a_run_that_copied_nothing_says_so(view: View, slot: ScriptedSlot) -> None:
    view.run(slot, "a b", tokens_of(" c d e"))
    expect(view.part("status")).to_contain_text(NOTHING)
    view.run(slot, LETTERS, LETTERS_ANSWER)
    expect(view.part("status")).not_to_contain_text(NOTHING)


def test_why_passes_drafted_nothing_is_counted_apart(view: View) -> None:
    answer = tokens_of(" c d e f g h")
    events = [json.loads(line) for line in lines(lane(tokens_of("a b"), answer))]
    events[0]["settings"]["max_new_tokens"] = len(answer)
    for event in events[2:4]:  # a match that was not expected to pay
        event["gain"] = 1.0
    view.load("".join(json.dumps(event) + "\n" for event in events))
    expect(view.part("details")).to_contain_text("5 of 5 passes after the prefill without a draft")
    body = panel(view, "drafts")
    reasons = "2 found no match, for 2 none was expected to pay, 1 had no room for one."
    expect(body).to_contain_text(f"100 % of the 5 passes after the prefill had no draft: {reasons}")
    expect(body).to_contain_text("no draft: 5 (100 %)")


def test_a_preset_is_named_as_long_as_its_prompt_stands_there(view: View) -> None:
    first = presets()[0]
    preset, prompt = view.page.locator("#preset input"), view.page.locator("#prompt textarea")
    expect(preset).to_have_value(first["title"])
    prompt.fill(first["prompt"] + " And then?")
    expect(preset).to_have_value("")
    expect(preset).to_have_attribute("placeholder", "none: a prompt of your own")
    preset.click()
    view.page.get_by_role("option", name=first["title"]).click()  # and so it can be had again
    expect(prompt).to_have_value(first["prompt"])
    expect(preset).to_have_value(first["title"])


def test_on_a_phone_a_run_comes_into_sight(browser, served, slot: ScriptedSlot) -> None:
    view = opened(browser, served[0], viewport={"width": 390, "height": 844}, has_touch=True)
    top = "document.querySelector('.pld-lens').getBoundingClientRect().top"
    assert view.page.evaluate(top) > 844 * 0.7
    slot.gate_at = 2
    slot.gate.clear()
    view.start(slot, LETTERS, LETTERS_ANSWER)
    view.page.wait_for_function(f"() => {top} < 60")
    view.page.evaluate("scrollTo(0, 0)")  # who goes away from there stays away
    slot.gate.set()
    view.wait_for_end()
    assert view.page.evaluate(top) > 844 * 0.5
    view.page.locator("#prompt textarea").fill("")  # and what is refused is told where it was asked
    view.page.locator("#run").click()
    expect(view.page.locator("#notice")).to_contain_text("The prompt is empty")
    assert view.page.evaluate("scrollY") < 844 * 0.5
    view.page.context.close()


def test_a_notice_has_its_frame(view: View) -> None:
    view.ask("")
    line = view.page.locator("#notice .sentence")
    expect(line).not_to_be_empty()
    widths = line.evaluate("e => getComputedStyle(e).borderWidth")
    assert re.fullmatch("1px 1px 1px 4px", widths)
