"""Narrow, dark, by keyboard, in forced colours, and what axe finds."""

import re
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import View, opened
from tests.browser.scripted import ScriptedSlot, tokens_of

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
LETTERS = "a b c d e f g"
LETTERS_ANSWER = tokens_of(" b c d e X f")


def axe(view: View, within: str = ".pld-lens") -> list[str]:
    view.drawn()
    if not view.page.evaluate("'axe' in window"):
        view.page.evaluate(AXE.read_text("utf-8"))  # as the page itself would be refused it
    found = view.page.evaluate("where => axe.run(where).then(result => result.violations)", within)
    return [f"{v['id']}: {n['target']} {n['failureSummary']}" for v in found for n in v["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser, served, slot: ScriptedSlot, scheme: str) -> None:
    view = opened(browser, served[0], color_scheme=scheme)
    view.run(slot, LETTERS, LETTERS_ANSWER)
    assert view.page.locator(".pld-lens").get_attribute("data-theme") == scheme
    assert axe(view) == []
    view.part("range").fill("2")
    expect(view.part("position")).to_have_text("pass 2 of 3")
    view.token("lookup", 2).hover()
    expect(view.part("prompt").locator(".source")).to_have_count(3)
    assert axe(view) == []
    view.load("no trace")
    expect(view.part("problem")).to_be_visible()
    view.run(slot, LETTERS, LETTERS_ANSWER, plain=False)
    assert axe(view) == []
    view.page.context.close()


def test_a_phone_needs_no_sideways_scrolling(browser, served, slot: ScriptedSlot) -> None:
    view = opened(browser, served[0], viewport={"width": 390, "height": 844}, has_touch=True)
    view.run(slot, LETTERS, [*LETTERS_ANSWER, " " + "w" * 300])
    for part in ("run", "range", "lookup", "prompt", "plain", "pass", "plot"):
        box = view.part(part).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390, part
    assert view.page.evaluate("document.documentElement.scrollWidth") <= 390
    view.token("lookup", 2).tap()
    expect(view.part("prompt").locator(".source")).to_have_count(3)
    view.page.context.close()


def test_on_a_phone_the_run_stands_under_a_short_form(browser, served, slot: ScriptedSlot) -> None:
    view = opened(browser, served[0], viewport={"width": 390, "height": 844}, has_touch=True)
    page = view.page
    assert page.locator("#recorded").bounding_box()["y"] < 844
    more = page.locator("#unfold")
    settings = page.get_by_role("button", name=re.compile("^Settings"))
    expect(settings).to_be_hidden()
    expect(more).to_have_attribute("aria-expanded", "false")
    more.tap()
    expect(settings).to_be_visible()
    expect(more).to_have_attribute("aria-expanded", "true")
    more.tap()
    expect(settings).to_be_hidden()
    page.set_viewport_size({"width": 1200, "height": 900})
    expect(settings).to_be_visible()
    expect(more).to_be_hidden()
    page.context.close()


def test_forced_colours_keep_the_rules(browser, served, slot: ScriptedSlot) -> None:
    view = opened(browser, served[0], forced_colors="active")
    view.run(slot, LETTERS, LETTERS_ANSWER)
    style = "e => getComputedStyle(e).borderBottomStyle"
    assert view.token("lookup", 1).evaluate(style) == "solid"
    assert view.token("lookup", 4).evaluate(style) == "dotted"
    view.page.context.close()


def test_the_theme_can_change_under_the_view(view: View) -> None:
    root = view.page.locator(".pld-lens")
    expect(root).to_have_attribute("data-theme", "light")
    view.page.evaluate("document.body.classList.add('dark')")
    expect(root).to_have_attribute("data-theme", "dark")


def test_tab_stops_are_controls_and_panes_only(view: View) -> None:
    stops = view.page.evaluate(
        """() => [...document.querySelectorAll('.pld-lens *')].filter(e => e.tabIndex >= 0)
             .map(e => e.getAttribute('role') ?? e.localName)"""
    )
    assert set(stops) <= {"button", "input", "select", "summary", "region", "tab"}
    panes = view.page.locator(".pld-lens .text[tabindex='0']")
    shown = panes.evaluate_all("all => all.filter(e => e.offsetParent).map(e => e.dataset.part)")
    assert shown == ["prompt", "lookup", "plain"]
    assert view.page.locator(".pld-lens .token[tabindex]").count() == 0
