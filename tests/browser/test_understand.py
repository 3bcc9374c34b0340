"""The panels below the view, the tour and the heat: what they say, and that they say it right."""

import json
import re

import pytest
from playwright.sync_api import Locator, expect

from pld_core.replay import what_if
from pld_core.serving import Status
from pld_core.settings import Settings
from pld_core.trace import read, speedups
from tests.browser.conftest import View, drawn, opened
from tests.browser.scripted import ScriptedSlot, lane, lines, tokens_of
from tests.browser.test_access import axe

LETTERS = "a b c d e f g"
LETTERS_ANSWER = tokens_of(" b c d e X f")
STORY = "one two three four five six seven eight. one two three nine ten. eleven twelve"
STORY_ANSWER = tokens_of(" two three four five six seven nine. one two three nine ten. one two")
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
PANELS = ("whatIf", "equation", "positions", "drafts", "gallery", "learn")


def panel(view: View, name: str) -> Locator:
    view.page.locator(f".pld-lens [data-tab={name}]").click()
    body = view.page.locator(f".pld-lens [data-panel={name}]")
    expect(body.locator(":scope > *").first).to_be_attached()
    view.page.evaluate(TWO_FRAMES)  # what observes sizes and sight reports after the next frame
    view.drawn()
    return body


def figures(body: Locator) -> dict[str, str]:
    drawn(body.page)
    return dict(
        zip(
            body.locator(".figures .figure").evaluate_all("all => all.map(e => e.dataset.figure)"),
            body.locator(".figures .value").all_inner_texts(),
        )
    )


def rows(body: Locator) -> list[list[str]]:
    drawn(body.page)
    return body.evaluate("e => [...e.rows].map(row => [...row.cells].map(cell => cell.textContent))")


def slide(body: Locator, name: str, value: float) -> None:
    body.locator(".slider").filter(has_text=name).locator("input").fill(str(value))


@pytest.fixture
def story(view: View, slot: ScriptedSlot) -> View:
    view.run(slot, STORY, STORY_ANSWER)
    view.leave()
    return view


def test_panels_are_drawn_when_opened_and_tabs_move_by_arrows(story: View) -> None:
    tabs = story.page.locator(".pld-lens [role=tab]")
    bodies = story.page.locator(".pld-lens [role=tabpanel]")
    assert tabs.count() == bodies.count() == len(PANELS)
    assert bodies.evaluate_all("all => all.slice(1).map(e => e.childElementCount)") == [0] * 5
    tabs.first.click()
    story.page.keyboard.press("ArrowRight")
    expect(tabs.nth(1)).to_be_focused()
    expect(tabs.nth(1)).to_have_attribute("aria-selected", "true")
    expect(bodies.nth(1)).to_be_visible()
    expect(bodies.nth(1).locator("svg")).to_have_count(1)
    story.page.keyboard.press("End")
    expect(bodies.last).to_be_visible()
    assert tabs.evaluate_all("all => all.map(e => e.tabIndex)") == [-1] * 5 + [0]


def test_a_move_of_the_cursor_draws_no_panel_again(story: View) -> None:
    for name in ("whatIf", "equation", "drafts"):
        body = panel(story, name)
        expect(body.locator("svg").first).to_be_attached()
        body.evaluate(
            """e => { window.touched = 0; new MutationObserver(all => { window.touched += all.length; })
              .observe(e, { subtree: true, childList: true, attributes: true }); }"""
        )
        for pass_ in (2, 4, 3):
            story.scrub(pass_)
        assert story.page.evaluate("window.touched") == 0, name


def test_what_if_counts_what_pld_core_counts(story: View) -> None:
    trace = read(story.saved().splitlines())["pld"]
    body = panel(story, "whatIf")
    expect(body).to_contain_text("the replay gives its")
    expect(body).to_contain_text("each one equal")
    before = figures(body)
    assert before["passes"] == str(len(trace.passes) + 1)
    slide(body, "Draft length", 2)
    slide(body, "Longest match", 1)
    body.get_by_role("combobox", name="Among equal matches").select_option("oldest")
    expected = what_if(trace, Settings(n_max=1, k=2, policy="oldest")).numbers()
    shown = figures(body)
    assert shown["passes"] == str(expected.passes)
    assert shown["tokensPerPass"] == f"{expected.tokens_per_pass:.2f}"
    assert shown["undrafted"] == str(expected.undrafted_passes)
    assert f"{expected.accepted} of {expected.drafted}" in body.inner_text()
    expect(body).to_contain_text("Changed: n 3 → 1, k 10 → 2, among equal matches the oldest")
    label = body.locator(".graph").get_attribute("aria-label")
    assert label.startswith(f"Tokens against passes: these settings take {expected.passes} passes")
    body.get_by_role("button", name="As recorded").click()
    assert figures(body) == before


