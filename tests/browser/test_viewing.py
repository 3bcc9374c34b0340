"""Ways to look at the text, the reference text, and two settings side by side."""

import random
import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import View, opened
from tests.browser.scripted import ScriptedSlot, lane, lines, tokens_of
from tests.browser.test_access import axe

LETTERS = "a b c d e f g"
LETTERS_ANSWER = tokens_of(" b c d e X f")
COPY_ALL = """() => {
  const range = document.createRange();
  range.selectNodeContents(document.querySelector('.pld-lens [data-part=lookup]'));
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  let copied = null;
  const take = () => { copied = getSelection().toString(); };
  document.addEventListener('copy', take, { once: true });
  document.execCommand('copy');
  return copied;
}"""


def ghosts(view: View) -> dict[int, str]:
    """What stands before a token on screen, by the token's place."""
    view.drawn()
    found = view.part("lookup").evaluate(
        """e => [...e.querySelectorAll('.ghost')].map(g =>
             [+g.nextSibling.dataset.at, getComputedStyle(g, '::before').content])
             .filter(([, content]) => content !== 'none')"""
    )
    return {at: content.split('"')[1] for at, content in found}


def look(view: View, at: str) -> None:
    view.page.locator(".viewing").get_by_text(at, exact=True).click()
    view.drawn()


# Of what a token leaves behind a line end, nothing is to be seen.
PLACES = """e => {
  const { left, top } = e.querySelector('.token').getBoundingClientRect();
  const place = r => [r.left - left, r.top - top, r.width, r.height].map(x => Math.round(10 * x) / 10);
  const places = t => [...t.getClientRects()].filter((r, i) => r.height > 0 && (i === 0 || r.width > 0)).map(place);
  return [e.scrollHeight, ...[...e.querySelectorAll('.token')].map(places)];
}"""
LINE_ENDS = ["\n", "\n\n", " \n", "}\n\n    ", "\r\n", "", "\n\n\n"]


def broken(start: str, words_in_a_line: int, end: str) -> list[str]:
    """Some 400 pieces, with line ends of every kind."""
    rng = random.Random(words_in_a_line)
    words = [f" w{number}" for number in range(50)]
    middle = [
        rng.choice(words if rng.random() < 1 - 1 / words_in_a_line else LINE_ENDS)
        for _ in range(400)
    ]
    return [start, *middle, end]


@pytest.mark.parametrize(
    ("pieces", "blocks"),
    [
        (broken("\n", 3, "\n"), 5),
        (broken("def", 12, "\n\n"), 4),
        (broken("\n\n", 2, ""), 5),
        ([" x\n"] * 300, 4),
        ([*[" x", "\n"] * 32, "", *["y", "\n\n"] * 40, ""], 2),
        ([f" w{number % 9}" for number in range(300)], 1),
    ],
    ids=["short lines", "lines", "mostly line ends", "only lines", "empty pieces", "one line"],
)
def test_blocks_change_neither_how_the_text_stands_nor_what_is_copied(
    view: View, pieces: list[str], blocks: int
) -> None:
    view.load("".join(lines(lane(pieces[:200], pieces, begun=64))))
    text = "".join(pieces)
    assert view.text("lookup") == text
    assert view.part("lookup").locator("> div").count() >= blocks
    view.part("ghosts").check()
    shown = {}
    for flow in ("blocks", "one flow"):
        if flow == "one flow":
            view.page.add_style_tag(content=".pld-lens .text > div { display: inline }")
        for mode in ("Text", "Tokens"):
            look(view, mode)
            panes = [view.part(name).evaluate(PLACES) for name in ("prompt", "lookup", "plain")]
            shown[flow, mode] = [*panes, view.page.evaluate(COPY_ALL)]
            # Chromium leaves out the last line end of all that is selected
            assert shown[flow, mode][-1] == text.removesuffix("\n")
    for mode in ("Text", "Tokens"):
        assert shown["blocks", mode] == shown["one flow", mode], mode


