"""A stream that has been read: its lanes, the numbers they give, the laws they obey."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Iterator

from pld_core import theory
from pld_core.events import Compared, End, Event, EventError, Match, Pass, Prefill, Start
from pld_core.events import read as read_events


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a lane counted, over all its passes, prefill included.

    f: share of the tokens that copy passes emitted. L: mean tokens kept per copy pass, 1.0
    where there is none. drafted counts draft tokens that were checked, accepted those that
    stand. Seconds are those of the decoder: `decode` without the prefill.
    """

    tokens: int
    passes: int
    copy_passes: int
    undrafted_passes: int
    drafted: int
    accepted: int
    f: float
    L: float
    prefill_seconds: float
    decode_seconds: float
    lookup_seconds: float
    forward_seconds: float
    accept_seconds: float

    @property
    def tokens_per_pass(self) -> float:
        return self.tokens / self.passes

    @property
    def acceptance(self) -> float:
        """Accepted share of the drafted tokens, 0.0 where none was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def tokens_per_second(self) -> float | None:
        """Decoded tokens (those after the prefill's) per second, None where none was."""
        return (self.tokens - 1) / self.decode_seconds if self.decode_seconds > 0 else None


@dataclass(slots=True)
class Trace:
    """One lane. `passes` are those after the prefill; a lane cut short lacks its tail.
    `compared` is what its run found beside another lane, if it ran beside one."""

    start: Start
    prefill: Prefill | None
    passes: list[Pass]
    end: End | None
    compared: Compared | None = None

    @property
    def steps(self) -> list[Prefill | Pass]:
        return [*([self.prefill] if self.prefill else []), *self.passes]

    @property
    def cut_short(self) -> bool:
        """Whether the answer would have gone on, had it not been stopped or failed."""
        return self.end is None or self.end.reason in ("cancelled", "error")

    @property
    def ids(self) -> list[int]:
        """The generated tokens [T]."""
        return [token for step in self.steps for token in step.kept]

    @property
    def text(self) -> str:
        """The generated text."""
        tail = self.end.pieces if self.end else []
        return "".join([piece for step in self.steps for piece in step.pieces] + tail)

    @property
    def margins(self) -> list[float]:
        """Top-2 logit margins of the generated tokens: [T], or [] where none were recorded."""
        return [margin for step in self.steps for margin in step.margins]

    def numbers(self) -> Numbers:
        """Raises ValueError for a lane without a token."""
        if self.prefill is None:
            raise ValueError("The lane has no token yet.")
        copies = [step for step in self.passes if step.accepted > 0]
        tokens = sum(len(step.kept) for step in self.steps)
        copied = sum(len(step.kept) for step in copies)
        return Numbers(
            tokens=tokens,
            passes=len(self.steps),
            copy_passes=len(copies),
            undrafted_passes=sum(1 for step in self.passes if not step.draft),
            drafted=sum(len(step.draft) for step in self.passes),
            accepted=sum(step.accepted for step in self.passes),
            f=copied / tokens,
            L=copied / len(copies) if copies else 1.0,
            prefill_seconds=self.prefill.seconds,
            decode_seconds=sum(step.seconds.total for step in self.passes),
            lookup_seconds=sum(step.seconds.lookup for step in self.passes),
            forward_seconds=sum(step.seconds.forward for step in self.passes),
            accept_seconds=sum(step.seconds.accept for step in self.passes),
        )

    def text_copy_rate(self, n: int | None = None) -> float:
        """Share of the generated tokens inside spans of >= n+1 tokens that stand verbatim in
        the context before them; n is the settings' longest match unless given. A property of
        the text: f against it tells a bad lookup from a text with nothing to copy."""
        if n is None:
            recorded = self.start.settings.get("n_max")
            n = recorded if type(recorded) is int and recorded > 0 else 3
        return text_copy_rate(self.start.prompt.ids, self.ids, n)

    def laws(self) -> Iterator[str]:
        """One sentence for every law of the stream that this lane breaks; none for a good one.

        Reading has already checked each event by itself; these are the laws between events.
        """
        if self.end is None:
            yield "A finished lane has an end."
            return
        if self.prefill is None:
            if not self.cut_short or (self.end.tokens, self.end.passes) != (0, 0):
                yield "Only a lane cut short in its prefill has none, and it counts nothing."
            return
        context = [*self.start.prompt.ids, *self.prefill.kept]
        reference = self.start.reference.ids if self.start.reference else []
        for number, step in enumerate(self.passes, 2):
            if step.index != number:
                yield f"Pass {number} is numbered {step.index}."
            for match, draft in step.continuations:
                yield from _match_laws(
                    step.index, match, draft, context, reference, len(self.start.prompt.ids)
                )
            if step.bonus is None and step is not self.passes[-1]:
                yield f"Pass {step.index} ends the answer, but it goes on."
            if step.bonus is not None and step.bonus in step.refused:
                yield f"Pass {step.index} rejects a draft token that was right."
            context.extend(step.kept)
        if len(self.ids) != self.end.tokens:
            yield f"The end counts {self.end.tokens} tokens, the passes kept {len(self.ids)}."
        if len(self.steps) != self.end.passes:
            yield f"The end counts {self.end.passes} passes, there are {len(self.steps)}."
        numbers = self.numbers()
        predicted = theory.passes(numbers.tokens, numbers.f, numbers.L)
        if abs(predicted - numbers.passes) > 1e-6 * numbers.passes:
            yield f"f*T/L + (1-f)*T is {predicted}, but there are {numbers.passes} passes."


def _match_laws(
    index: int, match: Match, draft: list[int], context: list[int], reference: list[int], P: int
) -> Iterator[str]:
    place = reference if match.region == "reference" else context
    inside = match.start + match.n < len(place) + (match.region == "reference")
    if not inside:
        yield f"Pass {index} matches outside its {match.region}."
        return
    if place[match.start : match.start + match.n] != context[-match.n :]:
        yield f"Pass {index} matches an n-gram that is not the context's suffix."
    if match.region != "reference" and (match.region == "prompt") != (match.start < P):
        yield f"Pass {index} calls its match's region {match.region}."
    source = place if match.region == "reference" else [*context, *draft]
    begin = match.start + match.n
    if source[begin : begin + len(draft)] != draft:
        yield f"Pass {index} drafts something else than what follows its match."


def text_copy_rate(prompt: list[int], output: list[int], n: int) -> float:
    """See Trace.text_copy_rate. O(P + T) for a given n: every (n+1)-gram of the output that
    stood before it starts covers its n+1 tokens."""
    if not output:
        return 0.0
    width = n + 1
    context = [*prompt, *output]
    first: dict[tuple[int, ...], int] = {}
    covered = [False] * len(context)
    for start in range(len(context) - width + 1):
        gram = tuple(context[start : start + width])
        earlier = first.setdefault(gram, start)
        if earlier < start and start >= len(prompt):
            covered[start : start + width] = [True] * width
    return sum(covered[len(prompt) :]) / len(output)


def compare(a: Trace, b: Trace) -> Compared:
    """Compares the generated tokens of two lanes, as far as both went where one was cut short;
    margins are null where none were recorded."""
    left, right = a.ids, b.ids
    shorter, longer = sorted((len(left), len(right)))
    for place in range(shorter if a.cut_short or b.cut_short else longer):
        if left[place : place + 1] != right[place : place + 1]:
            margins = [m[place] for m in (a.margins, b.margins) if place < len(m)]
            return Compared(
                a.start.lane,
                b.start.lane,
                place,
                min(margins, default=None),
                sum(margins) if len(margins) == 2 else None,
            )
    return Compared(a.start.lane, b.start.lane)


def speedups(pld: Trace, plain: Trace) -> dict[str, float | None]:
    """Measured against counted: `passes`, the ratio of passes; `time`, plain decode seconds
    over PLD decode seconds; `predicted`, the time ratio that f, L and the mean times of copy
    passes and of others give. None where a lane is too short to tell."""
    a, b = pld.numbers(), plain.numbers()
    ratios: dict[str, float | None] = {
        "passes": b.passes / a.passes,
        "time": None,
        "predicted": None,
    }
    if not (pld.passes and plain.passes and a.decode_seconds > 0 and b.decode_seconds > 0):
        return ratios
    ratios["time"] = b.decode_seconds / a.decode_seconds
    plain_pass = b.decode_seconds / len(plain.passes)
    copies = [s.seconds.total for s in pld.passes if s.accepted]
    others = [s.seconds.total for s in pld.passes if not s.accepted]
    ratios["predicted"] = theory.time_speedup(
        a.f,
        a.L,
        sum(copies) / len(copies) / plain_pass if copies else 1.0,
        sum(others) / len(others) / plain_pass if others else 1.0,
    )
    return ratios


def endings(found: dict[str, Trace], reason: str = "cancelled") -> list[End]:
    """The missing ends of lanes that were cut short, so that every lane has one."""
    return [
        End(name, reason, len(trace.ids), len(trace.steps))
        for name, trace in found.items()
        if trace.end is None
    ]


class TraceError(ValueError):
    """A stream that is no trace; the message is one sentence for a person."""


def lanes(events: Iterable[Event]) -> dict[str, Trace]:
    """The lanes of a stream, in the order they start. Raises TraceError when events are out
    of order."""
    found: dict[str, Trace] = {}
    for event in events:
        trace = found.get(event.lane)
        if isinstance(event, Start):
            if trace is not None:
                raise TraceError(f"The lane {event.lane!r:.40} starts twice.")
            found[event.lane] = Trace(event, None, [], None)
            continue
        if isinstance(event, Compared):
            against = found.get(event.against)
            if not (trace and trace.end and against and against.end):
                raise TraceError(f"The lane {event.lane!r:.40} is compared before it has ended.")
            trace.compared = event
            continue
        if trace is None or trace.end is not None:
            raise TraceError(f"An event of the lane {event.lane!r:.40} stands outside the lane.")
        if isinstance(event, Prefill):
            if trace.prefill is not None:
                raise TraceError(f"The lane {event.lane!r:.40} has two prefills.")
            trace.prefill = event
        elif isinstance(event, Pass):
            if trace.prefill is None:
                raise TraceError(f"The lane {event.lane!r:.40} has a pass before its prefill.")
            trace.passes.append(event)
        else:
            trace.end = event
    return found


def read(lines: Iterable[str]) -> dict[str, Trace]:
    """The lanes of a stream's lines. Raises TraceError, one sentence, for anything else."""
    try:
        found = lanes(read_events(lines))
    except EventError as error:
        raise TraceError(str(error)) from None
    if not found:
        raise TraceError("The file holds no trace.")
    return found
