"""Prompts from files that people already have."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator

from pld_core.prompting import Ask


_WRONG = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)


class RowsError(ValueError):
    """A file that cannot be read or holds no prompts; the message is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt with its name, the category it belongs to and its own stop strings."""

    name: str
    category: str
    ask: Ask
    stop: tuple[str, ...] = ()


def read_text(path: str | Path) -> str:
    """A text file as the page reads one: without a byte order mark, lines end in \\n, and the one
    newline that editors put behind the last line is no part of the text. Raises RowsError."""
    try:
        return Path(path).read_text(encoding="utf-8-sig").removesuffix("\n")
    except OSError as error:
        raise RowsError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise RowsError(f"{path} is not a text in UTF-8.") from None


def read_rows(path: str | Path, unread: Callable[[str], None] | None = None) -> list[Row]:
    """The prompts of a file: JSON lines or a JSON list of objects in the shapes below, or any
    other text as one prompt.

    Shapes: {"prompt"} or {"chat": messages} (ours: also "stop", "answer_prefix", "system",
    "reference", "raw"), Spec-Bench {"turns"} (its first turn), code edits {"instruction",
    "input"}, questions {"question", "ctxs"}, key-value retrieval {"ordered_kv_records", "key"}.
    Raises RowsError; with `unread`, what cannot be read is told to it, a sentence each, and the
    rest is read.
    """
    path = Path(path)
    text = read_text(path)
    if path.suffix in (".jsonl", ".ndjson"):
        rows = list(_parsed(text, path, unread))
    elif path.suffix == ".json":
        rows = list(_listed(text, path, unread))
    else:
        rows = [Row(path.name, "text", Ask(text))] if text.strip() else []
    if not rows:
        raise RowsError(f"{path} holds no prompt.")
    return rows


def _parsed(text: str, path: Path, unread: Callable[[str], None] | None) -> Iterator[Row]:
    later = 0
    # splitlines() would also break at U+2028, which JSON allows inside a string
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            row = _row(data, f"{path.stem}:{number}")
        except _WRONG:
            said = f"Line {number} of {path} is not a prompt in a known shape"
            if unread is None:
                raise RowsError(f"{said}.") from None
            unread(f"{said}: left out.")
            continue
        later += _later_turns(data)
        yield row
    if later and unread:
        unread(_only_first(later, path))


def _listed(text: str, path: Path, unread: Callable[[str], None] | None) -> Iterator[Row]:
    said = f"{path} is not a list of prompts in a known shape."
    try:
        listed = list(json.loads(text))
    except _WRONG:
        raise RowsError(said) from None
    later = 0
    for number, data in enumerate(listed, 1):
        try:
            row = _row(data, f"{path.stem}:{number}")
        except _WRONG:
            if unread is None:
                raise RowsError(said) from None
            unread(f"Entry {number} of {path} is not a prompt in a known shape: left out.")
            continue
        later += _later_turns(data)
        yield row
    if later and unread:
        unread(_only_first(later, path))


def _later_turns(data: dict) -> bool:
    """Whether a conversation goes on behind what is asked."""
    return "turns" in data and len(data["turns"]) > 1


def _only_first(rows: int, path: Path) -> str:
    return f"Rows of {path} with further turns: {rows}. Only the first turn of each is asked."


def _row(data: dict, name: str) -> Row:
    name = str(data.get("id") or data.get("task_id") or data.get("question_id") or name)
    if "turns" in data:
        return Row(name, _text(data.get("category", "chat")), Ask(_text(data["turns"][0])))
    if "instruction" in data:
        return Row(name, "edit", Ask(f"{_text(data['instruction'])}\n\n{_text(data['input'])}"))
    if "ordered_kv_records" in data:
        records = json.dumps(dict(data["ordered_kv_records"]), indent=0)
        question = f"Write the value of the key {_text(data['key'])} and nothing else."
        return Row(name, "retrieval", Ask(f"{records}\n\n{question}"))
    if "ctxs" in data:
        passages = "\n\n".join(_text(passage["text"]) for passage in data["ctxs"])
        question = f"Answer with words from the text: {_text(data['question'])}?"
        return Row(name, "question", Ask(f"{passages}\n\n{question}"))
    category = _text(data.get("category", data.get("title", "prompt")))
    return Row(name, category, _ask(data), _stops(data.get("stop", [])))


def _ask(data: dict) -> Ask:
    chat = data.get("chat")
    prompt = data["prompt"] if data.get("prompt") is not None else chat[-1]["content"]
    system = data.get("system")
    return Ask(
        _text(prompt),
        _text(data.get("answer_prefix", "")),
        chat=not data.get("raw", False),
        system=None if system is None else _text(system),
        reference=_text(data.get("reference", "")),
    )


def _stops(value: object) -> tuple[str, ...]:
    return tuple(_text(stop) for stop in ([value] if isinstance(value, str) else value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
