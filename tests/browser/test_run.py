"""From the click on Run to the end of a run, and what a visitor can do wrong on the way."""

import time

from playwright.sync_api import expect

from pld_core.events import Compared, End, dumps, read
from pld_core.page.examples import presets
from pld_core.serving import Status
from tests.browser.conftest import EXAMPLE_ANSWER, EXAMPLE_PROMPT, View, opened
from tests.browser.scripted import ScriptedSlot, lane, lines, tokens_of

LETTERS = "a b c d e f g"
LETTERS_ANSWER = tokens_of(" b c d e X f")
LONG = tokens_of(" alpha beta gamma delta" * 60)
ENDLESS = LONG * 8


def test_numbers_are_those_counted_by_hand(view: View, slot: ScriptedSlot) -> None:
    # pass 1 gives b; pass 2 matches b, drafts c d e f g b c d e f, keeps c d e and gives X;
    # X stands nowhere before, so pass 3 is a plain one and gives f
    view.run(slot, LETTERS, LETTERS_ANSWER)
    assert view.text("prompt") == LETTERS
    assert view.text("lookup") == view.text("plain") == "".join(LETTERS_ANSWER)
    assert view.figure("tokens")[0] == "6"
    assert view.figure("passes") == ("3", "plain needs 6 for as many")
    assert view.figure("tokensPerPass")[0] == "2.00"
    # plain: 5 passes of 30.104 ms; lookup: 40.104 ms with the draft and 30.104 ms without
    assert view.figure("speedup") == ("2.14×", "plain 151 ms, lookup 70 ms")
    assert view.figure("sameText") == ("yes", "6 tokens compared")
    details = view.part("details").inner_text()
    assert "copy rate f 67 %" in details and "L 4.00" in details
    assert "3 of 10 draft tokens accepted (30 %)" in details
    assert "1 of 2 passes after the prefill without a draft" in details
    kinds = view.part("lookup").evaluate(
        "e => [...e.querySelectorAll('.token')].map(t => t.classList.contains('copied') ? 'copied' : 'own')"
    )
    assert kinds == ["own", "copied", "copied", "copied", "own", "own"]


def test_marks_do_not_move_the_text(view: View, slot: ScriptedSlot) -> None:
    view.run(slot, LETTERS, LETTERS_ANSWER)
    view.part("range").fill("2")
    place = "name => [...document.querySelectorAll(`[data-part=${name}] .token`)].map(e => e.offsetLeft)"
    plain, lookup = (view.page.evaluate(place, name) for name in ("plain", "lookup"))
    assert len(plain) == len(LETTERS_ANSWER) and lookup == plain


def test_spans_appear_while_it_runs(view: View, slot: ScriptedSlot) -> None:
    slot.gate_at = 8
    slot.gate.clear()
    view.start(slot, "nothing of it", LONG)
    expect(view.part("lookupState")).to_have_attribute("data-state", "running")
    expect(view.token("lookup", 1)).to_be_visible()
    assert 0 < len(view.text("lookup")) < len("".join(LONG))
    expect(view.part("status")).to_have_text("Decoding …")
    slot.gate.set()
    view.wait_for_end()
    assert view.text("lookup") == view.text("plain") == "".join(LONG)


def test_before_the_first_token_it_says_what_it_reads(view: View, slot: ScriptedSlot) -> None:
    slot.gate_at = 2  # both starts are out, neither prefill
    slot.gate.clear()
    view.start(slot, LETTERS, LETTERS_ANSWER)
    expect(view.part("status")).to_have_text("Reading 7 prompt tokens …")
    assert view.text("prompt") == LETTERS
    assert view.text("lookup") == ""
    slot.gate.set()
    expect(view.part("plainState")).to_have_text("complete")


def test_stop_freezes_the_run_and_another_can_follow(view: View, slot: ScriptedSlot) -> None:
    slot.gate_at = 20
    slot.gate.clear()
    view.start(slot, "nothing of it", LONG)
    expect(view.token("plain", 4)).to_be_visible()
    view.page.locator("#stop").click()
    expect(view.part("lookupState")).to_have_text("stopped")
    expect(view.part("plainState")).to_have_text("stopped")
    assert slot.closed.wait(10), "the decoder goes on after Stop"
    frozen = view.text("lookup"), view.text("plain")
    slot.gate.set()
    view.page.wait_for_timeout(500)
    assert (view.text("lookup"), view.text("plain")) == frozen
    ends = [event for event in read(view.saved().splitlines()) if isinstance(event, End)]
    assert [end.reason for end in ends] == ["cancelled", "cancelled"]
    assert ends[1].tokens == ends[1].passes == len(tokens_of(frozen[1]))
    slot.gate_at = None
    view.run(slot, LETTERS, LETTERS_ANSWER)
    assert view.text("lookup") == "".join(LETTERS_ANSWER)


