"""What a served page did since it started, in Prometheus's text format. It holds counts and
times, never a text, an address or a setting."""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Iterator, Sized

from pld_core.events import REASONS
from pld_core.hosting.service import Runner
from pld_core.serving import Request, RequestError, Status

BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds of one pass
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LANES = ("pld", "pld-b", "plain")


@dataclass(slots=True)
class _Lane:
    tokens: int = 0
    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    seconds: float = 0.0
    timed: int = 0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))

    def time(self, seconds: float) -> None:
        self.seconds += seconds
        self.timed += 1
        self.buckets[bisect_left(BUCKETS, seconds)] += 1


class Metrics:
    """Counts what passes through `counted`; any thread may call any method."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lanes = {name: _Lane() for name in LANES}
        self._runs: Counter[str] = Counter()
        self._refused = 0
        self._running = 0
        self._line: Sized = ()

    def follow(self, line: Sized) -> None:
        """The line whose length is told from now on."""
        self._line = line

    def counted(self, stream: Iterator[str]) -> Iterator[str]:
        """The growing stream of one run, as it comes (see Slot.run); what it holds is counted.
        A run counts once, by how its first lane ended; cancelled when it was closed before."""
        seen, reason = 0, None
        with self._lock:
            self._running += 1
        try:
            for text in stream:
                reason = self._take(text[seen:]) or reason
                seen = len(text)
                yield text
        except RequestError:
            with self._lock:
                self._refused += 1
            seen = 0
            raise
        except GeneratorExit:
            reason = reason or "cancelled"
            raise
        except Exception:
            reason = reason or "error"
            raise
        finally:
            if hasattr(stream, "close"):
                stream.close()
            with self._lock:
                self._running -= 1
                if seen:
                    self._runs[reason or "error"] += 1

    def _take(self, lines: str) -> str | None:
        """Counts whole lines; the reason for the end of the first lane, where it stands there."""
        reason = None
        events = [json.loads(line) for line in lines.splitlines()]
        with self._lock:
            for event in events:
                lane, kind = self._lanes[event["lane"]], event["type"]
                if kind in ("prefill", "pass"):
                    lane.passes += 1
                    lane.tokens += len(event["kept"])
                if kind == "pass":
                    lane.drafted += len(event["draft"])
                    lane.accepted += event["accepted"]
                    lane.time(sum(event["seconds"][part] for part in ("lookup", "forward", "accept")))
                if kind == "end" and event["lane"] == LANES[0]:
                    reason = event["reason"]
        return reason

    def text(self) -> str:
        """The exposition."""
        waiting = len(self._line)
        with self._lock:
            runs = [({"end": reason}, self._runs[reason]) for reason in REASONS]
            lanes = list(self._lanes.items())
            per_lane = {
                name: [({"lane": lane}, getattr(counts, name)) for lane, counts in lanes]
                for name in ("tokens", "passes", "drafted", "accepted")
            }
            pld = self._lanes[LANES[0]]
            lines = [
                *_family("pld_runs_total", "counter", "Runs that began, by how they ended.", runs),
                *_one("pld_runs_refused_total", "counter", "Runs refused before they began.", self._refused),
                *_one("pld_runs_running", "gauge", "Runs at the model now.", self._running),
                *_one("pld_queue_length", "gauge", "Runs that wait in line.", waiting),
                *_family("pld_tokens_total", "counter", "Generated tokens.", per_lane["tokens"]),
                *_family("pld_passes_total", "counter", "Forward passes, prefill included.", per_lane["passes"]),
                *_family("pld_drafted_tokens_total", "counter", "Draft tokens that were checked.", per_lane["drafted"]),
                *_family("pld_accepted_tokens_total", "counter", "Draft tokens that stand.", per_lane["accepted"]),
                *_one(
                    "pld_tokens_per_pass",
                    "gauge",
                    "Tokens over passes of the first lookup lane, since the start.",
                    pld.tokens / pld.passes if pld.passes else 0.0,
                ),
                *self._histogram(),
            ]
        return "\n".join(lines) + "\n"

    def _histogram(self) -> Iterator[str]:
        name = "pld_pass_seconds"
        yield from _head(name, "histogram", "Seconds of a pass after the prefill.")
        for lane, counts in self._lanes.items():
            below = 0
            for bound, count in zip((*BUCKETS, "+Inf"), counts.buckets):
                below += count
                yield _line(f"{name}_bucket", {"lane": lane, "le": str(bound)}, below)
            yield _line(f"{name}_sum", {"lane": lane}, counts.seconds)
            yield _line(f"{name}_count", {"lane": lane}, counts.timed)


def _head(name: str, kind: str, help: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _family(name: str, kind: str, help: str, rows: list[tuple[dict, int | float]]) -> Iterator[str]:
    yield from _head(name, kind, help)
    for labels, value in rows:
        yield _line(name, labels, value)


def _one(name: str, kind: str, help: str, value: int | float) -> Iterator[str]:
    return _family(name, kind, help, [({}, value)])


def _line(name: str, labels: dict[str, str], value: int | float) -> str:
    inside = ",".join(f'{label}="{text}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {value!r}" if inside else f"{name} {value!r}"


class Counted:
    """A runner whose runs are counted; see service.Runner."""

    def __init__(self, runner: Runner, metrics: Metrics) -> None:
        self._runner = runner
        self._metrics = metrics

    @property
    def status(self) -> Status:
        return self._runner.status

    def run(self, request: Request) -> Iterator[str]:
        return self._metrics.counted(self._runner.run(request))

    def measure(self) -> tuple[tuple[int, float], ...]:
        return self._runner.measure()
