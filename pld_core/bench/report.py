"""What a benchmark found, as Markdown and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Sequence

from pld_core.bench.engines import PLAIN
from pld_core.bench.numbers import Cell, Line, Spread, lines, ratio
from pld_core.bench.records import Failed


@dataclass(frozen=True, slots=True)
class Call:
    """A call that measured. setup: what its numbers depend on, as recorded."""

    command: str
    created: str
    setup: dict

    def head(self) -> dict:
        """What its JSON begins with."""
        return {
            "version": 1,
            "command": self.command,
            "created": self.created,
            "setup": self.setup,
        }


@dataclass(frozen=True, slots=True)
class Report(Call):
    """Everything that one call found of engines."""

    prompts: dict[str, str]
    cells: list[Cell]
    failures: list[Failed]

    @property
    def lines(self) -> list[Line]:
        return lines(self.cells)

    @property
    def unsaid(self) -> list[str]:
        """Why cells are empty, once per engine."""
        said = {(cell.engine, cell.unsaid): None for cell in self.cells if cell.unsaid}
        return [f"{engine}: {why}." for engine, why in said]

    @property
    def failed(self) -> list[str]:
        return [f"{failure.row}, {failure.engine}: {failure.why}" for failure in self.failures]


def markdown(report: Report) -> str:
    """The table, and below it what is missing from it, as sentences."""
    head = ["rows", "engine", "tokens/pass", "tokens/s", "x plain", "first token ms", "same text"]
    parts = [table([head, *map(columns, report.lines)])]
    if report.unsaid:
        parts.append("\n".join(f"- {said}" for said in report.unsaid))
    if report.failures:
        parts.append("Not measured:\n\n" + "\n".join(f"- {said}" for said in report.failed))
    return "\n\n".join(parts)


def data(report: Report) -> dict:
    """All of it, every single measurement included, as JSON's types."""
    return {
        **report.head(),
        "lines": [asdict(line) for line in report.lines],
        "cells": [asdict(cell) | {"prompt": report.prompts.get(cell.key)} for cell in report.cells],
        "failures": [asdict(failure) for failure in report.failures],
    }


def columns(line: Line) -> list[str]:
    """Whose line it is, and its numbers: tokens per pass, decoded tokens per second, over plain
    decoding's, milliseconds to the first token, how many texts are plain decoding's."""
    return [
        f"{line.category} ({line.rows})",
        line.engine,
        "-" if line.tokens_per_pass is None else f"{line.tokens_per_pass:.2f}",
        _spread(line.rate, 1),
        _spread(line.against, 2),
        f"{1000 * line.first_token:.0f}",
        f"{line.same}/{line.compared}" if line.compared else "-",
    ]


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up as plain text; the first row is its head. What
    would end a cell or a row is taken out of the texts."""
    clean = [["".join(_plain(c) for c in text) for text in row] for row in rows]
    widths = [max(len(row[i]) for row in clean) for i in range(len(clean[0]))]
    made = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |" for row in clean]
    return "\n".join([made[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *made[1:]])


def _plain(character: str) -> str:
    if character == "|":
        return "\\|"
    return character if character.isprintable() else " "


def _spread(value: Spread | None, digits: int) -> str:
    """median (lower quartile..upper quartile)."""
    if value is None:
        return "-"
    return f"{value.middle:.{digits}f} ({value.low:.{digits}f}..{value.high:.{digits}f})"


def ratios(cells: Sequence[Cell]) -> dict[str, list[tuple[Cell, float]]]:
    """engine -> each of its rows with its speed over the reference's."""
    references = {cell.key: cell for cell in cells if cell.engine == PLAIN}
    found: dict[str, list[tuple[Cell, float]]] = {}
    for cell in cells:
        if cell.engine != PLAIN and cell.key in references:
            value = ratio(cell, references[cell.key])
            if value is not None:
                found.setdefault(cell.engine, []).append((cell, value))
    return found
