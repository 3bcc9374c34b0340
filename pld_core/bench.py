"""Tokens per pass and per second, ours beside transformers', on the same prompts in one run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Callable, Iterator, Sequence

from pld_core.prompting import Ask
from pld_core.rows import Row
from pld_core.settings import Settings
from pld_core.trace import lanes

if TYPE_CHECKING:
    from pld_core.models.model import Model


@dataclass(frozen=True, slots=True)
class Run:
    """One engine on one prompt, once. Seconds are wall seconds, prefill apart."""

    ids: list[int]
    passes: int
    prefill_seconds: float
    decode_seconds: float


Engine = Callable[[Ask, tuple[str, ...]], Run]


@dataclass(slots=True)
class Cell:
    """One engine on one prompt: every round's runs, which all wrote the same tokens."""

    row: str
    category: str
    engine: str
    tokens: int
    passes: int
    same_as_plain: bool
    prefill_seconds: list[float] = field(default_factory=list)
    decode_seconds: list[float] = field(default_factory=list)

    @property
    def tokens_per_second(self) -> float:
        """Decoded tokens (those after the prefill's) per second, of the median round."""
        return (self.tokens - 1) / median(self.decode_seconds)


def ours(model: Model, settings: Settings) -> Engine:
    """This package's decoder."""

    def run(ask: Ask, stop: tuple[str, ...]) -> Run:
        (trace,) = lanes(model.run(ask, replace(settings, stop=stop), plain=False)).values()
        numbers = trace.numbers()
        return Run(trace.ids, numbers.passes, numbers.prefill_seconds, numbers.decode_seconds)

    return run


def transformers(model: Model, max_new_tokens: int, **generate) -> Engine:
    """transformers' own generate() on an eager model: greedy, with the arguments given
    (prompt_lookup_num_tokens=10 for its prompt lookup)."""
    import torch

    network = model.network

    def run(ask: Ask, stop: tuple[str, ...]) -> Run:
        prompt = model.start("prompt", ask, Settings()).prompt.ids
        more = {"stop_strings": list(stop), "tokenizer": model.tokenizer} if stop else {}
        ends: list[float] = []
        forward = network.forward

        def timed(*args, **kwargs):
            out = forward(*args, **kwargs)
            if not ends and network.device.type == "cuda":
                torch.cuda.synchronize(network.device)
            ends.append(perf_counter())
            return out

        network.forward = timed
        try:
            began = perf_counter()
            out = network.generate(
                torch.tensor([prompt], device=network.device),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long, device=network.device),
                do_sample=False,
                max_new_tokens=max_new_tokens,
                pad_token_id=model.eos[0] if model.eos else 0,
                **more,
                **generate,
            )[0, len(prompt) :].tolist()
            ended = perf_counter()
        finally:
            del network.forward
        return Run(out, len(ends), ends[0] - began, ended - ends[0])

    return run


def bench(
    engines: dict[str, Engine], rows: Sequence[Row], rounds: int, done: Callable[[str], None]
) -> Iterator[Cell]:
    """Runs every engine on every row, in turn, `rounds` times after one warm-up, and yields a
    cell per engine and row. The first engine is the plain one that ids are compared with.

    Taking turns means that a machine that slows down slows all of them. `done` is told a row's
    name when it is finished.
    """
    for row in rows:
        cells: dict[str, Cell] = {}
        plain: list[int] = []
        for turn in range(rounds + 1):
            for name, engine in engines.items():
                run = engine(row.ask, row.stop)
                plain = plain or run.ids
                if turn == 0:
                    same = run.ids == plain
                    cells[name] = Cell(
                        row.name, row.category, name, len(run.ids), run.passes, same
                    )
                    continue
                cells[name].prefill_seconds.append(run.prefill_seconds)
                cells[name].decode_seconds.append(run.decode_seconds)
        done(row.name)
        yield from cells.values()


def summary(cells: Sequence[Cell]) -> list[list[str]]:
    """A table: a line per category and engine, tokens per pass over all passes, tokens per
    second over the summed median times, the ratio to the first engine, and identical texts."""
    engines = list(dict.fromkeys(cell.engine for cell in cells))
    lines = [["", "engine", "tokens/pass", "tokens/s", "x plain", "min..max x", "same text"]]
    for category in [*dict.fromkeys(cell.category for cell in cells), "all"]:
        mine = [cell for cell in cells if category in (cell.category, "all")]
        plain = _seconds_per_token([cell for cell in mine if cell.engine == engines[0]])
        for engine in engines:
            own = [cell for cell in mine if cell.engine == engine]
            each = _ratios(own, [cell for cell in mine if cell.engine == engines[0]])
            lines.append(
                [
                    category,
                    engine,
                    f"{sum(c.tokens for c in own) / sum(c.passes for c in own):.2f}",
                    f"{1 / _seconds_per_token(own):.1f}",
                    f"{plain / _seconds_per_token(own):.2f}",
                    f"{min(each):.2f}..{max(each):.2f}",
                    f"{sum(c.same_as_plain for c in own)}/{len(own)}",
                ]
            )
    return lines


def _seconds_per_token(cells: Sequence[Cell]) -> float:
    tokens = sum(cell.tokens - 1 for cell in cells)
    return sum(median(cell.decode_seconds) for cell in cells) / max(1, tokens)


def _ratios(cells: Sequence[Cell], plain: Sequence[Cell]) -> list[float]:
    """Per row, tokens per second over the plain engine's."""
    of_plain = {cell.row: cell.tokens_per_second for cell in plain}
    return [cell.tokens_per_second / of_plain[cell.row] for cell in cells]


def write_json(path: Path, cells: Sequence[Cell], machine: dict) -> None:
    """Every single time, with what it was measured on."""
    data = {"machine": machine, "cells": [asdict(cell) for cell in cells]}
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")