def test_the_map_counts_every_cell_and_marks_the_best(story: View) -> None:
    trace = read(story.saved().splitlines())["pld"]
    body = panel(story, "whatIf")
    table = body.locator("table.map")
    expect(table).to_be_visible()
    head, *lines = rows(table)
    lengths = [int(name.split()[1]) for name, *_ in lines]
    drafts = [int(name.split()[1]) for name in head[1:]]
    for n, line in zip(lengths, lines):
        for k, cell in zip(drafts, line[1:]):
            numbers = what_if(trace, Settings(n_max=n, k=k, policy="recent")).numbers()
            assert cell.startswith(f"{numbers.tokens_per_pass:.2f}"), (n, k)
    best = max(float(cell.split()[0]) for line in lines for cell in line[1:])
    expect(table.locator(".best")).to_have_count(1)
    expect(table.locator(".best")).to_contain_text(f"{best:.2f} (best)")
    body.get_by_role("button", name="Best for this text").click()
    expect(table.locator(".best")).to_contain_text("(chosen)")
    assert figures(body)["tokensPerPass"] == f"{best:.2f}"
    body.get_by_text("predicted time", exact=True).click()
    expect(body).to_contain_text("A prediction: each pass is given the mean time")
    table.locator("td").first.click()
    expect(table.locator("td").first).to_contain_text("(chosen)")
    expect(body.locator(".slider").nth(2)).to_contain_text("1 token")


def test_the_equation_tells_the_run_and_other_values(story: View) -> None:
    lanes = read(story.saved().splitlines())
    ratios = speedups(lanes["pld"], lanes["plain"])
    numbers = lanes["pld"].numbers()
    body = panel(story, "equation")
    assert figures(body) == {
        "pass": f"{ratios['passes']:.2f}×",
        "predicted": f"{ratios['predicted']:.2f}×",
        "measured": f"{ratios['time']:.2f}×",
    }
    expect(body).to_contain_text("A copy pass (r_c) took")
    expect(body).to_contain_text(f"Text copy rate {100 * lanes['pld'].text_copy_rate():.0f} %")
    expect(body).to_contain_text(f"= {numbers.passes} passes for {numbers.tokens} tokens")
    expect(body.locator("circle.run")).to_have_count(1)
    expect(body.locator("circle.asked")).to_have_count(0)
    body.get_by_role("button", name="Worked example").click()
    expect(body).to_contain_text("1,000 tokens with f 70 % and L 8.0 take 388 passes: 2.58 tokens")
    expect(body.locator("circle.asked")).to_have_count(1)
    slide(body, "f, share", 0.9)
    expect(body).to_contain_text("1,000 tokens with f 90 %")
    body.get_by_role("button", name="Back to this run").click()
    expect(body.locator("circle.asked")).to_have_count(0)


def test_extra_positions_say_what_was_measured(view: View, slot: ScriptedSlot) -> None:
    view.run(slot, LETTERS, LETTERS_ANSWER)
    body = panel(view, "positions")
    title = "A pass with 10 extra positions took 1.3 times as long as a plain pass here"
    expect(body.locator("h3")).to_have_text(title)
    body.locator("summary").click()
    assert rows(body.locator("table")) == [
        ["Positions", "Passes", "Median time", "Over one position"],
        ["1", "6", "30 ms", "1.00×"],
        ["11", "1", "40 ms", "1.33×"],
    ]
    view.part("range").fill("2")
    expect(body.locator(".ring")).to_have_attribute("visibility", "visible")
    view.run(slot, LETTERS, LETTERS_ANSWER, plain=False)
    panel(view, "positions")
    expect(body.locator("h3")).to_have_text(title)
    expect(body).to_contain_text("that of 1 pass without a draft")
    view.run(slot, "p q", tokens_of(" r s t"))
    panel(view, "positions")
    expect(body.locator("h3")).to_have_text(re.compile("checked no draft"))


