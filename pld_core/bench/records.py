"""Measurements in a file, one line each, written as they are made: a run that was cut short goes
on where it stopped."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Iterator

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
    """The measurements of a file, as far as they were made with the same setup.

    A setup is a JSON object: what the numbers depend on. A file holds setups, each before its
    measurements; only those of the last one count, and `anew` says which facts differ from it,
    where any does. Nothing in the file is ever changed: lines are added.
    """

    def __init__(self, path: Path, setup: dict) -> None:
        self._path = path
        self._runs: dict[tuple[str, str, int], Measured] = {}
        self._failed: dict[tuple[str, str], Failed] = {}
        self.anew: list[str] = []
        last = self._read()
        self.resumed = len(self._runs)
        if last is not None:
            self.anew = _differing(last, setup)
        if self.anew:
            self._runs.clear()
            self.resumed = 0
        if self.anew or last != setup:
            self._add({"type": "setup", "setup": setup})

    def has(self, row: Row, engine: str, turn: int) -> bool:
        return (key(row), engine, turn) in self._runs

    def add(self, row: Row, engine: str, turn: int, run: dict) -> None:
        self._keep(Measured(key(row), row.name, row.category, engine, turn, run))
        self._add({"type": "run", "key": key(row), "category": row.category, "row": row.name,
                   "engine": engine, "turn": turn, "run": run})  # fmt: skip

    def fail(self, row: Row, engine: str, why: str) -> None:
        self._failed[key(row), engine] = Failed(row.name, row.category, engine, why)
        self._add({"type": "failure", "key": key(row), "row": row.name, "category": row.category,
                   "engine": engine, "why": why})  # fmt: skip

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

    def _read(self) -> dict | None:
        """Reads what is there and returns the last setup; a line that was cut off in the middle,
        as by a power cut, is left out."""
        if not self._path.exists():
            return None
        text = self._path.read_text(encoding="utf-8", errors="replace")
        if text and not text.endswith("\n"):
            with self._path.open("a", encoding="utf-8") as file:
                file.write("\n")
        last = None
        for line in text.split("\n"):
            try:
                data = json.loads(line)
                if data["type"] == "setup":
                    if last is None or _differing(last, data["setup"]):
                        self._runs.clear()
                    last = data["setup"]
                elif data["type"] == "run" and last is not None:
                    names = ("key", "row", "category", "engine", "turn", "run")
                    self._keep(Measured(*(data[name] for name in names)))
            except (ValueError, KeyError, TypeError):
                continue
        return last

    def _add(self, data: dict) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")


def _differing(old: dict, new: dict) -> list[str]:
    """The facts that differ, as sentences. Engines are compared where both setups have them."""
    facts = {name: (old.get(name), value) for name, value in new.items() if name != "engines"}
    theirs = old.get("engines", {})
    for engine, value in new.get("engines", {}).items():
        if engine in theirs:
            facts[engine] = (theirs[engine], value)
    return [f"{name} was {was}, now {now}" for name, (was, now) in facts.items() if was != now]
