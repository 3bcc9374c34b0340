"""What if: any lookup asked of a finished run, exactly and without the model.

The decoder's own loop runs with the recorded output in the model's place, so every number is
counted by the same code. Its times are the loop's own: a replay measures no model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator, Sequence

from pld_core.decoder import decode
from pld_core.events import Event
from pld_core.lookup import Lookup
from pld_core.models.recorded import RecordedTarget
from pld_core.settings import Settings
from pld_core.trace import Trace, lanes
from pld_core.width import drafter


class _RecordedEnds:
    """The answer ends where and why the recorded one did."""

    def __init__(self, tokens: int, reason: str, limit: int) -> None:
        self._left = tokens
        self._reason = reason
        self.remaining = limit

    def after(self, token: int, piece: str) -> str | None:
        self._left -= 1
        self.remaining -= 1
        return self._reason if self._left == 0 else None


class _RecordedText:
    """The recorded pieces in order; a draft was copied, so its tokens' pieces are known."""

    def __init__(self, trace: Trace) -> None:
        self._pieces = iter([piece for step in trace.steps for piece in step.pieces])
        self._rest = "".join(trace.end.pieces) if trace.end else ""
        self._known: dict[int, str] = {}
        for step in trace.steps:
            self._known.update(zip(step.kept, step.pieces))
        for prompt in (trace.start.reference, trace.start.prompt):
            if prompt:
                self._known.update(zip(prompt.ids, prompt.pieces))

    def push(self, token: int) -> str:
        return next(self._pieces)

    def preview(self, tokens: Sequence[int]) -> list[str]:
        return [self._known.get(token, "") for token in tokens]

    def flush(self) -> str:
        rest, self._rest = self._rest, ""
        return rest


def replay(trace: Trace, settings: Settings, lookup: Lookup | None = None) -> Iterator[Event]:
    """The events of the trace's run, had it used `settings` (or a lookup of one's own).

    Only the lookup's settings are taken from `settings`: the answer and its limit stay the
    recorded ones. Raises ValueError for a lane without a token.
    """
    if not trace.ids:
        raise ValueError("The lane has no token to replay.")
    recorded = Settings.from_json(trace.start.settings)
    settings = replace(settings, max_new_tokens=recorded.max_new_tokens, stop=recorded.stop)
    reference = trace.start.reference.ids if trace.start.reference else ()
    return decode(
        replace(trace.start, settings={**trace.start.settings, **settings.to_json()}),
        RecordedTarget(trace.ids, trace.start.context_limit),
        drafter(settings, reference) if lookup is None else lookup,
        _RecordedText(trace),
        settings,
        _RecordedEnds(
            len(trace.ids),
            trace.end.reason if trace.end else "cancelled",
            recorded.max_new_tokens,
        ),
    )


def what_if(trace: Trace, settings: Settings, lookup: Lookup | None = None) -> Trace:
    """The replayed lane, read."""
    return lanes(replay(trace, settings, lookup))[trace.start.lane]
