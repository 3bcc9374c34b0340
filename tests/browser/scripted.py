"""A slot whose model reads from a script: fast, and the same every time.

The script is the answer's tokens. The lookup is the plainest one (longest match first, most
recent), written out here so that the page is tested against something it does not share.
"""

from __future__ import annotations

import re
import threading
import time
from typing import Iterator

from pld_core.events import (
    Candidate,
    End,
    Event,
    Match,
    Pass,
    Prefill,
    Prompt,
    Seconds,
    Start,
    dumps,
)
from pld_core.serving import Request, RequestError, Status

CONTEXT = 8192


def tokens_of(text: str) -> list[str]:
    return re.findall(r" ?\w+|\s|[^\w\s]", text)


class Ids:
    """Pieces <-> ids, by order of appearance."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def of(self, pieces: list[str]) -> list[int]:
        return [self.known.setdefault(piece, len(self.known)) for piece in pieces]

    def piece(self, number: int) -> str:
        return list(self.known)[number]


def longest_match(context: list[int], n_max: int) -> tuple[int, int] | None:
    for n in range(min(n_max, len(context) - 1), 0, -1):
        for start in range(len(context) - n - 1, -1, -1):
            if context[start : start + n] == context[-n:]:
                return start, n
    return None


def lane(
    prompt: list[str],
    output: list[str],
    name: str = "pld",
    n_max: int = 3,
    k: int = 6,
    begun: int | None = None,
    reason: str = "eos",
    margin: float = 2.5,
    reference: list[str] | None = None,
    created: str = "2026-01-02T03:04:05Z",
) -> Iterator[Event]:
    """The events of one lane that answers `prompt` with `output`."""
    ids = Ids()
    context, script = ids.of(prompt), ids.of(output)
    copied_from = ids.of(reference or [])
    pieces = list(ids.known)
    yield Start(
        lane=name,
        model="scripted",
        revision="0",
        device="cpu",
        dtype="float32",
        versions={},
        settings={"n_max": n_max, "k": k, "policy": "recent"},
        prompt=Prompt(list(context), prompt, len(prompt) if begun is None else begun),
        context_limit=CONTEXT,
        reference=Prompt(copied_from, reference, len(reference)) if reference else None,
        created=created,
    )
    kept, passes, origin = 0, 1, len(context)
    yield Prefill(name, 0.2, script[:1], output[:1], [0.9], [margin])
    context.append(script[0])
    kept = 1
    while kept < len(script):
        passes += 1
        match, draft = None, []
        found = longest_match(context, n_max) if name != "plain" else None
        if found:
            start, n = found
            match = Match(start, n, "prompt" if start < origin else "output")
            for i in range(k):
                draft.append((context + draft)[start + n + i])
        elif name != "plain" and context[-1] in copied_from[:-1]:
            start = copied_from.index(context[-1])
            match = Match(start, 1, "reference")
            draft = copied_from[start + 1 : start + 1 + k]
        rest = script[kept:]
        accepted = 0
        while accepted < min(len(draft), len(rest)) and draft[accepted] == rest[accepted]:
            accepted += 1
        bonus = rest[accepted] if accepted < len(rest) else None
        new = rest[: accepted + 1]
        yield Pass(
            lane=name,
            index=passes,
            match=match,
            draft=draft,
            draft_pieces=[pieces[i] for i in draft],
            accepted=accepted,
            bonus=bonus,
            kept=new,
            pieces=[pieces[i] for i in new],
            width=1 + len(draft),
            seconds=Seconds(4e-6, 0.03 + 0.001 * len(draft), 1e-4),
            alternatives=1 if match else 0,
            probabilities=[0.8] * len(new),
            margins=[margin] * len(new),
            wanted=[Candidate(bonus, pieces[bonus], 0.62), Candidate(0, pieces[0], 0.21)]
            if bonus is not None and accepted < len(draft)
            else [],
        )
        context += new
        kept += len(new)
    yield End(name, reason, kept, passes)


def lines(*lanes: Iterator[Event]) -> list[str]:
    """The lanes' lines, interleaved: starts first, then one pass of each in turn."""
    waiting = [iter(events) for events in lanes]
    out: list[str] = []
    while waiting:
        for events in list(waiting):
            event = next(events, None)
            if event is None:
                waiting.remove(events)
            else:
                out.append(dumps(event) + "\n")
    return out


class ScriptedSlot:
    """Answers every prompt with `answer`. Tests set the public attributes before a run."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.status = Status("ready", "scripted, float32 on paper")
        self.answer: list[str] = []
        self.n_max, self.k = 3, 10
        self.context = CONTEXT
        self.plain_answer: list[str] | None = None
        self.pause = 0.0
        self.gate = threading.Event()  # a run waits after `gate_at` lines until it is set
        self.gate_at: int | None = None
        self.breaks_at: int | None = None
        self.closed = threading.Event()
        self.requests: list[Request] = []
        self.measured = 0

    def measure(self) -> tuple[tuple[int, float], ...]:
        self.measured += 1
        return ((1, 0.03), (2, 0.031), (4, 0.033), (8, 0.04), (16, 0.05), (32, 0.08 + self.measured))

    def run(self, request: Request) -> Iterator[str]:
        self.requests.append(request)
        self.closed.clear()
        if self.status.state != "ready":
            raise RequestError(self.status.text)
        if not request.prompt:
            raise RequestError("The prompt is empty: there is nothing to read.")
        prompt = tokens_of(request.prompt)
        if len(prompt) > self.context:
            raise RequestError(
                f"The prompt has {len(prompt)} tokens and the context holds {self.context}."
            )
        created = f"run-{len(self.requests)}"
        options = {"n_max": self.n_max, "k": self.k, "created": created}
        if request.answer_prefix:
            options["begun"] = len(prompt)
            prompt += tokens_of(request.answer_prefix)
        options["reference"] = tokens_of(request.reference)
        lanes = [lane(prompt, self.answer, **options)]
        if request.rival:
            own = {"n_max": request.rival.n_max, "k": request.rival.k}
            lanes.append(lane(prompt, self.answer, "pld-b", **{**options, **own}))
        if request.plain:
            lanes.append(lane(prompt, self.plain_answer or self.answer, "plain", **options))
        text = ""
        try:
            for number, line in enumerate(lines(*lanes)):
                if number == self.breaks_at:
                    raise RuntimeError("the scripted model breaks")
                if number == self.gate_at:
                    while not self.gate.wait(0.02):
                        yield text
                text += line
                yield text
                time.sleep(self.pause)
        finally:
            self.closed.set()