def test_rejected_drafts_stand_in_place_and_are_no_text(view: View, slot: ScriptedSlot) -> None:
    view.run(slot, LETTERS, LETTERS_ANSWER)
    assert ghosts(view) == {}
    view.part("ghosts").check()
    assert ghosts(view) == {4: " f g b c d e f"}
    assert view.page.evaluate(COPY_ALL) == view.text("lookup") == "".join(LETTERS_ANSWER)
    assert view.page.evaluate("window.find(' g b c d e f', false, false, true)") is False
    view.scrub(1)  # what is ahead has no ghost yet
    assert ghosts(view) == {}
    view.part("ghosts").uncheck()


def test_tokens_show_their_borders_ids_and_whitespace(view: View, slot: ScriptedSlot) -> None:
    answer = ["x", "\n\n", "    y", "\tz", " ", "", "w"]
    view.run(slot, "p q", answer)
    before = view.page.evaluate(COPY_ALL)
    look(view, "Tokens")
    spaces = view.part("lookup").evaluate(
        "e => [...e.querySelectorAll('.space')].map(s => getComputedStyle(s, '::before').content)"
    )
    assert "".join(s.split('"')[1] for s in spaces) == "↵↵····⇥·"
    border = "e => getComputedStyle(e).borderRightWidth"
    assert view.token("lookup", 2).evaluate(border) == "1px"
    assert view.text("lookup") == "".join(answer)
    assert view.page.evaluate(COPY_ALL) == before
    view.token("lookup", 2).hover()
    tip = view.page.locator(".pld-lens .tip")
    expect(tip).to_have_text("token 3 · id 4 · “␣␣␣␣y” · probability 80 % · margin 2.50")
    view.token("prompt", 1).hover()
    expect(tip).to_have_text("token 2 · id 1 · “␣q”")
    ids = view.part("pass").locator(".chip[data-id]").first
    assert ids.get_attribute("data-id") == "8"
    look(view, "Text")
    assert view.token("lookup", 2).evaluate(border) == "0px"
    expect(tip).to_be_hidden()


def test_tokens_can_be_on_while_a_run_grows(view: View, slot: ScriptedSlot) -> None:
    look(view, "Tokens")
    view.part("ghosts").check()
    view.run(slot, LETTERS, LETTERS_ANSWER)
    assert view.part("lookup").locator(".space").count() == 6
    assert ghosts(view)[4] == " f g b c d e f"
    assert view.text("lookup") == "".join(LETTERS_ANSWER)


@pytest.fixture
def referenced(view: View) -> View:
    prompt, answer = tokens_of("x y"), tokens_of(" one two three Q")
    view.load("".join(lines(lane(prompt, answer, reference=tokens_of("R one two three four")))))
    expect(view.part("lookup")).to_have_text("".join(answer))
    return view


def test_a_draft_from_the_reference_is_boxed_there(referenced: View) -> None:
    view = referenced
    assert view.text("reference") == "R one two three four"
    assert view.text("prompt") == "x y"
    view.token("lookup", 1).hover()
    expect(view.part("reference").locator(".source")).to_have_count(2)
    assert view.marked("reference", "key") == [1]
    assert view.marked("reference", "source") == [2, 3]
    assert view.marked("reference", "beyond") == [4]
    assert view.marked("lookup", "suffix") == [0]
    assert view.marked("prompt", "source") == []
    expect(view.part("pass")).to_contain_text("also stands at reference token 2")
    view.token("reference", 2).hover()
    expect(view.part("lookup").locator(".copy")).to_have_count(2)
    view.token("lookup", 1).click()
    view.token("reference", 2).hover()
    assert view.marked("reference", "source") == [2, 3]
    assert view.marked("lookup", "copy") == []
    view.page.keyboard.press("Escape")
    expect(view.part("lookup").locator(".copy")).to_have_count(2)
    view.leave()
    assert axe(view) == []


def test_the_reference_reaches_the_model_and_goes_with_its_run(
    view: View, slot: ScriptedSlot
) -> None:
    expect(view.part("reference")).to_be_hidden()
    view.page.get_by_role("button", name="Reference text").click()
    view.page.locator("#reference textarea").fill("R one two three four")
    view.run(slot, "x y", tokens_of(" one two Q"))
    assert slot.requests[-1].reference == "R one two three four"
    expect(view.part("reference")).to_be_visible()
    view.page.locator("#reference textarea").fill("")
    view.run(slot, LETTERS, LETTERS_ANSWER)
    expect(view.part("reference")).to_be_hidden()


