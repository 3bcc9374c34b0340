"""A run as a program asks for it: checked values in, one record per event out."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any, Generator, Iterator

from pld_core import trace
from pld_core.events import dumps
from pld_core.hosting.line import Outlook
from pld_core.hosting.service import TimeUp
from pld_core.serving import Request, RequestError
from pld_core.trace import Trace, compare, endings, speedups

_KINDS = {
    **dict.fromkeys(("prompt", "answer_prefix", "system", "reference", "policy"), str),
    **dict.fromkeys(("chat", "plain", "adaptive", "strict"), bool),
}


def checked(request: Request) -> Request:
    """The request, if its texts are texts and its yes-or-nos are such; an empty system message is
    none. Raises RequestError. (Settings check the numbers when the run starts.)"""
    for name, kind in _KINDS.items():
        value = getattr(request, name)
        if type(value) is not kind and not (name == "system" and value is None):
            wanted = "a text" if kind is str else "true or false"
            raise RequestError(f"{name} is {wanted}, not {value!r:.40}.")
    return replace(request, system=request.system or None)


def records(updates: Generator[Outlook | str, None, None]) -> Iterator[dict[str, Any]]:
    """A run's updates (see Service.run) as records: `waiting` while other runs come first, then
    the events as they come, at last a summary. A run that took too long has its ends all the
    same.

    Closing it closes the updates. Raises what they raise, but for TimeUp.
    """
    text = ""
    try:
        with closing(updates):
            for update in updates:
                if isinstance(update, Outlook):
                    yield {"type": "waiting", **asdict(update)}
                    continue
                for line in update[len(text) :].splitlines():
                    yield json.loads(line)
                text = update
    except TimeUp as error:
        for end in endings(trace.read(text.splitlines()), "cancelled"):
            line = dumps(replace(end, message=str(error)))
            text += f"{line}\n"
            yield json.loads(line)
    yield summary(text)


def summary(stream: str) -> dict[str, Any]:
    """What a run came to: the text, what it cost, what was copied from where, and, where plain
    decoding ran beside it, the time speed-up and whether the texts are the same. time_speedup is
    null where the run was too short to tell, same_text where nothing was compared."""
    lanes = trace.read(stream.splitlines())
    main, plain = lanes["pld"], lanes.get("plain")
    numbers = main.numbers() if main.prefill else None
    beside = plain is not None and plain.prefill is not None and numbers is not None
    compared = main.compared or (compare(main, plain) if beside else None)
    return {
        "type": "summary",
        "text": main.text,
        "reason": main.end.reason,
        "message": main.end.message,
        "notices": main.start.notices,
        "model": main.start.model,
        "device": main.start.hardware or main.start.device,
        "dtype": main.start.dtype,
        "prompt_tokens": len(main.start.prompt.ids),
        "tokens": numbers.tokens if numbers else 0,
        "passes": numbers.passes if numbers else 0,
        "tokens_per_pass": numbers.tokens_per_pass if numbers else None,
        "f": numbers.f if numbers else None,
        "L": numbers.L if numbers else None,
        "decode_seconds": numbers.decode_seconds if numbers else None,
        "plain_decode_seconds": plain.numbers().decode_seconds if beside else None,
        "time_speedup": speedups(main, plain)["time"] if beside else None,
        "same_text": compared.first_difference is None if compared else None,
        "copies": _copies(main),
    }


def _copies(lane: Trace) -> list[dict[str, Any]]:
    return [
        {
            "pass": step.index,
            "text": "".join(step.pieces[: step.accepted]),
            "from": step.match.region,
            "start": step.match.start + step.match.n,
            "drafted": len(step.draft),
            "accepted": step.accepted,
        }
        for step in lane.passes
        if step.accepted and step.match
    ]
