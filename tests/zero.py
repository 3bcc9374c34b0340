"""A stand-in for ZeroGPU's package `spaces`, as far as a program can tell the two apart: a
decorated generator runs in a forked process, its arguments and what it yields are pickled, it
runs ahead of its consumer, a closed consumer stops it after its next step, what it raises
arrives as the name of a class, and a run can be refused before it starts."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import threading
from functools import wraps
from typing import Any, Callable, Iterator

import gradio as gr

PATIENCE = 120  # seconds, lest a fork that came at a bad moment holds the tests up for ever
fork = multiprocessing.get_context("fork")


class Zero:
    """GPU is the decorator. refuse: (title, message) of the error that the next runs meet.
    durations: what each run asked for, seconds. workers: every process there was."""

    def __init__(self) -> None:
        self.refuse: tuple[str, str] | None = None
        self.durations: list[float] = []
        self.workers: list[Any] = []

    def GPU(self, task: Callable | None = None, *, duration: Any = 60) -> Callable:
        if task is None:
            return lambda task: self.GPU(task, duration=duration)

        @wraps(task)
        def handler(*args: Any) -> Iterator[Any]:
            self.durations.append(duration(*args) if callable(duration) else duration)
            if self.refuse:
                title, message = self.refuse
                raise gr.Error(message, title=title, print_exception=False)
            results, stop = fork.SimpleQueue(), fork.Event()
            packed = pickle.dumps(args)
            worker = fork.Process(
                target=_work, args=(task, packed, results, stop), daemon=True
            )
            self.workers.append(worker)
            worker.start()
            got: queue.Queue = queue.Queue()
            reader = threading.Thread(target=_read, args=(worker, results, got), daemon=True)
            reader.start()
            try:
                yield from _answers(got)
            finally:  # as in `spaces`, the consumer waits for the worker to notice
                stop.set()
                reader.join(PATIENCE)
                if reader.is_alive():
                    worker.kill()
                    raise AssertionError("the worker did not stop")

        return handler

    def kill(self) -> None:
        os.kill(self.workers[-1].pid, signal.SIGKILL)


def _work(task: Callable, packed: bytes, results: Any, stop: Any) -> None:
    import torch

    torch.set_num_threads(1)  # the threads of the parent did not come along
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        running = task(*pickle.loads(packed))
        for result in running:
            if stop.is_set():
                running.close()
                break
            results.put(("yield", pickle.dumps(result)))
        results.put(("end", b""))
    except Exception as error:
        results.put(("error", pickle.dumps(type(error).__name__)))


def _read(worker: Any, results: Any, got: queue.Queue) -> None:
    while True:
        while not results._reader.poll(0.01):
            if not worker.is_alive() and not results._reader.poll(0):
                got.put(("aborted", b""))
                return
        kind, packed = results.get()
        got.put((kind, packed))
        if kind != "yield":
            worker.join()
            return


def _answers(got: queue.Queue) -> Iterator[Any]:
    while True:
        kind, packed = got.get(timeout=60)
        if kind == "yield":
            yield pickle.loads(packed)
        elif kind == "end":
            return
        else:
            told = pickle.loads(packed) if kind == "error" else "GPU task aborted"
            raise gr.Error(told, title="ZeroGPU worker error", print_exception=False)
