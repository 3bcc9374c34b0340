"""Scrubbing, stepping, playing, and the links between copies and sources."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import View
from tests.browser.scripted import ScriptedSlot, lane, lines, tokens_of

LETTERS = "a b c d e f g"
LETTERS_ANSWER = tokens_of(" b c d e X f")


@pytest.fixture
def letters(view: View, slot: ScriptedSlot) -> View:
    view.run(slot, LETTERS, LETTERS_ANSWER)
    view.leave()
    return view


def ahead(view: View, lane: str) -> list[int]:
    return view.marked(lane, "ahead")


def test_scrubbing_shows_both_lanes_after_the_same_number_of_passes(letters: View) -> None:
    letters.scrub(2)
    expect(letters.part("position")).to_have_text("pass 2 of 3")
    assert ahead(letters, "lookup") == [5]
    assert ahead(letters, "plain") == [2, 3, 4, 5]
    assert letters.figure("tokens") == ("5", "of 6")
    assert letters.figure("passes") == ("2", "plain needs 5 for as many")
    letters.part("range").fill("3")
    expect(letters.part("position")).to_have_text("pass 3 of 3")
    assert ahead(letters, "lookup") == ahead(letters, "plain") == []


def test_scrubbing_rebuilds_nothing(letters: View) -> None:
    letters.page.evaluate(
        """() => {
          window.touched = 0;
          const panes = document.querySelectorAll('.pld-lens .panes .text');
          const observer = new MutationObserver(list => { window.touched += list.length; });
          for (const pane of panes) observer.observe(pane, { childList: true, subtree: true });
        }"""
    )
    for pass_ in ("1", "3", "2"):
        letters.part("range").fill(pass_)
        expect(letters.part("position")).to_have_text(f"pass {pass_} of 3")
    assert letters.page.evaluate("window.touched") == 0


def test_keys_move_by_pass(letters: View) -> None:
    position = letters.part("position")
    letters.part("range").focus()
    letters.page.keyboard.press("Home")
    expect(position).to_have_text("pass 1 of 3")
    letters.page.keyboard.press("ArrowRight")
    expect(position).to_have_text("pass 2 of 3")
    value = letters.part("range").get_attribute("aria-valuetext")
    assert value == "pass 2 of 3, kept 3 of 10 draft tokens, 5 tokens so far"
    letters.page.keyboard.press("End")
    expect(position).to_have_text("pass 3 of 3")
    for part in ("range", "lookup", "plain"):
        letters.part(part).focus()
        for key, pass_ in (("Home", 1), ("ArrowRight", 2), ("End", 3), ("ArrowLeft", 2)):
            letters.page.keyboard.press(key)
            expect(position).to_have_text(f"pass {pass_} of 3")
        letters.page.keyboard.press("Space")
        expect(letters.part("play")).to_have_text("Pause")
        letters.page.keyboard.press("Space")
        expect(letters.part("play")).to_have_text("Play")
    for key in ("Home", "ArrowRight", "ArrowRight"):  # faster than frames come
        letters.page.keyboard.press(key)
    expect(position).to_have_text("pass 3 of 3")


def test_steps_and_play(letters: View) -> None:
    position = letters.part("position")
    letters.part("first").click()
    expect(position).to_have_text("pass 1 of 3")
    expect(letters.part("back")).to_be_disabled()
    letters.part("forward").click()
    expect(position).to_have_text("pass 2 of 3")
    letters.part("last").click()
    expect(position).to_have_text("pass 3 of 3")
    letters.page.evaluate(
        """() => {
          window.seen = [];
          const position = document.querySelector('[data-part=position]');
          new MutationObserver(() => window.seen.push(position.textContent))
            .observe(position, { childList: true, subtree: true });
        }"""
    )
    letters.part("speed").select_option("0.1")
    letters.part("play").click()
    letters.page.wait_for_function("() => window.seen.length === 3")
    expect(letters.part("play")).to_have_text("Play")
    seen = letters.page.evaluate("window.seen")
    assert seen == ["pass 1 of 3", "pass 2 of 3", "pass 3 of 3"]


def test_a_short_run_is_played_as_slowly_as_it_can_be_followed(
    view: View, slot: ScriptedSlot
) -> None:
    speed = view.part("speed")

    def shown(passes: int) -> str:
        answer = tokens_of(" p" + " q r" * (passes // 2))  # each pass takes 30 ms or a bit more
        view.load("".join(lines(lane(["x"], answer, n_max=0))))
        expect(view.part("position")).to_have_text(re.compile(f"of {passes}$"))
        return speed.locator("option:checked").inner_text()

    assert shown(11) == "1/10"
    assert shown(31) == "1/4"
    assert shown(61) == "1/2"
    assert shown(111) == "as it ran"
    speed.select_option("4 times")
    assert shown(11) == "4 times"  # what was chosen stays
    speed.select_option("1/4")
    started = view.page.evaluate("performance.now()")
    view.part("play").click()
    expect(view.part("play")).to_have_text("Play")
    took = (view.page.evaluate("performance.now()") - started) / 1000
    assert took >= 10 * 0.0301 * 4
    assert speed.input_value() == "0.25"


def test_play_can_be_paused(view: View, slot: ScriptedSlot) -> None:
    view.run(slot, "a b c", tokens_of(" p q r s t u v w x y z" + " p q r s t u v w x Y" * 20))
    view.part("speed").select_option("0.1")
    view.part("play").click()
    expect(view.part("position")).not_to_have_text(re.compile("pass 1 of"))
    view.part("play").click()
    expect(view.part("play")).to_have_text("Play")
    view.drawn()
    paused = view.part("position").inner_text()
    view.page.wait_for_timeout(700)
    assert view.part("position").inner_text() == paused


def test_the_strip_tells_the_pass(letters: View) -> None:
    letters.part("range").fill("2")
    strip = letters.part("pass")
    expect(strip).to_contain_text("The last token")
    expect(strip).to_contain_text("also stands at prompt token 2")
    kept = strip.locator(".chip.copied").all_inner_texts()
    assert [text.split()[0] for text in kept] == ["␣c", "␣d", "␣e"]
    assert strip.locator("del").count() == 7
    expect(strip.locator(".chip.own")).to_contain_text("␣X")
    expect(strip).to_contain_text("instead of draft token 4")
    expect(strip).to_contain_text("11 positions in one pass")
    expect(strip).to_contain_text("lookup 4 µs · forward 40 ms · accept 0.1 ms")
    letters.part("range").fill("3")
    expect(strip).to_contain_text("The end of the text occurs nowhere earlier")
    letters.part("range").fill("1")
    expect(strip).to_contain_text("one pass reads all 7 prompt tokens")


def test_pointing_at_a_copy_boxes_its_source_in_the_prompt(letters: View) -> None:
    letters.token("lookup", 2).hover()
    expect(letters.token("prompt", 3)).to_have_class(re.compile("source"))
    assert letters.marked("prompt", "source") == [2, 3, 4]
    assert letters.marked("prompt", "beyond") == [5, 6]
    assert letters.marked("lookup", "beyond") == [0]
    assert letters.marked("prompt", "key") == [1]
    assert letters.marked("lookup", "suffix") == [0]
    assert letters.marked("lookup", "this") == [1, 2, 3, 4]
    letters.leave()
    expect(letters.part("prompt").locator(".source")).to_have_count(0)


def test_a_source_may_lie_in_the_output(view: View, slot: ScriptedSlot) -> None:
    view.run(slot, "q", tokens_of(" m n o p m n o p z"))
    view.token("lookup", 6).hover()
    expect(view.part("lookup").locator(".source")).to_have_count(3)
    assert view.marked("lookup", "source") == [1, 2, 3]
    assert view.marked("lookup", "key") == [0]
    assert view.marked("lookup", "suffix") == [4]
    assert view.marked("prompt", "source") == []
    expect(view.part("pass")).to_contain_text("token 1 of its own output")


def test_a_draft_that_runs_into_itself_repeats_its_period(view: View, slot: ScriptedSlot) -> None:
    # the match x stands at 1, the context is start x y | x: the draft is y x y x ...
    view.run(slot, "start x y", tokens_of(" x y x y x y x y x end"))
    view.token("lookup", 5).hover()
    expect(view.part("prompt").locator(".source")).to_have_count(1)
    assert view.marked("prompt", "source") == [2]
    assert view.marked("lookup", "source") == [0]
    expect(view.part("pass")).to_contain_text("repeating itself every 2 tokens")


def test_a_click_locks_and_another_lets_go(letters: View) -> None:
    letters.token("lookup", 2).click()
    letters.leave()
    assert letters.marked("prompt", "source") == [2, 3, 4]
    expect(letters.part("passTitle")).to_contain_text("kept on screen")
    letters.token("lookup", 3).click()
    letters.leave()
    expect(letters.part("prompt").locator(".source")).to_have_count(0)


def test_what_is_kept_outlasts_the_pointer(letters: View) -> None:
    def marks() -> tuple[list[int], ...]:
        return (
            letters.marked("prompt", "source"),
            letters.marked("prompt", "key"),
            letters.marked("lookup", "this"),
            letters.marked("lookup", "copy"),
        )

    def told() -> str:
        return letters.part("passTitle").inner_text()

    letters.token("lookup", 2).click()
    kept = marks(), told()
    assert kept[0] == ([2, 3, 4], [1], [1, 2, 3, 4], [])
    for pane, at in (("prompt", 0), ("prompt", 3), ("lookup", 5), ("plain", 2)):
        letters.token(pane, at).hover()
        assert (marks(), told()) == kept
    letters.token("lookup", 5).click()  # another pass is kept instead
    letters.leave()
    assert letters.marked("lookup", "this") == [5]
    letters.token("prompt", 0).click()  # nothing was copied from there
    assert letters.marked("lookup", "this") == [5]
    letters.token("prompt", 3).click()
    letters.token("lookup", 5).hover()
    assert marks() == ([3], [], [], [1, 2, 3])
    letters.page.keyboard.press("Escape")
    assert letters.marked("lookup", "this") == [5]  # what the pointer is on
    letters.leave()
    assert marks() == ([], [], [], [])


def test_pointing_at_the_prompt_shows_its_copies(letters: View) -> None:
    letters.token("prompt", 3).hover()
    expect(letters.part("lookup").locator(".copy")).to_have_count(3)
    assert letters.marked("lookup", "copy") == [1, 2, 3]


def test_the_prompt_pane_scrolls_itself_and_not_the_page(view: View, slot: ScriptedSlot) -> None:
    prompt = "\n".join(f"line {i} word{i}" for i in range(200))
    view.run(slot, prompt, tokens_of(" word180\nline 181"))
    page_top = view.page.evaluate("scrollY")
    assert view.part("prompt").evaluate("e => e.scrollTop") == 0
    view.token("lookup", 2).hover()
    expect(view.part("prompt").locator(".source").first).to_be_in_viewport()
    assert view.part("prompt").evaluate("e => e.scrollTop") > 1000
    assert view.page.evaluate("scrollY") == page_top


def test_a_lane_follows_its_end_only_when_it_is_there(view: View, slot: ScriptedSlot) -> None:
    slot.gate_at = 190
    slot.gate.clear()
    view.start(slot, "nothing of it", tokens_of("\n".join(f"row {i} of many" for i in range(60))))
    expect(view.token("lookup", 100)).to_be_attached()
    bottom = "e => e.scrollHeight - e.scrollTop - e.clientHeight"
    expect(view.part("plainState")).to_have_text("running")
    view.page.wait_for_function(
        "() => { const e = document.querySelector('[data-part=lookup]');"
        " return e.scrollTop > 0 && e.scrollHeight - e.scrollTop - e.clientHeight < 2; }"
    )
    view.part("lookup").evaluate("e => { e.scrollTop = 0; }")
    slot.gate.set()
    view.wait_for_end()
    assert view.part("lookup").evaluate("e => e.scrollTop") == 0
    assert view.part("plain").evaluate(bottom) < 2


def test_the_plot_follows_the_cursor(letters: View) -> None:
    plot = letters.part("plot")
    expect(plot).to_have_attribute(
        "aria-label",
        "Tokens against passes: prompt lookup gave 6 tokens in 3 passes;"
        " plain decoding needs 6 passes.",
    )
    drawn = plot.evaluate("e => e.data.map(line => [line.x, line.y])")
    assert drawn == [[[0, 1, 2, 3], [0, 1, 5, 6]], [[0, 6], [0, 6]]]
    letters.part("range").fill("2")
    marks = letters.page.locator(".pld-lens .plot-cursor")
    expect(marks.locator(".line-at")).to_have_attribute("data-at", "2")
    expect(marks.locator(".dot.lookup")).to_have_attribute("data-at", "2 5")
    expect(marks.locator(".dot.plain")).to_have_attribute("data-at", "2 2")