def test_no_late_update_undoes_a_stop(view: View, slot: ScriptedSlot) -> None:
    slot.pause = 0.04  # as often as a real slot sends
    for _ in range(4):
        view.start(slot, "nothing of it", ENDLESS)
        expect(view.part("lookupState")).to_have_attribute("data-state", "running")
        expect(view.token("plain", 3)).to_be_visible()
        view.page.locator("#stop").click()
        expect(view.part("lookupState")).to_have_text("stopped")
        assert slot.closed.wait(10)
        text = view.text("plain")
        view.page.wait_for_timeout(300)
        assert view.text("plain") == text
        assert view.part("plainState").inner_text() == "stopped"


def test_stop_without_a_run_changes_nothing(view: View, example: str) -> None:
    view.page.locator("#stop").click()
    view.page.wait_for_timeout(300)
    assert view.saved() == example


def test_a_wrong_request_is_a_sentence_and_the_next_run_works(
    view: View, slot: ScriptedSlot
) -> None:
    before = view.text("lookup")
    view.ask("")
    notice = view.page.locator("#notice [role=alert]")
    expect(notice).to_have_text("The prompt is empty: there is nothing to read.")
    view.ask("word " * 9000)
    expect(notice).to_contain_text("and the context holds 8192")
    assert view.text("lookup") == before
    assert view.page.locator("#prompt textarea").input_value() == "word " * 9000
    view.run(slot, LETTERS, LETTERS_ANSWER)
    expect(notice).to_be_empty()
    assert view.text("lookup") == "".join(LETTERS_ANSWER)


def test_a_run_that_breaks_off_says_so(view: View, slot: ScriptedSlot) -> None:
    slot.breaks_at = 9
    view.start(slot, "nothing of it", LONG)
    expect(view.part("lookupState")).to_have_text("failed")
    expect(view.page.locator("#notice")).to_contain_text("broke off")


def test_without_the_plain_lane_it_is_counted(view: View, slot: ScriptedSlot) -> None:
    view.run(slot, LETTERS, LETTERS_ANSWER, plain=False)
    assert slot.requests[-1].plain is False
    assert view.part("plainState").inner_text() == "counted, not run"
    assert view.figure("passes") == ("3", "plain needs 6 for as many, counted")
    assert view.figure("speedup") == ("–", "plain lane not run")
    assert view.figure("sameText") == ("–", "plain lane not run")


def test_lanes_that_differ_say_where_and_by_what_margin(view: View, slot: ScriptedSlot) -> None:
    slot.plain_answer = tokens_of(" b c Q e X f")
    view.run(slot, LETTERS, LETTERS_ANSWER)
    assert view.figure("sameText") == ("no", "first at token 3, margin 2.50")
    assert view.marked("lookup", "parts") == view.marked("plain", "parts") == [2]


def test_a_measured_comparison_says_whether_rounding_explains_it(view: View) -> None:
    prompt = tokens_of(LETTERS)
    trace = "".join(
        lines(
            lane(prompt, LETTERS_ANSWER, margin=0.02),
            lane(prompt, tokens_of(" b c Q e X f"), "plain"),
        )
    )
    for rounding, verdict in ((0.1, "a rounding tie"), (0.01, "more than rounding explains")):
        compared = Compared("pld", "plain", 2, 0.02, 0.05, rounding)
        view.load(trace + dumps(compared) + "\n")
        note = view.page.locator("[data-figure=sameText] .note")
        expect(note).to_have_text(f"first at token 3, margin 0.02, {verdict}")


def test_a_slower_lookup_is_shown_as_slower(view: View, slot: ScriptedSlot) -> None:
    view.run(slot, "a b c", tokens_of(" b X a Y b Z"))
    ratio, note = view.figure("speedup")
    assert float(ratio.rstrip("×")) < 1
    assert note.startswith("slower than plain")


def test_begun_answer_is_marked_in_the_prompt(view: View, slot: ScriptedSlot) -> None:
    view.run(slot, LETTERS, LETTERS_ANSWER, prefix=" so far")
    assert view.marked("prompt", "begun") == [7, 8]
    assert view.text("prompt") == LETTERS + " so far"


