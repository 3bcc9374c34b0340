"""A run from a visitor's request to its last update: checked, waited for, cut when too long."""

from __future__ import annotations

from contextlib import closing
from time import monotonic
from typing import Callable, Iterator, Protocol

from pld_core.hosting.limits import Limits
from pld_core.hosting.line import Line, Outlook, Visitor
from pld_core.serving import Request, RequestError, Status

ASK_AGAIN = 0.5  # seconds between two looks at the line; a stopped run leaves it that late


class Runner(Protocol):
    """What answers requests, one at a time; see serving.Slot."""

    @property
    def status(self) -> Status: ...

    def run(self, request: Request) -> Iterator[str]: ...

    def measure(self) -> tuple[tuple[int, float], ...]: ...


class TimeUp(RequestError):
    """A run that took longer at the model than one may; its stream so far stands."""


class Service:
    """One runner for many visitors."""

    def __init__(
        self, runner: Runner, limits: Limits, clock: Callable[[], float] = monotonic
    ) -> None:
        self.runner = runner
        self.limits = limits
        self.line = Line(limits, clock)
        self._clock = clock

    def run(self, request: Request, visitor: Visitor) -> Iterator[Outlook | str]:
        """Yields an Outlook at every look at the line, then the growing stream; see Slot.run.
        Closing it leaves the line, or stops the run before its next pass.

        Raises RequestError before the stream, TimeUp within it.
        """
        self.limits.check(request)
        self._check_ready()
        with self.line.join(visitor) as place:
            while not place.wait(ASK_AGAIN):
                yield place.outlook
            last = self._clock() + self.limits.run_seconds
            with closing(self.runner.run(request)) as updates:
                for update in updates:
                    yield update
                    if self._clock() > last:
                        raise TimeUp(
                            f"The run was ended after {self.limits.run_seconds:,} seconds, "
                            "the longest that one may take here."
                        )

    def measure(self, visitor: Visitor) -> Iterator[Outlook | tuple[tuple[int, float], ...]]:
        """Yields an Outlook at every look at the line, one of nobody ahead when its turn has
        come, then what was measured; see Slot.measure. Raises RequestError."""
        self._check_ready()
        with self.line.join(visitor) as place:
            while not place.wait(ASK_AGAIN):
                yield place.outlook
            yield Outlook(0, None)
            yield self.runner.measure()

    def _check_ready(self) -> None:
        status = self.runner.status
        if status.state == "loading":
            raise RequestError(f"{status.text} Please run it again once the model is there.")
        if status.state != "ready":
            raise RequestError(status.text)
