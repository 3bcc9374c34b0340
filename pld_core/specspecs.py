"""Traces in the Parquet schema of the package specspecs, and back.

A folder holds two tables, sequences-*.parquet and drafts-*.parquet. There a draft begins with the
token that the step before emitted (it always stands), so a pass with k draft tokens has k + 1;
the prefill is a step without a draft. A table of ours has one more column each, `pld_event`: the
line of the trace, from which it comes back whole. Tables of others come back without matches and
times, which they do not hold.
"""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Callable, Iterable, Iterator, Sequence

from pld_core.events import (
    Compared,
    End,
    Event,
    EventError,
    Pass,
    Prefill,
    Prompt,
    Seconds,
    Start,
    dumps,
    loads,
)

EXTRA = "pld_event"


class ParquetError(ValueError):
    """Tables that cannot be written or read; the message is one sentence for a person."""


def write(events: Iterable[Event], folder: str | Path) -> None:
    """Writes a trace's lanes as sequences of one run. Raises ParquetError, OSError."""
    pa, pq = _arrow()
    sequences, drafts = [], []
    newest: dict[str, int] = {}
    run = ""
    ends: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, Start):
            run = run or f"{event.model} {event.created}".strip()
            sequences.append(
                {
                    "run_id": run,
                    "sequence_id": event.lane,
                    "t": _time(event.created),
                    "prompt_token_ids": event.prompt.ids,
                    "prompt_len": len(event.prompt.ids),
                    EXTRA: dumps(event),
                }
            )
        elif isinstance(event, Prefill | Pass):
            drafts.append(_row(run, event, newest.get(event.lane), _time("")))
            newest[event.lane] = event.kept[-1]
        elif isinstance(event, End | Compared):
            ends.setdefault(event.lane, []).append(dumps(event))
    for row in sequences:
        row[EXTRA] = "\n".join([row[EXTRA], *ends.get(row["sequence_id"], [])])
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows, schema in zip(("sequences", "drafts"), (sequences, drafts), _schemas(pa)):
        table = pa.Table.from_pylist(rows, schema)
        pq.write_table(table, folder / f"{name}-0-00000.parquet", compression="zstd")


def _row(run: str, event: Prefill | Pass, before: int | None, now: datetime) -> dict:
    # of a tree the continuation that was kept: the schema knows chains alone
    draft = [] if isinstance(event, Prefill) else [before, *(event.draft[i] for i in event.line)]
    # the emitted token is the last one kept, also where the answer ended inside its draft
    stands = 0 if isinstance(event, Prefill) else len(event.kept)
    return {
        "run_id": run,
        "sequence_id": event.lane,
        "step": 0 if isinstance(event, Prefill) else event.index - 1,
        "t": now,
        "draft_tokens": draft,
        "acceptances": [place < stands for place in range(len(draft))],
        "k": len(draft),
        "acceptance_length": stands,
        "emitted_token": event.kept[-1],
        EXTRA: dumps(event),
    }


def read(folder: str | Path, pieces: Callable[[Sequence[int]], list[str]]) -> Iterator[Event]:
    """The events of the tables in a folder. `pieces` gives the tokens' texts, for tables that do
    not hold them. Raises ParquetError, one sentence."""
    _, pq = _arrow()
    folder = Path(folder)
    tables = []
    for name in ("sequences", "drafts"):
        parts = sorted(folder.glob(f"{name}-*.parquet"))
        if not parts:
            raise ParquetError(f"{folder} holds no {name}-*.parquet.")
        try:
            tables.append([row for part in parts for row in pq.read_table(part).to_pylist()])
        except Exception as error:
            raise ParquetError(f"The {name} in {folder} cannot be read as Parquet.") from error
    sequences, drafts = tables
    compared: list[Event] = []
    try:
        for row in sequences:
            own = [step for step in drafts if step["sequence_id"] == row["sequence_id"]]
            own.sort(key=lambda step: step["step"])
            if all(r.get(EXTRA) for r in (row, *own)):
                first, *rest = row[EXTRA].splitlines()
                lines = (first, *(step[EXTRA] for step in own), *rest)
                for event in map(loads, lines):
                    if isinstance(event, Compared):
                        compared.append(event)  # after the ends of both lanes
                    else:
                        yield event
            else:
                yield from _foreign(row, own, pieces)
        yield from compared
    except (KeyError, TypeError, AttributeError, EventError) as error:
        raise ParquetError(f"{folder} holds other tables than those of specspecs.") from error


def _foreign(row: dict, steps: list[dict], pieces) -> Iterator[Event]:
    lane, prompt = str(row["sequence_id"]), list(row["prompt_token_ids"])
    created = row["t"].isoformat(timespec="seconds") if row["t"] else ""
    yield Start(
        lane, str(row["run_id"]), "", "unknown", "unknown", {}, {},
        Prompt(prompt, pieces(prompt), len(prompt)), created=created,
    )  # fmt: skip
    tokens = 0
    number = 0
    for step in steps:
        draft, stands = list(step["draft_tokens"]), step["acceptance_length"]
        if number:
            draft, stands = draft[1:], max(0, stands - 1)
        elif draft:
            # the first step of others has a draft of its own: our prefill is its first token
            first = draft[0] if stands else step["emitted_token"]
            yield Prefill(lane, 0.0, [first], pieces([first]))
            number, tokens = 1, 1
            if not stands:
                continue
            draft, stands = draft[1:], stands - 1
        emitted = step["emitted_token"]
        kept = [*draft[:stands], emitted]
        # only the last step can have ended inside its draft
        inside = step is steps[-1] and draft[stands : stands + 1] == [emitted]
        number += 1
        tokens += len(kept)
        if number == 1:
            yield Prefill(lane, 0.0, kept, pieces(kept))
            continue
        yield Pass(
            lane, number, None, draft, pieces(draft), stands + inside,
            None if inside else emitted, kept, pieces(kept), 1 + len(draft), Seconds(0.0, 0.0, 0.0),
        )  # fmt: skip
    yield End(lane, "eos", tokens, number)


def _schemas(pa) -> tuple:
    sequences = [
        ("run_id", pa.string()),
        ("sequence_id", pa.string()),
        ("t", pa.timestamp("us")),
        ("prompt_token_ids", pa.list_(pa.int64())),
        ("prompt_len", pa.int32()),
    ]
    drafts = [
        ("run_id", pa.string()),
        ("sequence_id", pa.string()),
        ("step", pa.int32()),
        ("t", pa.timestamp("us")),
        ("draft_tokens", pa.list_(pa.int64())),
        ("acceptances", pa.list_(pa.bool_())),
        ("k", pa.int16()),
        ("acceptance_length", pa.int16()),
        ("emitted_token", pa.int32()),
    ]
    extra = (EXTRA, pa.string())
    return pa.schema([*sequences, extra]), pa.schema([*drafts, extra])


def _time(created: str) -> datetime:
    try:
        time = datetime.fromisoformat(created)
    except ValueError:
        time = datetime.now(timezone.utc)
    return time.replace(tzinfo=None)


def _arrow():
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ParquetError("Parquet needs the package pyarrow: pip install pyarrow.") from None
    return pyarrow, pyarrow.parquet
