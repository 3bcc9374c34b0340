"""What a long job found, in a file, a line each as it is found: a job that was cut short goes on
where it stopped."""

from __future__ import annotations

import json
from pathlib import Path


class Journal:
    """The lines of a file, as far as they were written with the same setup.

    A setup is a JSON object: what the lines depend on. A file holds setups, each before its
    lines; only those of the last one count, and `anew` says which facts differ from it, where
    any does. Nothing in the file is ever changed: lines are added. Jobs whose setups are of
    another `kind` may share it; whoever reads `lines` takes the types that are its own.
    """

    def __init__(self, path: Path, kind: str, setup: dict) -> None:
        self._path = path
        self._kind = kind
        last, lines = self._read()
        self.anew = [] if last is None else _differing(last, setup)
        self.lines = [] if self.anew else lines
        if self.anew or last != setup:
            self.add({"type": kind, "setup": setup})

    def add(self, line: dict) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _read(self) -> tuple[dict | None, list[dict]]:
        """The last setup and its lines; one that was cut off in the middle, as by a power cut, is
        left out."""
        if not self._path.exists():
            return None, []
        text = self._path.read_text(encoding="utf-8", errors="replace")
        if text and not text.endswith("\n"):
            with self._path.open("a", encoding="utf-8") as file:
                file.write("\n")
        last, lines = None, []
        for written in text.split("\n"):
            try:
                line = json.loads(written)
                if line["type"] == self._kind:
                    if last is None or _differing(last, line["setup"]):
                        lines.clear()
                    last = line["setup"]
                elif last is not None:
                    lines.append(line)
            except (ValueError, KeyError, TypeError):
                continue
        return last, lines


def _differing(old: dict, new: dict) -> list[str]:
    """The facts that differ, as sentences. Engines are compared where both setups have them."""
    facts = {name: (old.get(name), value) for name, value in new.items() if name != "engines"}
    theirs = old.get("engines", {})
    for engine, value in new.get("engines", {}).items():
        if engine in theirs:
            facts[engine] = (theirs[engine], value)
    return [f"{name} was {was}, now {now}" for name, (was, now) in facts.items() if was != now]
