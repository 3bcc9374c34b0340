"""Many visitors of one page at once: nothing of one reaches another, and none holds the model
longer than its run."""

import gc
import json
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Callable, Iterator

import pytest
import torch
from gradio_client import Client

import app
from pld_core.hosting import leftovers
from pld_core.hosting.limits import LOCAL
from pld_core.serving import Request, Slot, Status
from tests import tiny
from tests.visitors import Record, Visitor, run, steps, untimed

ALPHA = "alpha-7 crates: oak, ash, fir. List the alpha-7 crates again:"
OMEGA = "omega-3 crew: Ines, Bo, Tam. List the omega-3 crew again:"
SHORT = {"chat": False, "adaptive": False, "max_new_tokens": 10}
LONG = {"chat": False, "adaptive": False, "max_new_tokens": 5000, "prompt": tiny.PROMPT}
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
    yield from served(page, slot, LOCAL)


@pytest.fixture(scope="module")
def small(slot: Slot) -> Iterator[str]:
    """A page on which two may wait."""
    yield from served(app.build(slot, allowed=ALLOWED), slot, ALLOWED)


def served(page, slot, allowed) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    _, url, _ = page.launch(
        server_name="127.0.0.1",
        server_port=port,
        prevent_thread_lock=True,
        quiet=True,
        **app.launch_settings(slot, allowed),
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
    clients = [Client(url, verbose=False) for _ in prompts]

    def answers(number: int) -> list[list[Record]]:
        return [run(clients[number], prompt=prompts[number], **SHORT) for _ in range(rounds)]

    with ThreadPoolExecutor(visitors) as together:
        found = list(together.map(answers, range(visitors)))
    for number, runs in enumerate(found):
        other = "omega" if number % 2 == 0 else "alpha"
        for records in runs:
            assert untimed(records) == wanted[number]
            assert other not in json.dumps(records)


def test_nothing_of_a_run_is_left_for_the_next(slot, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    first = alone(slot, OMEGA)
    alone(slot, ALPHA)
    assert alone(slot, OMEGA) == first
    assert "omega" not in caplog.text and "crates" not in caplog.text


def running(records: Iterator[Record]) -> None:
    """Reads a run until its model is at work."""
    while next(records)["type"] != "prefill":
        pass


def reason(records: Iterator[Record]) -> str:
    """How a run ended, read to its end."""
    *_, last = records
    return last.get("error") or last["reason"]


def test_a_closed_tab_frees_the_model_and_its_memory(url, slot) -> None:
    records = Visitor(url).records(**LONG)
    running(records)
    assert not free(slot)
    records.close()
    assert until(lambda: free(slot))
    tensors = _tensors()
    records = Visitor(url).records(**LONG)
    running(records)
    records.close()
    assert until(lambda: free(slot))
    assert until(lambda: _tensors() <= tensors)


def _tensors() -> int:
    gc.collect()
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


def test_a_full_line_says_so_and_who_waits_is_told_where(small, slot) -> None:
    visitor = Visitor(small)
    first = visitor.records(**LONG)
    running(first)
    waiting = [visitor.records(**{**LONG, "max_new_tokens": 5}) for _ in range(2)]
    assert [next(records)["ahead"] for records in waiting] == [1, 2]
    told = "The line is full: 2 runs waiting; please try again in a while."
    assert reason(visitor.records(**LONG)) == told
    first.close()
    assert [reason(records) for records in waiting] == ["length", "length"]


def test_a_reader_who_does_not_read_does_not_hold_the_model(url, slot) -> None:
    address = Visitor(url).post(**{**LONG, "max_new_tokens": 300})
    host, port = url.removeprefix("http://").strip("/").split(":")
    with socket.create_connection((host, int(port))) as lazy:
        path = address.removeprefix(url)
        lazy.sendall(f"GET /{path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert reason(Visitor(url).records(**{**LONG, "max_new_tokens": 5})) == "length"


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

    visitor = Visitor(url)
    with monkeypatch.context() as patch:
        patch.setattr(network, "forward", fails)
        found = list(visitor.records(prompt=ALPHA, **SHORT))
    assert ("error", message) in {(r.get("reason"), r.get("message")) for r in found}
    assert "secret" not in json.dumps(found)
    assert free(slot)
    assert untimed(list(visitor.records(prompt=ALPHA, **SHORT))) == wanted


def test_a_run_that_nobody_reads_is_not_kept_for_ever(slot, monkeypatch) -> None:
    page = app.build(slot)
    for address in served(page, slot, LOCAL):
        Visitor(address).post(prompt=ALPHA, **SHORT)
        kept = page._queue.pending_messages_per_session
        assert until(lambda: free(slot) and any(queue.qsize() for queue in kept.values()))
        assert until(lambda: not page._queue.event_ids_to_events)
        monkeypatch.setattr(leftovers, "PATIENCE", 0)
        for _ in range(2):  # idle is what was idle at the last look too
            list(Visitor(address).records(prompt=ALPHA, **SHORT))
        assert not any(queue.qsize() for queue in kept.values())


def test_threads_do_not_grow_with_visits(url, slot) -> None:
    visitor = Visitor(url)
    list(visitor.records(prompt=ALPHA, **SHORT))
    before = threading.active_count()
    for _ in range(5):
        list(visitor.records(prompt=ALPHA, **SHORT))
    assert threading.active_count() <= before + 2
