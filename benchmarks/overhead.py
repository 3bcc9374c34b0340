"""What the decoder takes beside the forward pass, in CPU time.

    python benchmarks/overhead.py
    python benchmarks/overhead.py bfloat16 --presets 11 --tokens 160

The embedded model in each TYPE answers the first presets, with whole drafts of 10 and plain, on
one thread and after an answer that warms up. A pass takes from one event of the decoder to the
next, its telling included; its forward part is the decoder's own figure. Both are CPU time of the
process. Prints means over all passes but the prompts'.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Iterator

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pld_core.threads import settle

settle()  # before anything imports torch

import torch

from pld_core.bench.progress import Progress
from pld_core.decoder import decode
from pld_core.events import Pass
from pld_core.models.errors import ModelError
from pld_core.models.loading import DTYPES, Model, load
from pld_core.prompting import Ask, control_tokens, decoder
from pld_core.rows import read_rows
from pld_core.settings import Settings
from pld_core.text import Pieces
from pld_core.width import drafter

PRESETS = ROOT / "static" / "presets.json"
DRAFTS = (10, 0)


def main(arguments: list[str] | None = None) -> None:
    asks = [row.ask for row in read_rows(PRESETS)]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("types", nargs="*", metavar="TYPE", help="default float32 int4")
    parser.add_argument("--presets", type=int, default=6, metavar="N", help="default 6")
    parser.add_argument("--tokens", type=int, default=96, metavar="N", help="of each; default 96")
    options = parser.parse_args(arguments)
    types = options.types or ["float32", "int4"]
    if unknown := [name for name in types if name not in DTYPES]:
        parser.error(f"there is no type {unknown[0]!r}: it is one of {', '.join(DTYPES)}")
    if not 1 <= options.presets <= len(asks) or options.tokens < 2:
        parser.error(f"there are from 1 to {len(asks)} presets, of at least 2 tokens each")
    torch.set_num_threads(1)
    settings = [Settings(k=k, adaptive=False, max_new_tokens=options.tokens) for k in DRAFTS]
    bar = Progress(sys.stderr)
    for name in types:
        bar.plan(name, len(settings) * options.presets)
    lines = [
        "| type | k | passes | ms a pass | ms beside the forward pass | share |",
        "|---|---|---|---|---|---|",
    ]
    for name in types:
        try:
            model = load(device="cpu", dtype=name)
        except ModelError as error:
            parser.error(str(error))
        list(passes(model, asks[0], settings[0]))  # the first answer ever is slower
        for own in settings:
            found = []
            for ask in asks[: options.presets]:
                bar.begin(f"{name}, k {own.k}")
                found += passes(model, ask, own)
                bar.end(name)
            lines.append(row(name, own.k, found))
        bar.line(name)
    bar.clear()
    print("\n".join(lines))


def passes(model: Model, ask: Ask, settings: Settings) -> Iterator[tuple[float, float]]:
    """CPU seconds of each pass, and of its forward part."""
    start = model.start("pld", ask, settings)
    events = decode(
        start,
        model.target(settings, len(start.prompt.ids)),
        drafter(settings),
        Pieces(decoder(model.tokenizer), control_tokens(model.tokenizer)),
        settings,
        clock=process_time,
    )
    began = process_time()
    for event in events:
        if isinstance(event, Pass):
            yield process_time() - began, event.seconds.forward
        began = process_time()


def row(name: str, k: int, found: list[tuple[float, float]]) -> str:
    whole, forward = map(fmean, zip(*found))
    beside = whole - forward
    cells = (f"{1e3 * whole:.1f}", f"{1e3 * beside:.2f}", f"{100 * beside / whole:.1f} %")
    return f"| {name} | {k} | {len(found)} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
