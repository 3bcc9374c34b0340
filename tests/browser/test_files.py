"""Saving a trace, loading one, and files that are none."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import View
from tests.browser.scripted import ScriptedSlot, lane, lines, tokens_of

LETTERS = "a b c d e f g"
LETTERS_ANSWER = tokens_of(" b c d e X f")


@pytest.fixture
def trace() -> str:
    prompt = tokens_of(LETTERS)
    return "".join(lines(lane(prompt, LETTERS_ANSWER), lane(prompt, LETTERS_ANSWER, "plain")))


def test_a_saved_file_is_the_stream(view: View, slot: ScriptedSlot) -> None:
    view.run(slot, LETTERS, LETTERS_ANSWER)
    options = {"k": slot.k, "created": f"run-{len(slot.requests)}"}
    prompt = tokens_of(LETTERS)
    assert view.saved() == "".join(
        lines(
            lane(prompt, LETTERS_ANSWER, **options),
            lane(prompt, LETTERS_ANSWER, "plain", **options),
        )
    )


def test_a_loaded_file_is_the_same_view(view: View, slot: ScriptedSlot) -> None:
    view.run(slot, LETTERS, LETTERS_ANSWER)
    saved = view.saved()
    parts = ["prompt", "lookup", "plain", "headline", "details", "pass"]
    before = {name: view.part(name).inner_html() for name in parts}
    view.page.locator("#recorded input").click()
    view.page.get_by_role("option", name="Walking").click()
    expect(view.part("lookup")).to_have_text(" and on")
    view.load(saved, "mine.ndjson")
    expect(view.part("lookup")).to_have_text("".join(LETTERS_ANSWER))
    assert {name: view.part(name).inner_html() for name in parts} == before
    assert view.saved() == saved


def test_after_loading_the_recorded_run_can_come_back(view: View, trace: str) -> None:
    before = view.text("lookup")
    view.load(trace)
    expect(view.part("lookup")).to_have_text("".join(LETTERS_ANSWER))
    expect(view.page.locator("#recorded input")).to_have_value("")
    view.page.locator("#recorded input").click()
    view.page.get_by_role("option", name="Counting").click()
    expect(view.part("lookup")).to_have_text(before)


def test_loading_ends_the_run_on_screen(view: View, slot: ScriptedSlot, trace: str) -> None:
    slot.pause = 0.04  # as often as a real slot sends
    view.start(slot, "nothing of it", tokens_of(" alpha beta gamma delta" * 500))
    expect(view.token("plain", 3)).to_be_visible()
    view.load(trace)
    expect(view.part("lookup")).to_have_text("".join(LETTERS_ANSWER))
    assert slot.closed.wait(20)
    view.page.wait_for_timeout(300)
    assert view.text("lookup") == "".join(LETTERS_ANSWER)


def changed(trace: str, number: int, **fields) -> str:
    parts = trace.splitlines(keepends=True)
    parts[number - 1] = json.dumps({**json.loads(parts[number - 1]), **fields}) + "\n"
    return "".join(parts)


BROKEN = [
    (lambda t: "", "This file holds no trace."),
    (lambda t: "hello\n", "Line 1 is not part of a trace: it is not JSON."),
    (lambda t: b"\x89PNG\r\n\x1a\n\x00\x00", "Line 1 is not part of a trace: it is not JSON."),
    (lambda t: t[: len(t) // 2], "Line 6 is not part of a trace: it is not JSON."),
    (lambda t: "[1, 2]\n", "Line 1 is not part of a trace: it is not an event."),
    (lambda t: '{"type":"__proto__"}\n', "Line 1 is not part of a trace: it is not an event."),
    (lambda t: "[" * 100_000 + "\n", "Line 1 is not part of a trace: it is not JSON."),
    (
        lambda t: changed(t, 1, v=2),
        "Line 1 is not part of a trace: it has version 2, version 1 is read.",
    ),
    (
        lambda t: changed(t, 1, prompt={"ids": [1], "pieces": [], "answer_start": 0}),
        "Line 1 is not part of a trace: its prompt is missing or of the wrong kind.",
    ),
    (
        lambda t: changed(t, 5, width="<img src=x onerror=alert(1)>"),
        "Line 5 is not part of a trace: its width is missing or of the wrong kind.",
    ),
    (
        lambda t: changed(t, 5, match={"start": 999, "n": 1, "region": "prompt"}),
        "Line 5 is not part of a trace: its match lies outside the text before it.",
    ),
    (
        lambda t: changed(t, 5, accepted=9),
        "Line 5 is not part of a trace: its tokens, pieces and draft do not fit together.",
    ),
    (
        lambda t: "".join(t.splitlines(keepends=True)[2:]),
        "Line 1 is not part of a trace: its lane has not started.",
    ),
    (lambda t: t + t, "Line 14 is not part of a trace: its lane starts twice."),
    (
        lambda t: " " * (17 * 2**20),
        "This file is larger than 16 MB, too large for a trace to be shown.",
    ),
    (
        lambda t: changed(
            t, 1, prompt={"ids": [1] * 100_001, "pieces": ["a"] * 100_001, "answer_start": 0}
        ),
        "Line 1 is not part of a trace: it takes the trace over 100,000 tokens,"
        " more than can be drawn.",
    ),
]


def test_a_broken_file_is_one_sentence_and_the_run_stays(view: View, trace: str) -> None:
    before = view.text("lookup")
    for broken, sentence in BROKEN:
        view.load(broken(trace))
        expect(view.part("problem")).to_have_text(sentence)
        assert view.text("lookup") == before
    view.load(trace)
    expect(view.part("problem")).to_be_hidden()
    expect(view.part("lookup")).to_have_text("".join(LETTERS_ANSWER))


def test_what_is_wrong_with_a_file_stays_until_something_else_is_asked_for(
    view: View, slot: ScriptedSlot, trace: str
) -> None:
    problem, recorded = view.part("problem"), view.page.locator("#recorded input")

    def choose(run: str) -> None:
        recorded.click()
        view.page.get_by_role("option", name=run).click()

    def chosen_in_the_gallery() -> None:
        view.page.locator(".pld-lens [data-tab=gallery]").click()
        view.page.locator(".pld-lens .gallery").get_by_role("button", name="Walking").click()

    def in_line() -> None:
        slot.answer, slot.gate_at = LETTERS_ANSWER, 0  # nothing of the run comes
        slot.gate.clear()
        view.ask(LETTERS)

    choose("Walking")
    expect(view.part("lookup")).to_have_text(" and on")
    for ask in (lambda: choose("Walking"), chosen_in_the_gallery, in_line):  # the trace stays
        view.load("no trace")
        expect(problem).to_be_visible()
        view.part("first").click()  # looking on reads nothing else
        view.part("play").click()
        expect(problem).to_be_visible()
        ask()
        expect(problem).to_be_hidden()
    view.load("no trace")
    slot.gate.set()  # the run was asked for before
    expect(view.part("lookup")).to_have_text("".join(LETTERS_ANSWER))
    expect(problem).to_be_visible()


def test_a_newer_stream_is_drawn_as_far_as_it_is_known(view: View, trace: str) -> None:
    first, rest = trace.split("\n", 1)
    view.load(first + '\n{"v":1,"type":"weather","lane":"pld"}\n' + rest)
    expect(view.part("lookup")).to_have_text("".join(LETTERS_ANSWER))
