"""Records the runs the page shows before its model is loaded: each preset, both lanes.

    python benchmarks/record.py              every preset
    python benchmarks/record.py ID [ID ...]  only these

Writes static/examples/ID.ndjson, the stream of a race of both lanes by the embedded model in
float32. Each preset is run three times on the warm model and the run whose decode time is the
median is kept, so that one disturbance does not tell the story. A run that breaks a law of the
stream, or whose lanes differ, is not written.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pld_core.threads import settle

settle()  # before anything imports torch

from pld_core.events import dumps
from pld_core.models.loading import Model, load
from pld_core.prompting import Ask
from pld_core.settings import Settings
from pld_core.trace import Trace, read, speedups

PRESETS = ROOT / "static" / "presets.json"
EXAMPLES = ROOT / "static" / "examples"
REPEATS = 3


def main() -> None:
    presets = {preset["id"]: preset for preset in json.loads(PRESETS.read_text("utf-8"))}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ids", nargs="*", metavar="ID", help="presets; all of them unless given")
    ids = parser.parse_args().ids or list(presets)
    if unknown := [id for id in ids if id not in presets]:
        parser.error(f"there is no preset {unknown[0]!r}")
    model = load(dtype="float32")
    stream(model, presets[ids[0]], max_new_tokens=16)  # the first run ever is slower
    EXAMPLES.mkdir(exist_ok=True)
    for id in ids:
        lines = record(model, presets[id])
        (EXAMPLES / f"{id}.ndjson").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        print(f"{id}: {summary(read(lines))}", flush=True)


def record(model: Model, preset: dict) -> list[str]:
    """The lines of the median run."""
    runs = [stream(model, preset) for _ in range(REPEATS)]
    for lines in runs:
        check(preset["id"], read(lines))
    return sorted(runs, key=lambda lines: decode_seconds(read(lines)))[REPEATS // 2]


def stream(model: Model, preset: dict, **changed: int) -> list[str]:
    names = ("n_max", "k", "max_new_tokens")
    settings = Settings(**{**{name: preset[name] for name in names}, **changed})
    ask = Ask(preset["prompt"], preset["answer_prefix"], preset["chat"])
    return [dumps(event) for event in model.run(ask, settings)]


def check(id: str, found: dict[str, Trace]) -> None:
    """Exits with one sentence when the run must not be shown."""
    for lane, trace in found.items():
        for law in trace.laws():
            sys.exit(f"{id}, lane {lane}: {law}")
    if found["pld"].ids != found["plain"].ids:
        sys.exit(f"{id}: the lanes differ.")


def decode_seconds(found: dict[str, Trace]) -> float:
    return sum(trace.numbers().decode_seconds for trace in found.values())


def summary(found: dict[str, Trace]) -> str:
    n = found["pld"].numbers()
    ratio = speedups(found["pld"], found["plain"])["time"]
    return (
        f"{n.tokens} tokens in {n.passes} passes, {n.tokens_per_pass:.2f} tokens per pass, "
        f"f {n.f:.2f}, L {n.L:.1f}, {ratio:.2f}x in time, ends by {found['pld'].end.reason}"
    )


if __name__ == "__main__":
    main()
