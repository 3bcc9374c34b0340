"""What can be taken away from a run, and the page to keep, opened from a file."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Iterator

import pytest
from playwright.sync_api import Page, expect

from pld_core import trace as traces
from tests.browser.conftest import View, drawn
from tests.browser.scripted import lane, lines, tokens_of
from tests.browser.test_access import axe

LETTERS = tokens_of("a b c d e f g")
ANSWER = tokens_of(" b c d e X f")
HOSTILE = [
    "</script><script>window.__pwned = 1</script>",
    "<!--<script>",
    "]]>",
    "line\u2028paragraph\u2029",
    "${window.__pwned = 1}`",
    "\ud83d lone",
    "=1+1",
    "+cmd|' /C calc'!A0",
    "@SUM(A1)",
    " -2",
    'quote " and, comma\r\nnew line',
    "👩‍👩‍👧‍👦 é",
    "nul \x00",
]


def trace_of(prompt: list[str], answer: list[str], *names: str) -> str:
    return "".join(lines(*(lane(prompt, answer, name) for name in names or ("pld", "plain"))))


def loaded(view: View, trace: str, answer: list[str]) -> View:
    view.load(trace)
    view.page.wait_for_function(
        "text => document.querySelector('[data-part=lookup]').textContent === JSON.parse(text)",
        arg=json.dumps("".join(answer)),
    )
    return view


def taken(view: View, name: str) -> Path:
    view.part("exports").locator("summary").click()
    with view.page.expect_download() as download:
        view.part(f"export-{name}").click()
    expect(view.part("status")).to_have_text(f"Saved {download.value.suggested_filename}.")
    return Path(download.value.path())


def test_the_menu_opens_and_closes_by_keyboard(view: View) -> None:
    summary = view.part("exports").locator("summary")
    summary.focus()
    view.page.keyboard.press("Enter")
    expect(view.part("export-csv")).to_be_visible()
    expect(view.part("plot")).to_have_attribute("aria-label", re.compile("passes"))
    assert axe(view) == []
    view.page.keyboard.press("Escape")
    expect(view.part("export-csv")).to_be_hidden()
    summary.click()
    view.page.mouse.click(5, 400)
    expect(view.part("export-csv")).to_be_hidden()


def rows_of(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.read_bytes().decode("utf-8", "surrogatepass"), "")))


def test_the_passes_are_a_table(view: View) -> None:
    file = taken(loaded(view, trace_of(LETTERS, ANSWER), ANSWER), "csv")
    raw = file.read_bytes()
    assert raw.count(b"\n") == raw.count(b"\r\n")
    rows = rows_of(file)
    assert [row["lane"] for row in rows] == ["pld"] * 3 + ["plain"] * 6
    second = rows[1]
    assert (second["pass"], second["tokens_before"], second["kept"]) == ("2", "1", "4")
    assert (second["match_n"], second["match_start"], second["match_region"]) == ("1", "1", "prompt")
    assert (second["drafted"], second["accepted"], second["positions"]) == ("6", "3", "7")
    assert float(second["forward_s"]) == pytest.approx(0.036)
    assert second["kept_text"] == " c d e X"
    assert rows[0]["positions"] == "7" and rows[0]["match_n"] == ""


def test_no_cell_is_a_formula(view: View) -> None:
    file = taken(loaded(view, trace_of(["p"], HOSTILE), HOSTILE), "csv")
    rows = rows_of(file)
    cells = [value for row in rows for name, value in row.items() if name.endswith("text")]
    assert not [cell for cell in cells if cell.lstrip().startswith(("=", "+", "-", "@"))]
    assert "'=1+1" in [row["kept_text"] for row in rows]
    assert 'quote " and, comma\r\nnew line' in [row["kept_text"] for row in rows]


def test_the_figure_is_an_svg_and_a_png(view: View) -> None:
    loaded(view, trace_of(LETTERS, ANSWER, "pld", "pld-b", "plain"), ANSWER)
    root = ET.parse(taken(view, "svg")).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "Prompt lookup decoding on scripted, n 3, k 6" in texts
    assert {"Lookup A", "Lookup B", "plain", "passes", "tokens"} <= set(texts)
    paths = list(root.iter("{http://www.w3.org/2000/svg}path"))
    assert len(paths) == 3
    data = taken(view, "png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(data[16:20], "big") == 2 * 760


def test_the_numbers_are_copied_as_markdown(view: View) -> None:
    view.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    loaded(view, trace_of(LETTERS, ANSWER), ANSWER)
    view.part("exports").locator("summary").click()
    view.part("export-markdown").click()
    expect(view.part("status")).to_have_text("The numbers are copied.")
    expect(view.page.locator(".pld-lens .said")).to_have_text("The numbers are copied.")
    expect(view.page.locator(".pld-lens .said")).to_be_in_viewport()
    expect(view.page.locator(".pld-lens .said")).to_be_hidden(timeout=10_000)
    text = view.page.evaluate("navigator.clipboard.readText()")
    table = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines()[2:] if line]
    assert all(len(row) == 3 for row in table)
    assert dict((row[0], row[1:]) for row in table)["Passes"] == ["3", "6"]
    assert dict((row[0], row[1:]) for row in table)["Same text as plain"] == ["yes", "–"]


@pytest.fixture
def offline(browser) -> Iterator[tuple[Page, list[str]]]:
    """A browser without a network, and all that it asks for or complains of."""
    context = browser.new_context(offline=True, viewport={"width": 1366, "height": 1000})
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: asked.append(f"error {error}"))
    page.on("console", lambda message: asked.append(message.text) if message.type == "error" else None)
    yield page, asked
    context.close()


def open_kept(page: Page, view: View, file: Path) -> None:
    """The page to keep of what is on screen, from a file."""
    file.write_bytes(taken(view, "page").read_bytes())
    page.goto(file.as_uri())
    drawn(page)


def test_a_page_to_keep_opens_from_a_file(
    view: View, offline: tuple[Page, list[str]], tmp_path: Path
) -> None:
    page, asked = offline
    loaded(view, trace_of(LETTERS + HOSTILE, ANSWER + HOSTILE), ANSWER + HOSTILE)
    view.scrub(2)
    open_kept(page, view, tmp_path / "kept.html")
    part = "[data-part={}]".format
    answer = "".join(ANSWER + HOSTILE)
    for name in ("lookup", "plain"):
        text = json.loads(page.locator(part(name)).evaluate("e => JSON.stringify(e.textContent)"))
        assert text == answer
    assert page.locator(part("position")).inner_text().startswith("pass 2 of ")
    assert page.locator(part("prompt")).locator(".source").count() == 3
    assert page.evaluate("window.__pwned") is None
    page.locator(part("forward")).click()
    expect(page.locator(part("position"))).to_contain_text("pass 3 of")
    page.locator(part("lookup")).locator("[data-at='2']").hover()
    expect(page.locator(part("prompt")).locator(".source")).to_have_count(3)
    assert page.locator(part("plot")).locator("svg path").count() == 2
    page.locator(part("exports")).locator("summary").click()
    with page.expect_download() as download:
        page.locator(part("export-csv")).click()
    assert download.value.suggested_filename.endswith("-passes.csv")
    with page.expect_download() as download:
        page.locator(part("save")).click()
    lanes = traces.read(Path(download.value.path()).read_text("utf-8").splitlines())
    assert lanes["pld"].text == answer
    assert page.locator(part("export-page")).count() == 0
    assert len(asked) == 1 and asked[0].startswith("file://"), asked


def test_a_page_to_keep_opens_on_the_lane_that_was_stepped_through(
    view: View, offline: tuple[Page, list[str]], tmp_path: Path
) -> None:
    page, asked = offline
    others = (lane(LETTERS, ANSWER, name) for name in ("pld", "plain"))
    loaded(view, "".join(lines(lane(LETTERS, ANSWER, "pld-b", k=1), *others)), ANSWER)
    view.token("rival", 2).click()
    view.part("back").click()
    expect(view.part("position")).to_have_text("pass 3 of 4")  # where A is at its end
    open_kept(page, view, tmp_path / "kept.html")
    for name in ("position", "whose", "lookupCount", "plainCount"):
        expect(page.locator(f"[data-part={name}]")).to_have_text(view.part(name).inner_text())
    expect(page.locator("[data-part=position]")).to_have_text("pass 3 of 4")
    expect(page.locator("[data-part=whose]")).to_have_text("Numbers of Lookup B")
    expect(page.locator(".controls [type=radio]").last).to_be_checked()
    assert len(asked) == 1, asked


def test_a_page_to_keep_without_a_server_is_a_sentence(view: View) -> None:
    view.page.route("**/parts/*.js", lambda route: route.abort())
    view.part("exports").locator("summary").click()
    view.part("export-page").click()
    expect(view.part("status")).to_contain_text("could not be made")
