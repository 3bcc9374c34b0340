"""Two lanes on one model: a fair race needs no second device, only fair turns."""

from __future__ import annotations

from typing import Iterator

from pld_core.events import Event, Pass, Prefill


def race(lanes: list[Iterator[Event]]) -> Iterator[Event]:
    """Interleaves lanes by their own clocks: after their starts, the lane that has used less
    model time goes next, so the stream shows each where it would be had both started together.
    Closing the race closes every lane."""
    spent = [0.0] * len(lanes)
    running = list(range(len(lanes)))
    try:
        for lane in lanes:
            yield next(lane)
        while running:
            lane = min(running, key=lambda index: spent[index])
            event = next(lanes[lane], None)
            if event is None:
                running.remove(lane)
                continue
            yield event
            if isinstance(event, Prefill):
                spent[lane] += event.seconds
            elif isinstance(event, Pass):
                spent[lane] += event.seconds.total
    finally:
        for lane in lanes:
            lane.close()
