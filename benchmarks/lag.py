"""How long after it happened a pass is on screen, on the real page in a real Chromium.

    python benchmarks/lag.py
    python benchmarks/lag.py --passes 300 --pace 10

The page's model is a script: --passes passes, --pace of them a second, that give some 2.7 tokens
each behind a prompt of 1,500; one token in 20 ends a line. They go out as those of every run do,
to a Chromium on the same machine (the Debian package chromium, driven by the playwright of
requirements-test.txt). There the pane of the answer is watched: when tokens were put into it, the
next animation frame notes the time and how many stand there. A pass is on screen in the first such
frame that has its tokens.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import sys
import time
from contextlib import closing, redirect_stdout
from pathlib import Path
from statistics import median
from typing import Iterator

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import app
from pld_core.events import End, Event, Match, Pass, Prefill, Prompt, Seconds, Start
from pld_core.serving import Request, Status, updates

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
PROMPT = 1500
WORDS = [f" w{n}\n" if n % 20 == 0 else f" w{n}" for n in range(400)]
SPARE_SECONDS = 60  # for a page that is late

READY = "() => globalThis.pldLens?.view && !pldLens.view.pending"
WATCH = """() => {
  globalThis.seen = [];
  const pane = document.querySelector("[data-part=lookup]");
  const look = () => seen.push([Date.now() / 1000, pane.querySelectorAll("[data-at]").length]);
  const changed = new MutationObserver(() => requestAnimationFrame(look));
  changed.observe(pane, { childList: true, subtree: true });
}"""

Moment = tuple[float, int]
"""A time, and how many tokens there are."""


class Script:
    """Answers every request by the same run, see hosting.service.Runner, and notes what it has
    made after each pass."""

    status = Status("ready", "a script", "a script", "paper")

    def __init__(self, passes: int, pace: float) -> None:
        self.events = list(scripted(passes))
        self.pace = pace
        self.made: list[Moment] = []

    def run(self, request: Request) -> Iterator[str]:
        return updates(self.paced(), starts=1)

    def paced(self) -> Iterator[Event]:
        self.made = []
        tokens, due = 1, time.monotonic()
        for event in self.events:
            if isinstance(event, Pass):
                due += 1 / self.pace
                time.sleep(max(0, due - time.monotonic()))
                tokens += len(event.kept)
                self.made.append((time.time(), tokens))
            yield event

    def measure(self) -> tuple[tuple[int, float], ...]:
        return ()


def scripted(passes: int) -> Iterator[Event]:
    """A run of which most passes copy, each from where the token stands that was given before."""
    rng = random.Random(0)
    prompt = rng.choices(range(len(WORDS)), k=PROMPT)
    settings = {"n_max": 3, "k": 10, "policy": "recent"}
    yield Start("pld", "a script", "0", "paper", "float32", {}, settings,
                Prompt(prompt, told(prompt), PROMPT), created="2026-01-02T03:04:05Z")  # fmt: skip
    start, tokens = 0, 1
    yield Prefill("pld", 0.2, prompt[:1], told(prompt[:1]))
    for index in range(2, passes + 2):
        accepted = rng.choice((0, 0, 1, 1, 2, 3, 5))
        draft = prompt[start + 1 : start + 4 + accepted] if accepted else []
        match = Match(start, 1, "prompt") if draft else None
        start = rng.choice([at for at in range(PROMPT - 10) if prompt[at] not in draft])
        kept = [*draft[:accepted], prompt[start]]
        tokens += len(kept)
        yield Pass(
            lane="pld",
            index=index,
            match=match,
            draft=draft,
            draft_pieces=told(draft),
            accepted=accepted,
            bonus=kept[-1],
            kept=kept,
            pieces=told(kept),
            width=1 + len(draft),
            seconds=Seconds(1e-4, 0.02, 1e-5),
            probabilities=[0.9] * len(kept),
            margins=[1.0] * len(kept),
        )
    yield End("pld", "eos", tokens, passes + 1)


def told(ids: list[int]) -> list[str]:
    return [WORDS[token] for token in ids]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=1500, metavar="N", help="default 1500")
    parser.add_argument("--pace", type=float, default=40, metavar="X", help="a second; default 40")
    options = parser.parse_args(arguments)
    if options.passes < 1 or not 0 < options.pace < math.inf:
        parser.error("there is at least one pass, and some in a second")
    chromium = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if chromium is None:
        parser.error("there is no Chromium here: install the Debian package chromium")
    script = Script(options.passes, options.pace)
    with redirect_stdout(sys.stderr):  # Gradio talks
        seen = watched(script, chromium)
    print(f"{options.passes:,} passes, {options.pace:g} a second, {script.made[-1][1]:,} tokens, "
          f"put on screen {len(seen):,} times\n\n{table(waited(script.made, seen))}")  # fmt: skip


def watched(script: Script, chromium: str) -> list[Moment]:
    """Runs the script on the page; what stood on screen when, until all of it does."""
    with closing(app.build(script)) as served, sync_playwright() as playwright:
        _, url, _ = served.launch(
            server_name="127.0.0.1",
            prevent_thread_lock=True,
            quiet=True,
            **app.launch_settings(script),
        )
        with playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"]) as browser:
            page = browser.new_page(viewport={"width": 1366, "height": 900})
            page.goto(url)
            page.wait_for_function(READY)
            page.evaluate(WATCH)
            page.locator("#run").click()
            page.wait_for_function(
                "tokens => seen.at(-1)?.[1] === tokens",
                arg=script.events[-1].tokens,
                polling=500,
                timeout=1e3 * (len(script.events) / script.pace + SPARE_SECONDS),
            )
            return page.evaluate("seen")


def waited(made: list[Moment], seen: list[Moment]) -> list[float]:
    """Seconds from each moment to the first one after it at which as much was seen."""
    return [
        next(at for at, shown in seen if at >= time and shown >= tokens) - time
        for time, tokens in made
    ]


def table(seconds: list[float]) -> str:
    quarter = -(-len(seconds) // 4)
    rows = {
        "all passes": seconds,
        "their first quarter": seconds[:quarter],
        "their last quarter": seconds[-quarter:],
    }
    lines = ["| s until on screen | median | 95 % | 99 % | longest |", "|---|---|---|---|---|"]
    for name, values in rows.items():
        ordered = sorted(values)
        cuts = [ordered[int(share * len(ordered))] for share in (0.95, 0.99)]
        cells = [f"{value:.3f}" for value in (median(ordered), *cuts, ordered[-1])]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
