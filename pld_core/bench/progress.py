"""How far a long job is and how long it still takes."""

from __future__ import annotations

from time import monotonic
from typing import IO, Callable


class Progress:
    """A bar that redraws itself on a terminal, and a line at each row's end elsewhere. The time
    left is the steps that are left, each as long as those of its kind have taken so far."""

    WIDTH = 24

    def __init__(self, out: IO[str], clock: Callable[[], float] = monotonic) -> None:
        self._out = out
        self._clock = clock
        self._live = out.isatty()
        self._left: dict[str, int] = {}
        self._spent: dict[str, list[float]] = {}
        self._done = 0
        self._began = clock()
        self._shown = 0

    def plan(self, kind: str, steps: int) -> None:
        """So many steps of a kind are to come."""
        self._left[kind] = self._left.get(kind, 0) + steps

    def begin(self, doing: str) -> None:
        """A step begins; `doing` is what a reader sees."""
        self._began = self._clock()
        if self._live:
            self._draw(f"{self._bar()} {doing}")

    def end(self, kind: str) -> None:
        """The step that began is over."""
        self._spent.setdefault(kind, []).append(self._clock() - self._began)
        self._done += 1
        self._left[kind] -= 1

    def skip(self, kind: str, steps: int) -> None:
        """So many steps of a kind will not be done."""
        self._left[kind] -= steps

    def line(self, said: str) -> None:
        """Something finished, in a line of its own."""
        self.clear()
        print(f"{self._bar()} {_printable(said)}", file=self._out, flush=True)

    def clear(self) -> None:
        """Takes the bar away, so that other lines can be written."""
        if self._live and self._shown:
            self._out.write("\r" + " " * self._shown + "\r")
            self._shown = 0

    @property
    def seconds_left(self) -> float | None:
        """None as long as nothing has been timed."""
        every = [seconds for spent in self._spent.values() for seconds in spent]
        if not every:
            return None
        mean = sum(every) / len(every)
        return sum(
            steps * (sum(spent) / len(spent) if (spent := self._spent.get(kind)) else mean)
            for kind, steps in self._left.items()
        )

    def _bar(self) -> str:
        total = self._done + sum(self._left.values())
        share = self._done / total if total else 1.0
        full = int(share * self.WIDTH)
        left = self.seconds_left
        bar = f"[{'#' * full}{'.' * (self.WIDTH - full)}] " if self._live else ""
        return f"{bar}{self._done}/{total}, {'' if left is None else _time(left)}"

    def _draw(self, text: str) -> None:
        text = _printable(text)[:100]
        self._out.write("\r" + text.ljust(self._shown))
        self._out.flush()
        self._shown = len(text)


def _printable(text: str) -> str:
    """A name from a file may hold anything, a terminal's commands too."""
    return "".join(c if c.isprintable() else " " for c in text)


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}") + " left,"