def test_a_recorded_run_stands_there_before_the_model(
    browser, served, slot: ScriptedSlot, example: str
) -> None:
    slot.status = Status("loading", "The model is loading.")
    view = opened(browser, served[0])
    assert view.text("prompt") == EXAMPLE_PROMPT
    assert view.text("lookup") == "".join(EXAMPLE_ANSWER)
    expect(view.page.locator("#model")).to_have_text("The model is loading.")
    view.ask("too early")
    expect(view.page.locator("#notice")).to_have_text(
        "The model is loading. Please run it again once the model is there."
    )
    slot.status = Status("ready", "scripted, float32 on paper")
    expect(view.page.locator("#model")).to_have_text("scripted, float32 on paper")
    view.page.context.close()


def test_another_recorded_run_can_be_chosen(view: View) -> None:
    view.page.locator("#recorded input").click()
    view.page.get_by_role("option", name="Walking").click()
    expect(view.part("lookup")).to_have_text(" and on")
    assert view.text("prompt") == "to and fro"
    expect(view.page.locator("#recorded")).to_contain_text("machine and date are below")
    expect(view.part("run")).to_have_text("scripted · float32 · cpu · 2026-01-02 03:04 UTC")


def test_a_recorded_run_ends_the_run_on_screen(view: View, slot: ScriptedSlot) -> None:
    slot.pause = 0.04  # as often as a real slot sends
    view.start(slot, "nothing of it", ENDLESS)
    expect(view.token("plain", 3)).to_be_visible()
    view.page.locator("#recorded input").click()
    view.page.get_by_role("option", name="Walking").click()
    expect(view.part("lookup")).to_have_text(" and on")
    assert slot.closed.wait(10)
    view.page.wait_for_timeout(300)
    assert view.text("lookup") == " and on"


def test_settings_reach_the_decoder(view: View, slot: ScriptedSlot) -> None:
    view.page.get_by_text("Settings", exact=True).click()
    for label, value in [
        ("Longest match, tokens (n)", "5"),
        ("Draft length, tokens (k)", "7"),
        ("Most new tokens", "99"),
    ]:
        box = view.page.get_by_role("spinbutton", name=label)
        slider = view.page.get_by_role("slider", name=label)
        for _ in range(5):  # the folded settings take what is typed only once they have settled
            box.fill(value)
            box.press("Tab")
            view.page.wait_for_timeout(200)
            if slider.input_value() == box.input_value() == value:
                break
    view.page.get_by_label("As a chat message").uncheck()
    view.run(slot, LETTERS, LETTERS_ANSWER)
    request = slot.requests[-1]
    assert (request.n_max, request.k, request.max_new_tokens, request.chat) == (5, 7, 99, False)


def test_a_preset_fills_the_form_and_says_what_it_is_about(
    view: View, slot: ScriptedSlot
) -> None:
    preset = presets()[-1]
    slot.answer = LETTERS_ANSWER
    view.page.locator("#preset input").click()
    view.page.get_by_role("option", name=preset["title"]).click()
    expect(view.page.locator("#prompt textarea")).to_have_value(preset["prompt"])
    expect(view.page.locator("#answer-prefix textarea")).to_have_value(preset["answer_prefix"])
    expect(view.page.locator("#preset")).to_contain_text("Fills the form and runs nothing.")
    assert slot.requests == [] and view.text("prompt") == EXAMPLE_PROMPT
    view.page.locator("#run").click()
    expect(view.page.locator("#about")).to_have_text(preset["about"])
    view.wait_for_end()
    request = slot.requests[-1]
    for name in ("prompt", "answer_prefix", "chat", "n_max", "k", "max_new_tokens"):
        assert getattr(request, name) == preset[name]


def test_a_reload_starts_clean(view: View, slot: ScriptedSlot) -> None:
    view.run(slot, LETTERS, LETTERS_ANSWER)
    view.open()
    expect(view.part("lookup")).to_have_text("".join(EXAMPLE_ANSWER))
    assert view.page.locator(".pld-lens").count() == 1


def test_closing_the_tab_ends_the_run(browser, served, slot: ScriptedSlot) -> None:
    slot.gate_at = 12
    slot.gate.clear()
    view = opened(browser, served[0])
    view.start(slot, "nothing of it", LONG)
    expect(view.token("plain", 3)).to_be_visible()
    view.page.context.close()
    until = time.monotonic() + 30
    while not slot.closed.is_set() and time.monotonic() < until:
        time.sleep(0.1)
    assert slot.closed.is_set()
