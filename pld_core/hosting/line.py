"""Many visitors, one model: who goes next, who waits, and who is told to come back later.

Addresses take turns, so that somebody with many pages open makes nobody but themselves wait
longer; within an address, first come is first served.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from time import monotonic
from typing import Callable

from pld_core.hosting.limits import Limits
from pld_core.serving import RequestError

REMEMBERED = 16  # runs whose length says how long the next ones may take
ABSENT = 10.0  # seconds without a sign of life after which a place is given up


@dataclass(frozen=True, slots=True)
class Visitor:
    """session: one open page or API client. address: where on the network it is."""

    session: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a waiting visitor can expect: how many runs come before, the one at the model
    included, and in how many seconds it may be over with them, going by the runs measured last;
    None before any was."""

    ahead: int
    seconds: float | None


class Line:
    """One turn at a time. Every method may be called from any thread."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: list[Place] = []  # the next one first
        self._round = 0
        self._running: Place | None = None
        self._began = 0.0
        self._lengths: deque[float] = deque(maxlen=REMEMBERED)

    def __len__(self) -> int:
        """How many wait."""
        with self._changed:
            self._drop_absent()
            return len(self._waiting)

    def join(self, visitor: Visitor) -> Place:
        """A place at the end of the line, to be left by `with`. Raises RequestError."""
        with self._changed:
            self._drop_absent()
            free = self._running is None and not self._waiting
            if not free:
                self._check(visitor)
            place = Place(self, visitor, self._round_for(visitor), self._clock())
            self._enter(place)
            return place

    def _check(self, visitor: Visitor) -> None:
        limits, waiting = self._limits, [place.visitor for place in self._waiting]
        if len(waiting) >= limits.waiting:
            raise RequestError(
                f"The line is full: {_runs(len(waiting))} waiting; please try again in a while."
            )
        mine = sum(visitor.session == other.session for other in waiting)
        if mine >= limits.waiting_per_visitor:
            raise RequestError(f"You have {_runs(mine)} waiting: let that come first, or stop it.")
        near = sum(visitor.address == other.address for other in waiting)
        if near >= limits.waiting_per_address:
            raise RequestError(
                f"Your network address has {_runs(near)} waiting; please try again in a while."
            )

    def _round_for(self, visitor: Visitor) -> int:
        """Each address has one run in a round: the round that is on, or the first in which it
        has none yet."""
        places = [*self._waiting, *([self._running] if self._running else [])]
        taken = [place.round for place in places if place.visitor.address == visitor.address]
        return max([self._round, *(round_ + 1 for round_ in taken)])

    def _enter(self, place: Place) -> None:
        self._waiting.append(place)
        self._waiting.sort(key=lambda other: other.round)  # stable: by arrival within a round

    def _drop_absent(self) -> None:
        alive = self._clock() - ABSENT
        self._waiting = [place for place in self._waiting if place.seen >= alive]

    def _take(self, place: Place) -> bool:
        self._drop_absent()
        if self._running is not None or place is not self._waiting[0]:
            return place is self._running
        self._waiting.remove(place)
        self._running, self._began, self._round = place, self._clock(), place.round
        return True

    def _wait(self, place: Place, seconds: float) -> bool:
        with self._changed:
            place.seen = self._clock()
            if place is not self._running and place not in self._waiting:
                self._enter(place)  # it had been given up
            return self._changed.wait_for(lambda: self._take(place), seconds)

    def _leave(self, place: Place) -> None:
        with self._changed:
            if place is self._running:
                self._running = None
                self._lengths.append(self._clock() - self._began)
            elif place in self._waiting:
                self._waiting.remove(place)
            self._changed.notify_all()

    def _outlook(self, place: Place) -> Outlook:
        with self._changed:
            ahead = self._waiting.index(place) if place in self._waiting else 0
            if self._running is None:
                return Outlook(ahead, self._mean(ahead))
            seconds = self._mean(ahead + 1)
            if seconds is not None:
                spent = min(self._clock() - self._began, seconds / (ahead + 1))
                seconds -= spent
            return Outlook(ahead + 1, seconds)

    def _mean(self, runs: int) -> float | None:
        return runs * sum(self._lengths) / len(self._lengths) if self._lengths else None


class Place:
    """A visitor's place in line; leaving the `with` block gives it, or the model, up."""

    def __init__(self, line: Line, visitor: Visitor, round_: int, seen: float) -> None:
        self.visitor = visitor
        self.round = round_
        self.seen = seen
        self._line = line

    def wait(self, seconds: float) -> bool:
        """Whether the turn has come, after so many seconds at most. Who does not ask again
        within ABSENT seconds is passed over."""
        return self._line._wait(self, seconds)

    @property
    def outlook(self) -> Outlook:
        return self._line._outlook(self)

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *error: object) -> None:
        self._line._leave(self)


def _runs(count: int) -> str:
    return "one run" if count == 1 else f"{count:,} runs"