def test_the_machine_is_measured_again_in_the_line_of_the_runs(
    browser, served, slot: ScriptedSlot, view: View
) -> None:
    view.run(slot, LETTERS, LETTERS_ANSWER)
    body = panel(view, "positions")
    expect(body.locator(".key-alone")).to_be_hidden()
    slot.gate_at = 8
    slot.gate.clear()
    other = opened(browser, served[0])  # somebody else's run comes first
    other.start(slot, "nothing of it", tokens_of(" alpha beta gamma" * 9))
    again = body.get_by_role("button", name="Measure again")
    again.click()
    told = body.locator("[role=status]")
    expect(told).to_contain_text("In line: 1 run comes before yours")
    assert slot.measured == 0
    slot.gate.set()
    other.wait_for_end()
    other.page.context.close()
    expect(told).to_contain_text("apart from any run, on scripted, float32 on paper: 1 position 30 ms")
    expect(told).to_contain_text("32 positions 1.08 s")
    expect(body.locator(".key-alone")).to_be_visible()
    expect(body.locator("path.line.alone")).to_have_count(1)
    again.click()
    expect(told).to_contain_text("32 positions 2.08 s")
    assert axe(view, ".pld-lens .explore") == []
    slot.status = Status("failed", "The model failed to load (Broken).")
    again.click()
    expect(told).to_have_text("The model failed to load (Broken).")
    expect(body.locator("path.line.alone")).to_have_count(1)


def test_drafts_are_counted_by_position_and_by_pass(view: View, slot: ScriptedSlot) -> None:
    view.run(slot, LETTERS, LETTERS_ANSWER)
    body = panel(view, "drafts")
    expect(body).to_contain_text("50 % of the 2 passes after the prefill had no draft: 1 found no match.")
    expect(body).to_contain_text("part of the draft kept: 1 (50 %)")
    for summary in body.locator("summary").all():
        summary.click()
    acceptance, kept = body.locator("table").all()
    assert rows(acceptance)[1:6] == [
        ["1", "1", "1", "1", "100 %", "100 %"],
        ["2", "1", "1", "1", "100 %", "100 %"],
        ["3", "1", "1", "1", "100 %", "100 %"],
        ["4", "1", "1", "0", "0 %", "0 %"],
        ["5", "1", "0", "0", "0 %", "–"],
    ]
    assert rows(kept)[1:] == [["1", "1", "50 %"], ["4", "1", "50 %"]]


def test_a_run_without_lookup_or_without_a_match_is_said(view: View, slot: ScriptedSlot) -> None:
    view.load("".join(lines(lane(tokens_of("a b"), tokens_of(" c d"), "plain"))))
    for name in PANELS[:4]:
        expect(panel(view, name)).to_contain_text("plain decoding alone")
    view.load("".join(lines(lane(tokens_of("a b"), tokens_of(" c")))))
    for name in PANELS[:4]:
        expect(panel(view, name)).to_contain_text("There is no pass after the prefill.")
    view.run(slot, "a b", tokens_of(" c d e"))
    expect(panel(view, "drafts")).to_contain_text("No pass of this run found a match")
    expect(panel(view, "whatIf")).to_contain_text("each one equal")
    expect(panel(view, "learn").get_by_role("button")).to_be_disabled()


def test_the_gallery_is_sorted_and_opens_a_run(view: View) -> None:
    body = panel(view, "gallery")
    names = body.locator("tbody button").all_inner_texts()
    rates = body.locator("td.rate").all_inner_texts()
    assert sorted(names) == ["Counting", "Walking"]
    assert rates == sorted(rates, key=lambda text: int(text.split()[0].rstrip("%")))
    expect(body.locator("tbody tr").first).to_contain_text("scripted · float32 · cpu · 2026-01-02")
    body.get_by_role("button", name="Walking").click()
    expect(view.part("lookup")).to_have_text(" and on")
    expect(view.page.locator("#recorded input")).to_have_value("Walking")
    expect(view.part("range")).to_be_in_viewport()
    expect(panel(view, "gallery")).to_be_visible()


