"""Who goes next, who waits, who is sent away."""

import random
import threading
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pld_core.hosting.limits import LOCAL
from pld_core.hosting.line import ABSENT, Line, Outlook, Visitor
from pld_core.hosting.service import Service, TimeUp
from pld_core.serving import Request, RequestError, Status

WIDE = replace(LOCAL, waiting=100, waiting_per_visitor=100, waiting_per_address=100)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def at(address: str, session: str = "") -> Visitor:
    return Visitor(session or address, address)


def served(line: Line, places: list) -> list:
    """The order in which places come to the model when each gives it up at once."""
    order = []
    waiting = list(places)
    while waiting:
        (ready,) = [place for place in waiting if place.wait(0)]
        order.append(ready)
        waiting.remove(ready)
        line._leave(ready)
    return order


def test_first_come_first_served_within_an_address(clock) -> None:
    line = Line(WIDE, clock)
    places = [line.join(at("a")) for _ in range(9)]
    assert served(line, places) == places


def test_many_pages_of_one_address_do_not_keep_others_waiting(clock) -> None:
    line = Line(WIDE, clock)
    running = line.join(at("a"))
    assert running.wait(0)
    many = [line.join(at("a")) for _ in range(20)]
    b, c = line.join(at("b")), line.join(at("c"))
    assert [place.outlook.ahead for place in (b, c, many[0], many[1])] == [1, 2, 3, 4]
    line._leave(running)
    assert served(line, [*many, b, c])[:3] == [b, c, many[0]]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=12))
def test_nobody_is_lost_and_a_place_says_when_it_comes(addresses: str) -> None:
    line = Line(WIDE, Clock())
    places = [line.join(at(address)) for address in addresses]
    promised = sorted(places, key=lambda place: place.outlook.ahead)
    order = served(line, places)
    assert order == promised
    # after any number of turns no address is more than one turn ahead of another that waits
    counts = Counter(addresses)
    for turns in range(len(order)):
        had = Counter(place.visitor.address for place in order[:turns])
        waits = [had[a] for a in counts if had[a] < counts[a]]
        assert not waits or max(had.values(), default=0) <= min(waits) + 1


def test_the_wait_is_what_was_measured(clock) -> None:
    line = Line(WIDE, clock)
    first, second, third = (line.join(at(name)) for name in "abc")
    assert first.wait(0)
    assert second.outlook == Outlook(1, None)
    clock.now += 8
    line._leave(first)
    assert second.outlook == Outlook(0, 0.0)
    assert second.wait(0)
    clock.now += 3
    assert third.outlook == Outlook(1, 5.0)
    clock.now += 50  # longer than any before: nothing is known but that it is not over
    third.wait(0)
    assert third.outlook == Outlook(1, 0.0)
    fourth = line.join(at("d"))
    assert fourth.outlook == Outlook(2, 8.0)


def test_a_full_line_says_so_and_forgets_nobody(clock) -> None:
    line = Line(replace(WIDE, waiting=2), clock)
    places = [line.join(at(name)) for name in "a"]
    assert places[0].wait(0)
    places += [line.join(at(name)) for name in "bc"]
    with pytest.raises(RequestError) as raised:
        line.join(at("d"))
    assert str(raised.value) == (
        "The line is full: 2 runs waiting; please try again in a while."
    )
    line._leave(places[1])
    line.join(at("d"))


@pytest.mark.parametrize(
    ("limit", "newcomer", "sentence"),
    [
        ("waiting_per_visitor", Visitor("s", "other"), "You have one run waiting: let that"),
        ("waiting_per_address", Visitor("t", "here"), "Your network address has one run waiting"),
    ],
)
def test_one_visitor_waits_once(clock, limit, newcomer, sentence) -> None:
    line = Line(replace(WIDE, **{limit: 1}), clock)
    assert line.join(Visitor("s", "here")).wait(0)
    line.join(Visitor("s", "here"))  # stopped and run again: it waits for the first to be gone
    with pytest.raises(RequestError, match=sentence):
        line.join(newcomer)
    line.join(Visitor("u", "elsewhere"))


def test_who_gives_no_sign_of_life_is_passed_over(clock) -> None:
    line = Line(replace(WIDE, waiting=1), clock)
    running = line.join(at("a"))
    assert running.wait(0)
    gone = line.join(at("b"))
    clock.now += ABSENT + 1
    here = line.join(at("c"))
    line._leave(running)
    assert here.wait(0)
    line._leave(here)
    assert len(line) == 0
    assert gone.wait(0)  # back after all


def test_a_turn_wakes_who_waits_for_it_and_no_two_run_at_once() -> None:
    line = Line(WIDE)
    inside, most, ran = [], [], []

    def visit(number: int) -> None:
        rng = random.Random(number)
        for turn in range(10):
            with line.join(at(f"address {number % 3}", str(number))) as place:
                gives_up = rng.random() < 0.2
                while not (there := place.wait(0.001)) and not gives_up:
                    pass
                if there:
                    inside.append(number)
                    most.append(len(inside))
                    ran.append((number, turn))
                    inside.remove(number)

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert set(most) == {1} and len(ran) == len(set(ran)) > 40
    assert len(line) == 0


class Runner:
    """Answers with two updates; between them the clock goes on."""

    def __init__(self, clock: Clock, seconds: float = 0) -> None:
        self.status = Status("ready", "paper")
        self.closed = 0
        self.clock, self.seconds = clock, seconds

    def run(self, request: Request):
        try:
            yield request.prompt
            self.clock.now += self.seconds
            yield request.prompt * 2
            yield request.prompt * 3
        finally:
            self.closed += 1


def test_a_run_is_answered_and_the_model_given_up(clock) -> None:
    runner = Runner(clock)
    service = Service(runner, WIDE, clock)
    assert list(service.run(Request("p"), at("a"))) == ["p", "pp", "ppp"]
    stopped = service.run(Request("p"), at("a"))
    assert next(stopped) == "p"
    waiting = service.run(Request("q"), at("b"))
    assert isinstance(next(waiting), Outlook)
    assert len(service.line) == 1
    waiting.close()
    assert len(service.line) == 0
    stopped.close()
    assert runner.closed == 2
    assert list(service.run(Request("q"), at("b"))) == ["q", "qq", "qqq"]


def test_a_run_of_too_long_is_ended_in_a_sentence(clock) -> None:
    runner = Runner(clock, seconds=11)
    service = Service(runner, replace(WIDE, run_seconds=10), clock)
    run = service.run(Request("p"), at("a"))
    assert [next(run), next(run)] == ["p", "pp"]
    with pytest.raises(TimeUp, match="The run was ended after 10 seconds, the longest that"):
        next(run)
    assert runner.closed == 1
    assert next(service.run(Request("p"), at("a"))) == "p"


def test_what_cannot_run_does_not_wait(clock) -> None:
    runner = Runner(clock)
    service = Service(runner, replace(WIDE, new_tokens=5), clock)
    with pytest.raises(RequestError, match="at most 5 new tokens"):
        next(service.run(Request("p", max_new_tokens=6), at("a")))
    runner.status = Status("loading", "The model is loading.")
    with pytest.raises(RequestError, match="The model is loading."):
        next(service.run(Request("p", max_new_tokens=5), at("a")))
    assert len(service.line) == 0
