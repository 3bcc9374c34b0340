"""What a pass of the embedded model takes by its width, in several types or checkouts in turn.

    python benchmarks/passes.py .:float32 .:bfloat16 .:int4
    python benchmarks/passes.py ../before:float32 .:float32

Each FOLDER:TYPE is a process with the model loaded by that checkout. They measure one after the
other, --rounds times, each as the page does when it starts, so that a machine that slows down
slows them all. Prints milliseconds (the median of the rounds) and, behind them, the median of the
rounds' ratios to the first.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median

WORKER = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pld_core.threads import settle
settle()  # before anything imports torch
from pld_core.models.loading import load
model = load(dtype=sys.argv[2])
for _ in sys.stdin:
    print(json.dumps(model.measure_passes()), flush=True)
"""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("contestants", nargs="+", metavar="FOLDER:TYPE")
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="default 9")
    options = parser.parse_args(arguments)
    for contestant in options.contestants:
        folder, colon, _ = contestant.rpartition(":")
        if not colon or not (Path(folder) / "pld_core").is_dir():
            parser.error(f"{contestant!r} is no FOLDER:TYPE with a checkout in the folder")
    with ExitStack() as stack:
        workers = [stack.enter_context(worker(name)) for name in options.contestants]
        rounds = [[measured(worker) for worker in workers] for _ in range(options.rounds + 1)]
        for process in workers:
            process.stdin.close()
    print(table(options.contestants, rounds[1:]))  # the first one warms up


def worker(contestant: str) -> subprocess.Popen[str]:
    folder, _, dtype = contestant.rpartition(":")
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(Path(folder).resolve()), dtype],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def measured(process: subprocess.Popen[str]) -> dict[int, float]:
    """Seconds by width."""
    process.stdin.write("\n")
    process.stdin.flush()
    if not (line := process.stdout.readline()):
        raise SystemExit("A contestant ended before it was done; what it said stands above.")
    return dict(json.loads(line))


def table(names: list[str], rounds: list[list[dict[int, float]]]) -> str:
    """Markdown; a width that one of them did not measure is left out."""
    widths = [width for width in rounds[0][0] if all(width in found for found in rounds[0])]
    lines = [
        f"| ms a pass, of width | {' | '.join(map(str, widths))} |",
        f"|---|{'---|' * len(widths)}",
    ]
    for place, name in enumerate(names):
        cells = []
        for width in widths:
            taken = median(found[place][width] for found in rounds)
            ratio = median(found[place][width] / found[0][width] for found in rounds)
            cells.append(f"{taken * 1e3:.1f} ({ratio:.2f})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
