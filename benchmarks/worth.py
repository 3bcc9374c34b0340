"""What settings are worth on recorded runs, by what a pass of each width costs.

    python benchmarks/worth.py
    python benchmarks/worth.py runs/*.ndjson --by float32 --by int4 --by 1:10,16:10.5,32:11.2

Every run is replayed exactly with each of the settings. Its speed over plain decoding is what
all its passes would cost, over plain decoding's. Costs are measured here, once, for the embedded
model in a type, or given as WIDTH:MILLISECONDS. Prints that speed over all runs and, behind it,
tokens per pass, the prompts' passes included.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pld_core.threads import settle

settle()  # before anything imports torch

from pld_core.bench.progress import Progress
from pld_core.cost import PassCost
from pld_core.lookup import POLICIES
from pld_core.models.errors import ModelError
from pld_core.models.loading import DTYPES, load
from pld_core.replay import what_if
from pld_core.settings import Settings
from pld_core.trace import Trace, read

DEFAULT = Settings()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="default: the page's own")
    parser.add_argument(
        "--by",
        action="append",
        metavar="COST",
        help=f"one of {', '.join(DTYPES)}, or costs as 1:10,16:10.5; repeatable; default float32",
    )
    options = parser.parse_args(arguments)
    runs = options.runs or sorted((ROOT / "static" / "examples").glob("*.ndjson"))
    names = options.by or ["float32"]
    try:
        traces = [recorded(run) for run in runs]
        costs = {name: cost(name) for name in names}
    except (OSError, ValueError, ModelError) as error:
        parser.error(str(error))
    variants = dict(variations())
    bar = Progress(sys.stderr)
    bar.plan("replay", len(costs) * len(variants))
    lines = [
        f"{len(traces)} runs, {sum(len(trace.ids) for trace in traces):,} tokens",
        "",
        f"| settings | {' | '.join(costs)} |",
        f"|---|{'---|' * len(costs)}",
    ]
    for label, settings in variants.items():
        cells = []
        for name, own in costs.items():
            bar.begin(f"{label}, {name}")
            cells.append("{:.3f} ({:.2f})".format(*worth(traces, settings, own)))
            bar.end("replay")
        lines.append(f"| {label} | {' | '.join(cells)} |")
    bar.clear()
    print("\n".join(lines))


def variations() -> Iterator[tuple[str, Settings]]:
    for policy in sorted(POLICIES, key=lambda policy: policy != DEFAULT.policy):
        yield f"{policy}, k {DEFAULT.k}", replace(DEFAULT, policy=policy)
    for k in (10, 15, 63):
        yield f"{DEFAULT.policy}, k {k}", replace(DEFAULT, k=k)
    for branches in (2, 4):
        yield f"{DEFAULT.policy}, {branches} branches", replace(DEFAULT, branches=branches)
    for k in (5, 8, 10, 15, 31):
        yield f"whole drafts, k {k}", replace(DEFAULT, k=k, adaptive=False)


def worth(traces: Sequence[Trace], settings: Settings, cost: PassCost) -> tuple[float, float]:
    """Speed over plain decoding, prefill apart, and tokens per pass."""
    settings = replace(settings, pass_seconds=cost.measured)
    plain = taken = 0.0
    tokens = passes = 0
    for trace in traces:
        replayed = what_if(trace, settings)
        plain += (len(trace.ids) - 1) * cost.seconds(1)
        taken += sum(cost.seconds(step.width) for step in replayed.passes)
        tokens += len(trace.ids)
        passes += len(replayed.steps)
    return plain / taken, tokens / passes


def cost(name: str) -> PassCost:
    """Measured for a type of the embedded model, or as the name says. Raises ValueError, one
    sentence."""
    if name in DTYPES:
        return PassCost(load(device="cpu", dtype=name).measure_passes())
    try:
        pairs = [pair.split(":") for pair in name.split(",")]
        return PassCost(tuple((int(width), float(ms) / 1e3) for width, ms in pairs))
    except ValueError:
        raise ValueError(
            f"{name!r} is neither a type ({', '.join(DTYPES)}) nor costs such as 1:10,16:10.5."
        ) from None


def recorded(path: Path) -> Trace:
    """The lane of a run that was decoded with a lookup. Raises ValueError, one sentence."""
    try:
        trace = read(path.read_text(encoding="utf-8").splitlines()).get("pld")
        if trace is not None:
            Settings.from_json(trace.start.settings)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if trace is None or len(trace.ids) < 2:
        raise ValueError(f"{path} holds no run with a lookup and more than one token.")
    return trace


if __name__ == "__main__":
    main()
