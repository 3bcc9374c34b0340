"""What being watched costs a run: the same run alone and served by the page, in turn.

    python benchmarks/streaming.py
    python benchmarks/streaming.py --dtype int4 --preset retell-a-story --both --pairs 10

Both are made by one model in one process, the page's own. Alone, a loop takes the decoder's
events and does nothing with them. Served, a client asks over HTTP what the form's button asks and
reads the answer to its end: a process of its own on the same cores, which parses every message, as
a browser's script does, and draws nothing (some 15 ms of CPU time a run). Every other pair begins
with the served run; one pair more, the first, warms up.

A run is timed where its events leave the decoder, from the first token to the last, so what a
request takes to start and to end is in neither. Prints medians over the pairs, and behind a median
of ratios the interval that holds it in 95 of 100 samples of the pairs (bootstrap).
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from contextlib import closing, contextmanager, redirect_stdout
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Callable, Iterator, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import app  # settles the threads before anything imports torch

import gradio as gr

from pld_core.bench.progress import Progress
from pld_core.decoder import Reading
from pld_core.events import Event, Pass, Prefill
from pld_core.links import FORM, RANGES, TEXTS
from pld_core.models.errors import ModelError
from pld_core.models.loading import DTYPES, Model, load
from pld_core.page.examples import presets
from pld_core.page.values import requested
from pld_core.serving import Request, Status, updates

PRESET = "write-freely"  # which copies little: many passes
READER = """
import json, sys, uuid
import httpx

url, asked = json.loads(sys.argv[1])
with httpx.Client(base_url=url, timeout=None) as page:
    for _ in sys.stdin:
        session = {"session_hash": uuid.uuid4().hex}
        page.post("gradio_api/queue/join", json=asked | session).raise_for_status()
        with page.stream("GET", "gradio_api/queue/data", params=session) as stream:
            for line in stream.iter_lines():
                if line:
                    json.loads(line.removeprefix("data:"))
        print("read", flush=True)