def test_a_match_outside_the_reference_is_no_trace(view: View) -> None:
    trace = "".join(
        lines(lane(["x"], tokens_of(" one two"), reference=tokens_of("R one two three")))
    )
    view.load(trace.replace('"region":"reference"', '"region":"reference","x":1').replace('{"start":1,"n":1', '{"start":9,"n":1'))
    expect(view.part("problem")).to_contain_text("its match lies outside the text before it")


@pytest.fixture
def versus(view: View, slot: ScriptedSlot) -> View:
    view.page.get_by_role("button", name="Compare two settings").click()
    view.page.locator("#rival input[type=checkbox]").check()
    view.page.get_by_role("spinbutton", name="B: draft length (k)").fill("2")
    view.page.get_by_role("spinbutton", name="B: draft length (k)").press("Tab")
    view.run(slot, LETTERS, LETTERS_ANSWER)
    expect(view.page.locator(".pane.rival .state")).to_have_attribute("data-state", "eos")
    view.leave()
    return view


def test_two_settings_stand_side_by_side(versus: View, slot: ScriptedSlot) -> None:
    view = versus
    request = slot.requests[-1]
    assert (request.rival.n_max, request.rival.k) == (5, 2)
    assert view.text("lookup") == view.text("rival") == view.text("plain")
    rows = view.part("versus").locator("tbody tr")
    cells = [row.locator("th, td").all_inner_texts() for row in rows.all()]
    assert [(c[0], c[1], c[2], c[3]) for c in cells] == [
        ("Lookup A", "6", "3", "2.00"),
        ("Lookup B", "6", "4", "1.50"),
        ("Plain", "6", "6", "1.00"),
    ]
    # A: 40.104 + 30.104 ms; B drafts 2 that stand, then 2 in vain: 2 * 32.104 + 30.104 ms
    assert [c[4] for c in cells] == ["70 ms", "94 ms", "151 ms"]
    assert [c[5] for c in cells] == ["2.14×", "1.60×", "–"]
    assert [c[6] for c in cells] == ["–", "yes", "yes"]
    assert [c[7] for c in cells] == ["n 3 to 1, k 10, most recent", "n 5 to 1, k 2, most recent", "–"]
    expect(view.part("settings")).to_have_text("greedy")  # what both have in common
    reason = "finished: the model ended its answer."
    expect(view.part("status")).to_have_text(f"Lookup A {reason} Lookup B {reason} Plain {reason}")
    assert axe(view) == []


def test_scrubbing_moves_both_lookups(versus: View) -> None:
    view = versus
    view.scrub(2)
    assert view.marked("lookup", "ahead") == [5]
    assert view.marked("rival", "ahead") == [4, 5]
    view.token("rival", 1).hover()
    expect(view.token("prompt", 2)).to_have_class(re.compile("source"))
    assert view.marked("prompt", "source") == [2, 3]


def test_either_lookup_can_be_stepped_through(versus: View) -> None:
    view = versus
    position, whose = view.part("position"), view.part("whose")
    choice = view.page.locator(".pld-lens .controls [type=radio]")
    expect(whose).to_have_text("Numbers of Lookup A")
    expect(position).to_have_text("pass 3 of 3")
    view.token("rival", 4).click()  # of pass 3: its draft of two is rejected at once
    expect(position).to_have_text("pass 4 of 4")
    expect(whose).to_have_text("Numbers of Lookup B")
    expect(choice.last).to_be_checked()
    expect(view.part("passTitle")).to_contain_text("Lookup B")
    expect(view.part("passTitle")).to_contain_text("pass 3 of 4")
    assert view.marked("rival", "this") == [4]
    view.page.keyboard.press("ArrowLeft")
    expect(position).to_have_text("pass 3 of 4")
    assert view.marked("rival", "ahead") == [5]
    assert view.marked("lookup", "ahead") == []
    assert view.figure("tokens") == ("5", "of 6")
    assert view.figure("sameText")[0] == "yes"
    marks = view.page.locator(".pld-lens .plot-cursor")
    expect(marks.locator(".dot.rival")).to_have_attribute("data-at", "3 5")
    choice.last.focus()
    view.page.keyboard.press("ArrowLeft")  # the radio's own: A, from where it stands
    expect(position).to_have_text("pass 3 of 3")
    expect(whose).to_have_text("Numbers of Lookup A")
    view.part("rival").focus()
    view.page.keyboard.press("Home")
    expect(position).to_have_text("pass 1 of 4")
    assert view.marked("lookup", "ahead") == view.marked("rival", "ahead") == [1, 2, 3, 4, 5]
    assert axe(view) == []


