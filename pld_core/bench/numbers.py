"""What measurements come to: per row and engine, per category, and over all rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Iterable, Sequence

from pld_core.bench.engines import PLAIN
from pld_core.bench.records import Measured

ALL = "all rows"


@dataclass(frozen=True, slots=True)
class Spread:
    """A median between its quartiles."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """None of no values."""
        if not values:
            return None
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, _, high = quantiles(values, n=4, method="inclusive")
        return cls(low, median(values), high)


@dataclass(slots=True)
class Cell:
    """One engine on one row: its repeats, in order. same: whether every repeat's text is the
    reference's, by ids where both give them; None without a reference."""

    key: str
    row: str
    category: str
    engine: str
    runs: list[dict] = field(default_factory=list)
    same: bool | None = None

    @property
    def counts(self) -> tuple[int, int] | None:
        """(tokens, passes) over the repeats; None where the engine does not say."""
        pairs = [(run["tokens"], run["passes"]) for run in self.runs]
        if any(tokens is None or passes is None for tokens, passes in pairs):
            return None
        return sum(tokens for tokens, _ in pairs), sum(passes for _, passes in pairs)

    @property
    def later(self) -> list[int]:
        """Tokens of each repeat that came after the first pass's; [] where the engine does not
        say, or none did."""
        counts = [
            0
            if run["tokens"] is None or run["at_first"] is None
            else run["tokens"] - run["at_first"]
            for run in self.runs
        ]
        timed = all(run["decode_seconds"] > 0 for run in self.runs)
        return counts if timed and all(count > 0 for count in counts) else []

    @property
    def rates(self) -> list[float]:
        """Decoded tokens (those after the first pass's) per second of each repeat, or []."""
        return [count / run["decode_seconds"] for count, run in zip(self.later, self.runs)]

    @property
    def first_token(self) -> float:
        """Seconds up to the first token, median."""
        return median(run["prefill_seconds"] for run in self.runs)

    @property
    def unsaid(self) -> str:
        return next((run["unsaid"] for run in self.runs if run["unsaid"]), "")


@dataclass(frozen=True, slots=True)
class Line:
    """One engine on the rows of a category. rate: decoded tokens per second, summed over the
    rows in each repeat, then median and quartiles over the repeats. against: the same, as a
    ratio to the reference in the same repeat, on the rows that both answered. tokens_per_pass:
    all tokens over all passes, of rows whose engine says both. same, compared: rows whose text
    is the reference's, of those compared."""

    category: str
    engine: str
    rows: int
    tokens_per_pass: float | None
    rate: Spread | None
    against: Spread | None
    first_token: float
    same: int
    compared: int
    unsaid: str


def cells(measured: Iterable[Measured], eos: Sequence[int] = ()) -> list[Cell]:
    """The repeats of each engine on each row, compared with the reference's; eos: ids that end
    an answer, which some engines leave out."""
    found: dict[tuple[str, str], Cell] = {}
    for m in measured:
        cell = found.setdefault((m.key, m.engine), Cell(m.key, m.row, m.category, m.engine))
        cell.runs.append(m.run)
    for (row, engine), cell in found.items():
        if reference := found.get((row, PLAIN)):
            wanted = reference.runs[0]
            cell.same = all(_same(run, wanted, eos) for run in cell.runs)
    return list(found.values())


def lines(found: Sequence[Cell]) -> list[Line]:
    """A line per engine for each category and, where there are several, for all rows."""
    categories = list(dict.fromkeys(cell.category for cell in found))
    engines = list(dict.fromkeys(cell.engine for cell in found))
    groups = [(name, [cell for cell in found if cell.category == name]) for name in categories]
    groups = [*groups, (ALL, list(found))] if len(groups) > 1 else groups
    return [
        _line(name, [cell for cell in group if cell.engine == engine], group)
        for name, group in groups
        for engine in engines
        if any(cell.engine == engine for cell in group)
    ]


def ratio(cell: Cell, reference: Cell) -> float | None:
    """A row's decode speed over the reference's, medians."""
    if not cell.rates or not reference.rates:
        return None
    return median(cell.rates) / median(reference.rates)


def _line(category: str, own: list[Cell], group: list[Cell]) -> Line:
    references = {cell.key: cell for cell in group if cell.engine == PLAIN}
    timed = [cell for cell in own if cell.rates]
    both = [
        (cell, references[cell.key])
        for cell in timed
        if cell.key in references and references[cell.key].rates
    ]
    counts = [cell.counts for cell in own if cell.counts]
    passes = sum(passes for _, passes in counts)
    return Line(
        category,
        own[0].engine,
        len(own),
        sum(tokens for tokens, _ in counts) / passes if passes else None,
        Spread.of(_summed(timed)),
        Spread.of(
            [
                mine / theirs
                for mine, theirs in zip(
                    _summed([cell for cell, _ in both]), _summed([cell for _, cell in both])
                )
            ]
        ),
        median(cell.first_token for cell in own),
        sum(cell.same is True for cell in own),
        sum(cell.same is not None for cell in own),
        next((cell.unsaid for cell in own if cell.unsaid), ""),
    )


def _summed(group: list[Cell]) -> list[float]:
    """Decoded tokens per second over the rows, repeat by repeat, as far as all rows went."""
    repeats = min((len(cell.runs) for cell in group), default=0)
    return [
        sum(cell.later[i] for cell in group) / sum(cell.runs[i]["decode_seconds"] for cell in group)
        for i in range(repeats)
    ]


def _same(run: dict, wanted: dict, eos: Sequence[int]) -> bool:
    if run["ids"] is None or wanted["ids"] is None:
        return run["text"] == wanted["text"]
    return _without_end(run["ids"], eos) == _without_end(wanted["ids"], eos)


def _without_end(ids: list[int], eos: Sequence[int]) -> list[int]:
    return ids[:-1] if ids and ids[-1] in eos else ids
