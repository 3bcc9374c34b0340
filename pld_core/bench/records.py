"""Measurements of engines on rows, kept in a journal as they are made."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Iterator

from pld_core.bench.journal import Journal
from pld_core.rows import Row


@dataclass(frozen=True, slots=True)
class Measured:
    """One engine on one row, once. turn counts from 1; `run` holds the fields of engines.Run;
    key is the row's, see `key`."""

    key: str
    row: str
    category: str
    engine: str
    turn: int
    run: dict


@dataclass(frozen=True, slots=True)
class Failed:
    """One engine that could not answer one row, and why, a sentence."""

    row: str
    category: str
    engine: str
    why: str


def key(row: Row) -> str:
    """A row by what is asked: two files may give the same name to different prompts."""
    asked = json.dumps([row.ask.prompt, row.ask.answer_prefix, row.ask.chat, row.ask.system,
                        row.ask.reference, row.stop])  # fmt: skip
    return f"{row.name} {sha256(asked.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


class Records:
    """The measurements of a file that were made with the same setup; see Journal."""

    def __init__(self, path: Path, setup: dict) -> None:
        self._journal = Journal(path, "setup", setup)
        self._runs: dict[tuple[str, str, int], Measured] = {}
        self._failed: dict[tuple[str, str], Failed] = {}
        for line in self._journal.lines:
            match line:
                case {"type": "run", **run}:
                    with suppress(TypeError):  # a line that somebody else wrote
                        self._keep(Measured(**run))
        self.anew = self._journal.anew
        self.resumed = len(self._runs)

    def has(self, row: Row, engine: str, turn: int) -> bool:
        return (key(row), engine, turn) in self._runs

    def add(self, row: Row, engine: str, turn: int, run: dict) -> None:
        measured = Measured(key(row), row.name, row.category, engine, turn, run)
        self._keep(measured)
        self._journal.add({"type": "run", **asdict(measured)})

    def fail(self, row: Row, engine: str, why: str) -> None:
        failed = Failed(row.name, row.category, engine, why)
        self._failed[key(row), engine] = failed
        self._journal.add({"type": "failure", "key": key(row), **asdict(failed)})

    def of(self, rows: list[Row], engines: list[str], turns: int) -> Iterator[Measured]:
        """What was measured of these, in their order."""
        for row in rows:
            for engine in engines:
                for turn in range(1, turns + 1):
                    if found := self._runs.get((key(row), engine, turn)):
                        yield found

    def failures(self) -> list[Failed]:
        """What failed in this process; what an earlier one could not do was tried again."""
        return list(self._failed.values())

    def _keep(self, measured: Measured) -> None:
        self._runs[measured.key, measured.engine, measured.turn] = measured