def test_the_tour_does_one_pass_a_press(story: View) -> None:
    body = panel(story, "learn")
    card = story.page.locator(".pld-lens .tour")
    expect(card).to_be_hidden()
    body.get_by_role("button", name="Show me").click()
    expect(card).to_be_visible()
    story.drawn()
    at = int(story.part("range").input_value())
    for step, name in enumerate(("Match", "Draft", "Check in one pass", "Keep, plus one"), 1):
        expect(card.locator("h2")).to_have_text(name)
        expect(card.locator(".saw")).to_have_text("")
        assert int(story.part("range").input_value()) == at
        card.get_by_role("button", name="Do one pass").click()
        at += 1
        expect(story.part("range")).to_have_value(str(at))
        expect(card.locator(".saw")).to_contain_text("This pass")
        expect(story.page.locator(".pld-lens .toured").first).to_be_attached()
        card.get_by_role("button", name="Go on" if step < 4 else "Done").click()
    expect(card).to_be_hidden()
    assert story.page.locator(".pld-lens .toured").count() == 0
    body.get_by_role("button", name="Show me").click()
    story.page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    expect(body.get_by_role("button", name="Show me")).to_be_focused()


def test_heat_shows_how_often_the_prompt_was_copied(story: View) -> None:
    trace = read(story.saved().splitlines())["pld"]
    counts = [0] * len(trace.start.prompt.ids)
    for step in trace.passes:
        for i in range(step.accepted):
            at = step.match.start + step.match.n + i
            if at < len(counts):
                counts[at] += 1
    story.part("heat").click()
    expect(story.part("prompt").locator(".heat-1").first).to_be_attached()
    levels = story.part("prompt").evaluate(
        "e => [...e.querySelectorAll('.token')].map(t => +(/heat-(\\d)/.exec(t.className)?.[1] ?? 0))"
    )
    assert max(counts) > 1 and levels == counts
    pane = story.page.locator(".pane.prompt")
    expect(pane).to_contain_text(f"{sum(c > 0 for c in counts)} of {len(counts)} prompt tokens")
    story.part("range").fill("1")
    expect(story.part("prompt").locator("[class*=heat-]")).to_have_count(0)
    story.part("heat").click()
    expect(pane.get_by_text("copied so far")).to_be_hidden()


def test_by_seconds_both_lanes_stand_where_they_were_at_that_time(story: View) -> None:
    lanes = read(story.saved().splitlines())
    story.page.locator(".pld-lens .basis").get_by_text("seconds").click()
    story.part("range").fill("3")
    clock = sum(step.seconds.total for step in lanes["pld"].passes[:2])
    passed, plain = 0.0, 1
    for step in lanes["plain"].passes:
        passed += step.seconds.total
        plain += passed <= clock
    expect(story.part("clock")).to_have_text(f"at {clock:.2f} s")
    expect(story.part("plainCount")).to_have_text(f"{plain} tokens, {plain} passes")
    expect(story.part("plot")).to_have_attribute("aria-label", re.compile("^Tokens against decode"))
    marks = story.page.locator(".pld-lens .plot-cursor")
    expect(marks.locator(".dot.plain")).to_have_attribute("data-at", f"{plain} {plain}")


def test_playing_races_both_lanes_on_one_clock(story: View) -> None:
    story.page.evaluate(
        """() => { window.seen = []; window.said = [];
          const play = document.querySelector('[data-part=play]');
          new MutationObserver(() => window.said.push(play.textContent)).observe(play, { childList: true });
          const count = part => parseInt(document.querySelector(`[data-part=${part}]`).textContent);
          new MutationObserver(() => window.seen.push([count('lookupCount'), count('plainCount')]))
            .observe(document.querySelector('[data-part=plainCount]'), { childList: true, subtree: true }); }"""
    )
    story.part("speed").select_option("0.25")
    story.part("play").click()
    story.page.wait_for_function("() => window.said.join() === 'Pause,Play'")
    story.drawn()
    tokens = len(STORY_ANSWER)
    seen = story.page.evaluate("window.seen")
    assert seen[-1] == [tokens, tokens]
    # the lookup lane is through while the plain lane goes on
    assert any(lookup == tokens and plain < tokens for lookup, plain in seen)
    expect(story.part("clock")).to_have_text("")


