"""Traces that somebody has tampered with, the same for every reader."""

from __future__ import annotations

import json
import random
from typing import Any

from pld_core import trace
from pld_core.events import Pass, dumps
from pld_core.replay import replay
from pld_core.settings import Settings
from tests.browser.scripted import lane, tokens_of

ANYTHING: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, -(10**30), 0.5, 1e308, -1e308, 1e-320, "", "x",
    "__proto__", "prompt", "\ud800", "\u202e", "x" * 5000, [], [[]], [0], [None], ["x"], [1e308] * 4, {}, {"a": 1},
    {"ids": [0], "pieces": ["x"], "answer_start": 0}, {"start": 0, "n": 1, "region": "prompt"},
    {"__proto__": {"x": 1}, "constructor": 1, "toString": None, "length": 10**9},
]  # fmt: skip


def with_trees() -> str:
    """A good trace whose drafts are trees."""
    words = tokens_of("a cat sat up. a cat ran off. a cat hid.")
    answer = tokens_of(" a cat sat up. a cat ran off. a cat sat up")
    recorded = trace.lanes(lane(words, answer))["pld"]
    events = list(replay(recorded, Settings(k=6, branches=4, adaptive=False)))
    assert any(isinstance(event, Pass) and event.branches for event in events)
    return "".join(f"{dumps(event)}\n" for event in events)


def mutated(stream: str, pick: random.Random, changes: int) -> str:
    """The stream with so many changes: to a value somewhere inside, or to the order of lines."""
    parts = stream.splitlines()
    for _ in range(changes):
        at = pick.randrange(len(parts))
        kind = pick.randrange(8)
        if kind == 0:
            parts.insert(at, parts[pick.randrange(len(parts))])
        elif kind == 1 and len(parts) > 1:
            del parts[at]
        elif kind == 2:
            parts[at] = parts[at][: pick.randrange(len(parts[at]) + 1)]
        else:
            parts[at] = _changed(parts[at], pick)
    return "\n".join(parts) + "\n"


def _changed(line: str, pick: random.Random) -> str:
    try:
        event = json.loads(line)
    except ValueError:
        return line
    place = event
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = pick.choice(keys)
        inner = place[key]
        if isinstance(inner, dict | list) and inner and pick.random() < 0.7:
            place = inner
            continue
        if pick.random() < 0.15:
            del place[key]
        else:
            place[key] = pick.choice(ANYTHING)
        break
    return json.dumps(event)