"""


class Timed:
    """A model for the page, see hosting.service.Runner, that notes when each event came."""

    def __init__(self, model: Model) -> None:
        self.model = model
        told = f"{model.name}, {model.dtype} on {model.hardware}"
        self.status = Status("ready", told, model.name, model.hardware)
        self.came: list[tuple[float, Event | Reading]] = []

    def events(self, request: Request) -> Iterator[Event | Reading]:
        for event in self.model.run(request.ask(), request.settings(), request.plain, parts=True):
            self.came.append((perf_counter(), event))
            yield event

    def run(self, request: Request) -> Iterator[str]:
        return updates(self.events(request), starts=1 + request.plain)

    def measure(self) -> tuple[tuple[int, float], ...]:
        return self.model.measure_passes()


class Window(NamedTuple):
    """A run from its first token (of the last lane) to its last: wall seconds, those in passes."""

    seconds: float
    in_passes: float
    passes: int

    @property
    def between(self) -> float:
        return (self.seconds - self.in_passes) / self.passes


def window(came: list[tuple[float, Event | Reading]]) -> Window:
    began = max(time for time, event in came if isinstance(event, Prefill))
    passes = [(time, event) for time, event in came if isinstance(event, Pass)]
    inside = sum(event.seconds.total for _, event in passes)
    return Window(passes[-1][0] - began, inside, len(passes))


def main(arguments: list[str] | None = None) -> None:
    known = {preset["id"]: preset for preset in presets()}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=30, metavar="N", help="default 30")
    parser.add_argument("--dtype", choices=DTYPES, help="default float32 on a CPU")
    parser.add_argument("--preset", default=PRESET, metavar="ID", help=f"default {PRESET}")
    parser.add_argument("--tokens", type=int, metavar="N", help="default: the preset's limit")
    parser.add_argument("--both", action="store_true", help="with the plain lane beside it")
    options = parser.parse_args(arguments)
    if options.preset not in known:
        parser.error(f"there is no preset {options.preset!r}: take one of {', '.join(known)}")
    if options.pairs < 1 or options.tokens is not None and options.tokens < 2:
        parser.error("there is at least one pair, and each run has at least two tokens")
    try:
        timed = Timed(load(dtype=options.dtype))
    except ModelError as error:
        parser.error(str(error))
    asked = known[options.preset] | {"plain": options.both}
    if options.tokens:
        asked["max_new_tokens"] = options.tokens
    with redirect_stdout(sys.stderr):  # Gradio talks
        pairs = measured(timed, filled(asked), options.pairs)
    passes, lanes = pairs[0][0].passes, "both lanes" if options.both else "one lane"
    print(f"{timed.status.text}\n{options.preset}, {lanes}, {passes} passes; pairs: {len(pairs)}\n")
    print(table(pairs))


def filled(values: dict[str, Any]) -> list[Any]:
    """The form as a visitor finds it, but for these values."""
    blank = dict.fromkeys(TEXTS, "") | {name: field.default for name, field in RANGES.items()}
    return [values.get(name, blank[name]) for name in FORM]


def measured(timed: Timed, form: list[Any], count: int) -> list[tuple[Window, Window]]:
    """(alone, served) of so many pairs, after one that warms up."""
    request = requested(dict(zip(FORM, form)))

    def alone() -> None:
        for _ in timed.events(request):
            pass

    bar = Progress(sys.stderr)
    bar.plan("run", 2 * (count + 1))
    pairs = []
    with reading(timed, form) as served:
        for number in range(count + 1):
            found = {}
            for run in (alone, served)[:: -1 if number % 2 else 1]:
                bar.begin(f"pair {number}, {run.__name__}")
                timed.came.clear()
                run()
                bar.end("run")
                found[run] = window(timed.came)
            pairs.append((found[alone], found[served]))
            bar.line(f"pair {number}: {found[served].seconds / found[alone].seconds:.3f}")
        bar.clear()
    return pairs[1:]


@contextmanager
def reading(timed: Timed, form: list[Any]) -> Iterator[Callable[[], None]]:
    """Opens the page; what it gives has the client ask for a run and read it to its end."""
    with closing(app.build(timed)) as page:
        _, url, _ = page.launch(
            server_name="127.0.0.1",
            prevent_thread_lock=True,
            quiet=True,
            **app.launch_settings(timed),
        )
        asked = json.dumps([url, {"data": form, "fn_index": button(page)}])
        with subprocess.Popen(
            [sys.executable, "-c", READER, asked],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as reader:

            def served() -> None:
                reader.stdin.write("\n")
                reader.stdin.flush()
                if not reader.stdout.readline():
                    raise SystemExit("The reader ended too early; what it said stands above.")

            yield served


def button(page: gr.Blocks) -> int:
    """The number by which the page knows what the form's button asks of the server."""
    config = page.config
    run = next(part["id"] for part in config["components"] if part["props"].get("elem_id") == "run")
    return next(
        listener["id"]
        for listener in config["dependencies"]
        if listener["backend_fn"] and (run, "click") in listener["targets"]
    )


def table(pairs: list[tuple[Window, Window]]) -> str:
    rows = {
        "s from the first token to the last": [[w.seconds for w in pair] for pair in pairs],
        "s in passes": [[w.in_passes for w in pair] for pair in pairs],
        "ms between two passes": [[w.between * 1e3 for w in pair] for pair in pairs],
    }
    lines = ["| | alone | served | served / alone |", "|---|---|---|---|"]
    for name, values in rows.items():
        alone, served = map(median, zip(*values))
        ratios = [served / alone for alone, served in values]
        low, high = interval(ratios)
        ratio = f"{median(ratios):.3f} ({low:.3f}..{high:.3f})"
        lines.append(f"| {name} | {alone:.2f} | {served:.2f} | {ratio} |")
    return "\n".join(lines)


def interval(values: list[float], samples: int = 2000) -> tuple[float, float]:
    """What holds the median of 95 in 100 samples, drawn from the values with replacement."""
    rng = random.Random(0)
    medians = sorted(median(rng.choices(values, k=len(values))) for _ in range(samples))
    cut = samples // 40
    return medians[cut], medians[-1 - cut]


if __name__ == "__main__":
    main()
