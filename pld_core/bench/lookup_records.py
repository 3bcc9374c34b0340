"""Measurements of lookups, kept in a journal as they are made."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

from pld_core.bench.journal import Journal
from pld_core.events import dumps
from pld_core.trace import Trace


@dataclass(frozen=True, slots=True)
class Cost:
    """What a lookup costs at a context's length, in CPU seconds: reading a token of a context
    that is new to it, and one pass (one token more and a draft), a median."""

    type: ClassVar[str] = "cost"
    rule: str
    own: bool
    context: int
    token: float
    lookup: float

    @property
    def key(self) -> tuple[str, int]:
        return self.rule, self.context


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a rule's drafts came to on one recorded run, which is named by its `run_key`."""

    type: ClassVar[str] = "replay"
    rule: str
    run: str
    tokens: int
    passes: int
    unmatched: int
    drafted: int
    accepted: int

    @property
    def key(self) -> tuple[str, str]:
        return self.rule, self.run


def run_key(trace: Trace) -> str:
    """A recorded run by what is replayed of it: a file's name does not say what it holds."""
    return sha256(f"{dumps(trace.start)} {trace.ids}".encode()).hexdigest()[:12]


class LookupRecords:
    """The measurements of a file that were made with the same setup, by their keys; see
    Journal."""

    def __init__(self, path: Path, setup: dict) -> None:
        self._journal = Journal(path, "lookup setup", setup)
        self.found: dict[tuple[str, int | str], Cost | Replayed] = {}
        for line in self._journal.lines:
            with suppress(TypeError):  # a line that somebody else wrote
                match line:
                    case {"type": Cost.type, **fields}:
                        self._keep(Cost(**fields))
                    case {"type": Replayed.type, **fields}:
                        self._keep(Replayed(**fields))
        self.anew = self._journal.anew
        self.resumed = len(self.found)

    def add(self, measured: Cost | Replayed) -> None:
        self._keep(measured)
        self._journal.add({"type": measured.type, **asdict(measured)})

    def _keep(self, measured: Cost | Replayed) -> None:
        self.found[measured.key] = measured
