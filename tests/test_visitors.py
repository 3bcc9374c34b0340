"""Many visitors of one page at once: nothing of one reaches another, and none holds the model
longer than its run."""

import gc
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Callable, Iterator

import pytest
import torch

import app
from pld_core import trace
from pld_core.hosting.limits import LOCAL
from pld_core.serving import Request, Slot, Status
from tests import tiny
from tests.visitors import Update, Visitor, steps

ALPHA = "alpha-7 crates: oak, ash, fir. List the alpha-7 crates again:"
OMEGA = "omega-3 crew: Ines, Bo, Tam. List the omega-3 crew again:"
PLAINLY = {"answer_prefix": "", "chat": False, "n_max": 3, "k": 10}
SHORT = {**PLAINLY, "max_new_tokens": 10}
LONG = {**PLAINLY, "max_new_tokens": 2000, "prompt": tiny.PROMPT}
ALLOWED = replace(LOCAL, waiting=2)


@pytest.fixture(scope="module")
def slot() -> Slot:
    slot = Slot()
    slot._model = tiny.model("Llama", limit=100_000)
    slot._status = Status("ready", "tiny")
    return slot


@pytest.fixture(scope="module")
def url(slot: Slot) -> Iterator[str]:
    page = app.build(slot)
    yield from served(page, LOCAL)


@pytest.fixture(scope="module")
def small(slot: Slot) -> Iterator[str]:
    """A page on which two may wait."""
    yield from served(app.build(slot, allowed=ALLOWED), ALLOWED)


def served(page, allowed) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    _, url, _ = page.launch(
        server_name="127.0.0.1",
        server_port=port,
        prevent_thread_lock=True,
        quiet=True,
        **app.launch_settings(allowed),
    )
    yield url
    page.close()


def until(true: Callable[[], bool]) -> bool:
    """Whether it becomes true before any patience ends."""
    end = time.monotonic() + 120
    while not (now := true()) and time.monotonic() < end:
        time.sleep(0.01)
    return now


def free(slot: Slot) -> bool:
    return not slot._turn.locked()


def alone(slot: Slot, prompt: str) -> list[dict]:
    *_, stream = slot.run(Request(prompt, **SHORT))
    return steps(stream)


@pytest.mark.parametrize(("visitors", "rounds"), [(2, 8), (8, 2)])
def test_each_answer_is_the_one_it_would_be_alone(url, slot, visitors, rounds) -> None:
    prompts = [
        f"{(ALPHA, OMEGA)[number % 2]} {'of' * (number // 2)}" for number in range(visitors)
    ]
    wanted = [alone(slot, prompt) for prompt in prompts]
    visitor = Visitor(url, SHORT)
    clients = [visitor.client() for _ in prompts]

    def answers(number: int) -> list[Update]:
        return [visitor.run(clients[number], prompt=prompts[number]) for _ in range(rounds)]

    with ThreadPoolExecutor(visitors) as together:
        found = list(together.map(answers, range(visitors)))
    for number, updates in enumerate(found):
        other = "omega" if number % 2 == 0 else "alpha"
        for update in updates:
            assert update.notice == ""
            assert steps(update.stream) == wanted[number]
            assert other not in update.stream


def test_nothing_of_a_run_is_left_for_the_next(slot, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    first = alone(slot, OMEGA)
    alone(slot, ALPHA)
    assert alone(slot, OMEGA) == first
    assert "omega" not in caplog.text and "crates" not in caplog.text


def running(updates: Iterator[Update]) -> None:
    """Reads a run until its model is at work."""
    while "prefill" not in (next(updates).stream or ""):
        pass


def test_a_closed_tab_frees_the_model_and_its_memory(url, slot) -> None:
    updates = Visitor(url, LONG).updates()
    running(updates)
    assert not free(slot)
    updates.close()
    assert until(lambda: free(slot))
    tensors = _tensors()
    updates = Visitor(url, LONG).updates()
    running(updates)
    updates.close()
    assert until(lambda: free(slot))
    assert until(lambda: _tensors() <= tensors)


def _tensors() -> int:
    gc.collect()
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


def test_a_full_line_says_so_and_who_waits_is_told_where(small, slot) -> None:
    first = Visitor(small, LONG).updates()
    running(first)
    waiting = [Visitor(small, {**LONG, "max_new_tokens": 5}).updates() for _ in range(2)]
    for place, updates in enumerate(waiting, 1):
        told = next(update.notice for update in updates if update.notice)
        runs = "1 run comes" if place == 1 else "2 runs come"
        assert told.startswith(f"In line: {runs} before yours")
    (*_, refused) = Visitor(small, LONG).updates()
    assert refused == Update(
        None, "The line is full: 2 runs waiting; please try again in a while."
    )
    first.close()
    for updates in waiting:
        *_, last = updates
        assert trace.read(last.stream.splitlines())["pld"].end.reason == "length"
        assert last.notice == ""


def test_a_reader_who_does_not_read_does_not_hold_the_model(url, slot) -> None:
    address = Visitor(url, {**LONG, "max_new_tokens": 300}).post()
    host, port = url.removeprefix("http://").strip("/").split(":")
    with socket.create_connection((host, int(port))) as lazy:
        path = address.removeprefix(url)
        lazy.sendall(f"GET /{path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        *_, last = Visitor(url, {**LONG, "max_new_tokens": 5}).updates()
        assert trace.read(last.stream.splitlines())["pld"].end.reason == "length"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "The device ran out of memory."),
        (torch.OutOfMemoryError("CUDA out of memory"), "The device ran out of memory."),
        (RuntimeError("of a kind with a secret"), "The model failed (RuntimeError)."),
    ],
)
def test_a_model_that_fails_is_a_sentence_and_the_next_run_works(
    url, slot, monkeypatch, error, message
) -> None:
    wanted = alone(slot, ALPHA)
    network = slot._model.network
    calls = []

    def fails(*args, **more):
        calls.append(1)
        if len(calls) == 9:
            raise error
        return type(network).forward(network, *args, **more)

    visitor = Visitor(url, SHORT)
    with monkeypatch.context() as patch:
        patch.setattr(network, "forward", fails)
        *_, last = visitor.updates(prompt=ALPHA)
    ends = [event for event in steps(last.stream) if event["type"] == "end"]
    assert message in [end["message"] for end in ends]
    assert [end["reason"] for end in ends].count("error") >= 1
    assert free(slot)
    *_, last = visitor.updates(prompt=ALPHA)
    assert steps(last.stream) == wanted


def test_threads_do_not_grow_with_visits(url, slot) -> None:
    visitor = Visitor(url, SHORT)
    list(visitor.updates(prompt=ALPHA))
    before = threading.active_count()
    for _ in range(5):
        list(visitor.updates(prompt=ALPHA))
    assert threading.active_count() <= before + 2
