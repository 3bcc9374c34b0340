"""A race takes turns by the lanes' own clocks and ends them all."""

import itertools
import random

import pytest
import toy

from pld_core import trace
from pld_core.events import End, Pass, Prefill, Start
from pld_core.race import race
from pld_core.settings import Settings


def clock(steps):
    """A clock whose readings are apart by the given steps, over and over."""
    return itertools.accumulate(itertools.cycle(steps)).__next__


def seconds(event):
    if isinstance(event, Prefill):
        return event.seconds
    return event.seconds.total if isinstance(event, Pass) else 0.0


def lanes(run, *steps):
    return [
        run.events(lane=f"lane {place}", clock=clock(step)) for place, step in enumerate(steps)
    ]


RUN = toy.Run(5, [1, 2, 3, 1, 2], Settings(k=3, max_new_tokens=40))


@pytest.mark.parametrize("steps", [([1], [1]), ([1], [3]), ([5, 1, 2], [1, 7]), ([1], [2], [9])])
def test_the_lane_that_used_less_time_goes_next(steps):
    spent = [0.0] * len(steps)
    running = set(range(len(steps)))
    count = 0
    for event in race(lanes(RUN, *steps)):
        lane = int(event.lane[-1])
        assert spent[lane] == min(spent[other] for other in running)
        spent[lane] += seconds(event)
        if isinstance(event, End):
            running.discard(lane)
        count += 1
    assert count == sum(len(list(events)) for events in lanes(RUN, *steps))


def test_no_event_is_lost_doubled_or_changed():
    random_ = random.Random(6)
    for _ in range(50):
        run = toy.random_run(random_)
        steps = [[random_.randint(1, 9) for _ in range(3)] for _ in range(random_.randint(1, 3))]
        mixed = list(race(lanes(run, *steps)))
        for place, events in enumerate(lanes(run, *steps)):
            assert [event for event in mixed if event.lane == f"lane {place}"] == list(events)
        for lane in trace.lanes(mixed).values():
            assert list(lane.laws()) == []


@pytest.mark.parametrize("after", [0, 1, 2, 5, 20, 45])
def test_closing_the_race_closes_every_lane(after):
    both = lanes(RUN, [1], [1])
    running = race(both)
    events = list(itertools.islice(running, after))
    running.close()
    if after:
        for lane in both:
            assert lane.gi_frame is None or after == 0
            assert list(lane) == []
    assert len(events) == after


def test_an_error_in_one_lane_closes_the_other():
    bad = RUN.events(target=RUN.target(fails_at=3), lane="lane 0")
    good = RUN.events(lane="lane 1")
    seen = []
    with pytest.raises(RuntimeError):
        for event in race([bad, good]):
            seen.append(event)
    assert seen[-1].reason == "error"
    assert list(good) == []


def test_both_lanes_start_before_either_runs():
    kinds = [type(event) for event in itertools.islice(race(lanes(RUN, [1], [1])), 4)]
    assert kinds == [Start, Start, Prefill, Prefill] or kinds[0] is Start


def test_a_race_of_none_is_over():
    assert list(race([])) == []