def test_panels_are_of_the_lane_that_is_stepped_through(versus: View) -> None:
    view = versus
    view.page.locator(".pld-lens [data-tab=drafts]").click()
    body = view.page.locator(".pld-lens .explore")
    expect(body).to_contain_text("Numbers of Lookup A")
    expect(body).to_contain_text("of the 2 passes after the prefill")
    view.token("rival", 3).click()
    expect(body).to_contain_text("Numbers of Lookup B")
    body.scroll_into_view_if_needed()  # a panel is drawn when it is in sight
    expect(body).to_contain_text("of the 3 passes after the prefill")
    expect(body.locator(".whose")).to_have_text(view.part("whose").inner_text())
    view.page.locator(".pld-lens [data-tab=learn]").click()
    expect(body.get_by_text("Numbers of Lookup")).to_be_hidden()


def test_by_seconds_the_lanes_race_whichever_is_stepped_through(versus: View) -> None:
    view = versus
    view.page.locator(".pld-lens .basis").get_by_text("seconds").click()
    view.token("rival", 3).click()
    view.part("first").click()
    view.part("forward").click()
    # B has spent 32 ms for its second pass, A needs 40 ms for its own, plain 30 ms
    expect(view.part("position")).to_have_text("pass 2 of 4")
    expect(view.part("lookupCount")).to_have_text("1 token, 1 pass")
    expect(view.part("plainCount")).to_have_text("2 tokens, 2 passes")
    view.page.locator(".pld-lens .controls .switch").get_by_text("A", exact=True).click()
    expect(view.part("position")).to_have_text("pass 1 of 3")  # and no lane has moved
    expect(view.page.locator(".pane.rival .count")).to_have_text("4 tokens, 2 passes")
    expect(view.part("plainCount")).to_have_text("2 tokens, 2 passes")


def test_one_setting_again_puts_the_second_away(versus: View, slot: ScriptedSlot) -> None:
    versus.page.locator("#rival input[type=checkbox]").uncheck()
    versus.run(slot, LETTERS, LETTERS_ANSWER)
    assert slot.requests[-1].rival is None
    expect(versus.part("rival")).to_be_hidden()
    expect(versus.part("versus")).to_be_hidden()
    expect(versus.part("whose")).to_be_hidden()
    assert versus.page.locator(".pld-lens .controls [type=radio]:visible").count() == 0


def test_the_table_of_two_settings_fits(browser, served, slot: ScriptedSlot) -> None:
    view = opened(browser, served[0], viewport={"width": 1280, "height": 900})
    prompt = tokens_of("x " * 1100)
    long = tokens_of(" y" * 1200)
    lanes = (lane(prompt, [*long, end], n, k=10) for n, end in (("pld", " a"), ("pld-b", " y"), ("plain", " a")))
    view.load("".join(lines(*lanes)).replace('"policy":"recent"', '"policy":"nearest"'))
    table = view.part("versus")
    expect(table).to_contain_text("no, from token 1,201 on")
    expect(table).to_contain_text("nearest to the last copy")
    assert table.evaluate("e => e.scrollWidth <= e.clientWidth")
    view.page.context.close()


def test_on_a_phone_two_settings_and_a_reference_fit(browser, served, slot: ScriptedSlot) -> None:
    view = opened(browser, served[0], viewport={"width": 390, "height": 844})
    prompt, answer = tokens_of(LETTERS), LETTERS_ANSWER
    more = {"reference": tokens_of("R one two three four")}
    view.load("".join(lines(*(lane(prompt, answer, n, **more) for n in ("pld", "pld-b", "plain")))))
    expect(view.part("rival")).to_be_visible()
    view.part("ghosts").check()
    look(view, "Tokens")
    assert view.page.evaluate("document.documentElement.scrollWidth") <= 390
    controls = view.page.locator(".pld-lens .controls")
    assert controls.evaluate("e => e.scrollWidth <= e.clientWidth")
    view.page.context.close()
