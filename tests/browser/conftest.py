"""The real page on a scripted slot, in a real Chromium."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

import app
from tests.browser.scripted import ScriptedSlot, lane, lines, tokens_of

EXAMPLE_PROMPT = "one two three four five six"
EXAMPLE_ANSWER = tokens_of(" two three four nine")
SLOWED = float(os.environ.get("PLD_SLOWED", "1"))  # the browser as on a machine so many times slower

expect.set_options(timeout=20_000)


@pytest.fixture(scope="session")
def example() -> str:
    prompt = tokens_of(EXAMPLE_PROMPT)
    return "".join(lines(lane(prompt, EXAMPLE_ANSWER), lane(prompt, EXAMPLE_ANSWER, "plain")))


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory, example: str) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    (folder / "counting.ndjson").write_text(example, "utf-8")
    other = "".join(lines(lane(tokens_of("to and fro"), tokens_of(" and on"))))
    (folder / "walking.ndjson").write_text(other, "utf-8")
    return folder


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


def started(chromium: str) -> dict[str, object]:
    """How every browser starts."""
    return {"executable_path": chromium, "args": ["--no-sandbox"]}


@pytest.fixture(scope="session")
def browser(chromium: str, playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(**started(chromium))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def regular(
    chromium: str, playwright: Playwright, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrowserContext]:
    """The browser of somebody who was here before: it holds Gradio's scripts compiled, and opens
    the page in half the time."""
    context = playwright.chromium.launch_persistent_context(
        tmp_path_factory.mktemp("browser"),
        **started(chromium),
        viewport={"width": 1366, "height": 1000},
    )
    yield context
    context.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def served(examples: Path, chromium: str) -> Iterator[tuple[str, ScriptedSlot]]:
    """The address of the page, and its slot."""
    slot = ScriptedSlot()
    page = app.build(slot, examples)
    _, address, _ = page.launch(
        server_name="127.0.0.1",
        server_port=free_port(),
        prevent_thread_lock=True,
        quiet=True,
        **app.launch_settings(slot),
    )
    yield address, slot
    page.close()


@pytest.fixture
def slot(served: tuple[str, ScriptedSlot]) -> Iterator[ScriptedSlot]:
    _, slot = served
    slot.reset()
    yield slot
    slot.gate.set()


def drawn(page: Page) -> None:
    """Waits until all that was asked of the view on this page is on screen: it draws in a later
    frame, so nothing may be read from it right after an action."""
    page.wait_for_function("() => globalThis.pldLens?.view && !pldLens.view.pending")


class View:
    """The page as a visitor handles it. What it reads of the view has been drawn."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.faults: list[str] = []
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda message: self._hear(message.text))
        if SLOWED > 1:
            browser = page.context.new_cdp_session(page)
            browser.send("Emulation.setCPUThrottlingRate", {"rate": SLOWED})
        self.open()

    def _hear(self, text: str) -> None:
        if "Content Security Policy" in text:  # the page asked for what its headers forbid
            self.faults.append(text)

    def open(self) -> None:
        self.page.goto(self.address)
        # A link may open on an empty view, and what stood there before is gone at once.
        expect(self.part("status")).not_to_be_empty()
        self.drawn()

    def drawn(self) -> None:
        drawn(self.page)

    def part(self, name: str):
        return self.page.locator(f".pld-lens [data-part={name}]")

    def text(self, lane: str) -> str:
        """The text of a lane, exactly: lone surrogates do not survive the way here unescaped."""
        self.drawn()
        return json.loads(self.part(lane).evaluate("e => JSON.stringify(e.textContent)"))

    def figure(self, name: str) -> tuple[str, str]:
        self.drawn()
        item = self.page.locator(f".pld-lens [data-figure={name}]")
        return item.locator(".value").inner_text(), item.locator(".note").inner_text()

    def token(self, lane: str, at: int):
        return self.part(lane).locator(f"[data-at='{at}']")

    def marked(self, lane: str, mark: str) -> list[int]:
        """Places of the tokens that carry a mark, alone or with their whole chunk."""
        self.drawn()
        return self.part(lane).evaluate(
            "(e, mark) => [...e.querySelectorAll(`.token.${mark}, .chunk.${mark} > .token`)]"
            ".map(t => +t.dataset.at)", mark
        )

    def ask(self, prompt: str, plain: bool = True, prefix: str = "") -> None:
        self.page.locator("#answer-prefix textarea").fill(prefix)
        self.page.locator("#prompt textarea").fill(prompt)
        self.page.locator("#plain input[type=checkbox]").set_checked(plain)
        self.page.locator("#run").click()

    def start(self, slot: ScriptedSlot, prompt: str, answer: list[str], **options) -> None:
        """A run from the click to its first sign on screen."""
        slot.answer = answer
        before = len(slot.requests)
        self.ask(prompt, **options)
        self.page.wait_for_function(
            "created => document.querySelector('[data-part=run]').textContent.endsWith(created)",
            arg=f"run-{before + 1}",
        )

    def run(self, slot: ScriptedSlot, prompt: str, answer: list[str], **options) -> None:
        """A run from the click to its end."""
        self.start(slot, prompt, answer, **options)
        self.wait_for_end()

    def wait_for_end(self) -> None:
        self.page.wait_for_function(
            "() => ['lookupState', 'plainState'].every(part => "
            "document.querySelector(`[data-part=${part}]`).dataset.state !== 'running')"
        )
        self.drawn()

    def scrub(self, pass_: int) -> None:
        self.part("range").fill(str(pass_))
        self.drawn()

    def saved(self) -> str:
        with self.page.expect_download() as download:
            self.part("save").click()
        return Path(download.value.path()).read_text("utf-8")

    def load(self, content: str | bytes, name: str = "trace.ndjson") -> None:
        data = content.encode() if isinstance(content, str) else content
        self.part("file").set_input_files(
            {"name": name, "mimeType": "application/x-ndjson", "buffer": data}
        )
        self.drawn()

    def leave(self) -> None:
        self.page.mouse.move(1, 1)
        self.drawn()


def opened(browser: Browser, address: str, **options) -> View:
    return View(browser.new_context(**options).new_page(), address)


@pytest.fixture
def view(
    regular: BrowserContext, served: tuple[str, ScriptedSlot], slot: ScriptedSlot
) -> Iterator[View]:
    view = View(regular.new_page(), served[0])
    yield view
    view.page.evaluate("() => (localStorage.clear(), sessionStorage.clear())")
    view.page.close()
    regular.clear_cookies()
    regular.clear_permissions()
    assert view.faults == []


@pytest.fixture(scope="module")
def shared_view(browser: Browser, served: tuple[str, ScriptedSlot]) -> Iterator[View]:
    """A page for tests that only ask its scripts."""
    view = opened(browser, served[0])
    yield view
    view.page.context.close()
    assert view.faults == []