def test_with_reduced_motion_playing_goes_pass_by_pass(browser, served, slot) -> None:
    view = opened(browser, served[0], reduced_motion="reduce")
    view.run(slot, LETTERS, LETTERS_ANSWER)
    expect(view.page.locator(".pld-lens .speed")).to_contain_text("Speed, at most")
    view.part("play").click()
    for pass_ in (1, 2, 3):
        expect(view.part("position")).to_have_text(f"pass {pass_} of 3")
    expect(view.part("play")).to_have_text("Play")
    view.page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_any_panel(browser, served, slot, scheme: str) -> None:
    view = opened(browser, served[0], color_scheme=scheme)
    view.run(slot, STORY, STORY_ANSWER)
    view.part("heat").click()
    for name in PANELS:
        body = panel(view, name)
        for summary in body.locator("summary").all():
            summary.click()
        if name == "equation":
            body.get_by_role("button", name="Worked example").click()
        view.drawn()
        assert axe(view, ".pld-lens .explore") == [], name
    view.page.locator(".pld-lens .learn .primary").click()
    view.page.locator(".pld-lens .tour .primary").click()
    assert axe(view) == []
    view.page.context.close()


def test_no_panel_is_too_wide_for_a_phone(browser, served, slot) -> None:
    view = opened(browser, served[0], viewport={"width": 390, "height": 844}, has_touch=True)
    view.run(slot, STORY, STORY_ANSWER)
    for name in PANELS:
        body = panel(view, name)
        box = body.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390, name
        assert view.page.evaluate("document.documentElement.scrollWidth") <= 390, name
    view.page.context.close()


def test_a_pass_says_why_it_is_as_wide_as_it_is(view: View, slot: ScriptedSlot) -> None:
    events = [json.loads(line) for line in lines(lane(tokens_of(LETTERS), LETTERS_ANSWER, k=10))]
    strip = view.part("pass")

    def shown(**start) -> None:
        events[0]["settings"].update(start)
        view.load("".join(json.dumps(event) + "\n" for event in events))
        view.part("range").fill("2")

    shown()
    expect(strip).to_contain_text("11 positions in one pass, as many as k allows")
    shown(k=12)
    expect(strip).to_contain_text("as many as there was text or room for")
    events[2]["gain"] = 1.5
    shown(created="2")
    expect(strip).to_contain_text("as many as pay: 1.50× a plain pass’s tokens per second expected")
    shown(max_new_tokens=6)
    view.part("range").fill("3")
    expect(strip).to_contain_text("the last token that the limit leaves room for")
    events[3]["gain"] = 1.0
    shown(created="3")
    view.part("range").fill("3")
    expect(strip).to_contain_text("no draft was expected to pay")


@pytest.mark.parametrize("size", [(1366, 768), (1280, 720), (390, 844)])
def test_the_tour_shows_what_it_speaks_of_and_covers_none_of_it(
    browser, served, slot, size: tuple[int, int]
) -> None:
    width, height = size
    view = opened(
        browser, served[0], viewport={"width": width, "height": height}, reduced_motion="reduce"
    )
    view.run(slot, STORY, STORY_ANSWER)
    panel(view, "learn").get_by_role("button", name="Show me").click()
    card = view.page.locator(".pld-lens .tour")
    for step in ("prompt", "pass", "pass", "pass"):
        for press in ("Do one pass", re.compile("Go on|Done")):
            expect(card.locator(".primary")).to_have_text(press)
            view.page.evaluate(TWO_FRAMES)
            lower, edges = view.page.evaluate(
                """() => {
                  const box = (e) => e.getBoundingClientRect();
                  const outline = ({ outlineOffset, outlineWidth }) => parseFloat(outlineOffset) + parseFloat(outlineWidth);
                  const edges = (e) => [box(e).top - outline(getComputedStyle(e)), box(e).bottom + outline(getComputedStyle(e))];
                  return [box(document.querySelector('.tour')).bottom, [...document.querySelectorAll('.toured')].map(edges)];
                }"""
            )
            expect(view.page.locator(f".pld-lens .toured:has([data-part={step}])")).to_have_count(1)
            assert all(lower <= top and bottom <= height for top, bottom in edges), (step, lower, edges)
            card.locator(".primary").click()
    expect(card).to_be_hidden()
    view.page.context.close()
