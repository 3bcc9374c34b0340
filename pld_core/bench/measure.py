"""The loop: every engine on every row, taking turns."""

from __future__ import annotations

from time import sleep
from typing import Sequence

from pld_core.bench.engines import Engine, EngineError
from pld_core.bench.progress import Progress
from pld_core.bench.records import Records
from pld_core.decoder import PromptError
from pld_core.rows import Row
from pld_core.settings import SettingsError

LEAST = 3
"""A median of fewer repeats says nothing about its spread."""


def measure(
    engines: Sequence[Engine], rows: Sequence[Row], repeats: int, records: Records, bar: Progress
) -> None:
    """Runs what `records` lacks and adds it there, measurement by measurement.

    Row by row: each engine answers once unmeasured (its warm-up), then all take turns, `repeats`
    times, every other time in the opposite order. So a machine that slows down slows all of
    them, and none works while the one before it still keeps the machine busy. An engine that
    fails on a row is left out of that row, and the rest goes on.
    """
    todo = {
        row: {
            engine.name: [t for t in range(1, repeats + 1) if not records.has(row, engine.name, t)]
            for engine in engines
        }
        for row in rows
    }
    for turns in todo.values():
        for name, missing in turns.items():
            bar.plan(name, len(missing) + bool(missing))
    for row, turns in todo.items():
        if not any(turns.values()):
            continue
        running = [engine for engine in engines if turns[engine.name]]
        for turn in range(repeats + 1):
            for engine in running[:: -1 if turn % 2 else 1]:
                if turn and turn not in turns[engine.name]:
                    continue
                if not _step(engine, row, turn, records, bar):
                    running = [other for other in running if other is not engine]
                    left = [t for t in turns[engine.name] if t > turn]
                    bar.skip(engine.name, len(left))
        bar.line(row.name)
    bar.clear()


def _step(engine: Engine, row: Row, turn: int, records: Records, bar: Progress) -> bool:
    """Whether the engine answered; turn 0 is the warm-up."""
    bar.begin(f"{row.name}, {engine.name}")
    why = ""
    try:
        run = engine.run(row)
    except (EngineError, PromptError, SettingsError) as error:
        why = str(error)
    except Exception as error:  # an engine is somebody else's code, and the others go on
        why = f"The engine failed ({type(error).__name__})."
    if why:
        records.fail(row, engine.name, why)
    elif turn:
        records.add(row, engine.name, turn, run.to_json())
    sleep(engine.rest)
    bar.end(engine.name)
    return not why
