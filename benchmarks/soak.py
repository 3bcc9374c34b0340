"""Many visitors for a long time, on a server of its own:

    python benchmarks/soak.py --minutes 30            # a tiny model, made on the spot
    python benchmarks/soak.py --minutes 30 --model embedded
    python benchmarks/soak.py --minutes 30 --model ORG/NAME

First two and eight visitors ask in turn for so many rounds, and every answer is compared with the
one that its prompt gets alone. Then visitors come and go at random: whole runs, closed tabs, runs
that nobody reads, requests that cannot be meant. The server's memory, threads and open files are
noted every ten seconds. At last the server is killed and started again. Exit code 1 and a line for
everything that was not as it should be.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
from gradio_client import Client

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.visitors import Record, Visitor, run, untimed  # noqa: E402

SUBJECTS = ("oak", "ash", "fir", "elm", "yew", "bay", "box", "fig")
SETTINGS = {"chat": False, "adaptive": False, "max_new_tokens": 24}
BAD: tuple[dict[str, Any], ...] = (
    {"prompt": ""},
    {"prompt": "a", "n_max": 0},
    {"prompt": "a", "k": "many"},
    {"prompt": "a", "n_min": 9, "n_max": 2},
    {"prompt": "a", "max_new_tokens": 10**9},
    {"prompt": "a", "temperature": -1},
    {"prompt": "a" * 2_000_000},
)


def prompt_of(number: int) -> str:
    word = SUBJECTS[number % len(SUBJECTS)]
    return f"{word}-{number} crates: {word} one, {word} two, {word} three. List the {word}-{number} crates:"


class Server:
    """The page in a process of its own, on a port of its own."""

    def __init__(self, model: str | None, waiting: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/"
        self._command = [sys.executable, str(ROOT / "app.py")]
        self._command += ["--model", model] if model else []
        self._environment = {
            **os.environ, "PORT": str(port), "HOST": "127.0.0.1", "PLD_MAX_WAITING": str(waiting)
        }  # fmt: skip
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.DEVNULL
        )
        while self.health().get("status") != "ready":
            if self.process.poll() is not None or self.health().get("status") == "failed":
                raise SystemExit(f"the server did not start: {self.health()}")
            time.sleep(0.5)

    def health(self) -> dict[str, Any]:
        try:
            return httpx.get(f"{self.url}health", timeout=60).json()
        except (httpx.HTTPError, ValueError):
            return {}

    def figures(self) -> tuple[float, int, int]:
        """Resident memory in MB, threads, open files and sockets."""
        process = psutil.Process(self.process.pid)
        return process.memory_info().rss / 1e6, process.num_threads(), process.num_fds()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def client_of(url: str) -> Client:
    return Client(url, verbose=False, httpx_kwargs={"timeout": 300})


def together(url: str, alone: list[list[Record]], visitors: int, rounds: int) -> list[str]:
    """What was not equal to the answer alone."""

    def answers(number: int) -> list[str]:
        client = client_of(url)
        return [
            f"visitor {number} of {visitors}, round {round_}: another answer than alone"
            for round_ in range(rounds)
            if untimed(run(client, prompt=prompt_of(number), **SETTINGS)) != alone[number]
        ]

    with ThreadPoolExecutor(visitors) as pool:
        return [fault for faults in pool.map(answers, range(visitors)) for fault in faults]


def wander(url: str, alone: list[list[Record]], seed: int, until: float) -> tuple[Counter, list]:
    """A visitor who does at random what visitors do: (what was done, what went wrong)."""
    rng = random.Random(seed)
    visitor, done, faults = Visitor(url), Counter(), []
    while time.monotonic() < until:
        action = rng.choice(("whole", "whole", "leave", "leave", "unread", "bad"))
        number = rng.randrange(len(alone))
        asked = {**SETTINGS, "prompt": prompt_of(number)}
        if action == "leave":
            asked["max_new_tokens"] = 2000
        if action == "bad":
            asked |= rng.choice(BAD)
        try:
            if action == "unread":
                visitor.post(**asked)
                time.sleep(rng.random())
            elif action == "leave":
                records = visitor.records(**asked)
                for _ in range(rng.randrange(1, 40)):
                    next(records, None)
                records.close()
            else:
                records = list(visitor.records(**asked))
                told = records[-1].get("error") if records else "nothing came"
                if action == "bad":
                    if not told:
                        faults.append(f"no word about {list(asked)}")
                elif told and not ("line is full" in told or "waiting" in told):
                    faults.append(told)
                elif told:
                    action = "turned away"
                elif untimed(records) != alone[number]:
                    faults.append(f"another answer than alone to {prompt_of(number)!r}")
        except httpx.HTTPError as error:
            # what is larger than any request may be is refused at the door
            if action != "bad" or not isinstance(error, httpx.HTTPStatusError):
                faults.append(f"{action}: {error!r}")
        done[action] += 1
    return done, faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--visitors", type=int, default=8)
    parser.add_argument("--model", help="embedded, a hub id or a folder; a tiny one when absent")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = arguments.model or _tiny(folder)
        server = Server(None if model == "embedded" else model, waiting=7)
        try:
            faults = soak(server, arguments)
        finally:
            server.kill()
    for fault in faults[:20]:
        print("FAULT:", fault)
    return int(bool(faults))


def soak(server: Server, arguments: argparse.Namespace) -> list[str]:
    first = client_of(server.url)
    alone = [untimed(run(first, prompt=prompt_of(number), **SETTINGS)) for number in range(8)]
    faults = []
    for visitors in (2, 8):
        began = len(faults)
        faults += together(server.url, alone, visitors, arguments.rounds)
        print(f"{visitors} visitors, {arguments.rounds} rounds: {len(faults) - began} differed")
    until = time.monotonic() + 60 * arguments.minutes
    done: Counter = Counter()
    print("  s      MB  threads  files")
    with ThreadPoolExecutor(arguments.visitors) as pool:
        seeds = range(arguments.visitors)
        visits = [pool.submit(wander, server.url, alone, seed, until) for seed in seeds]
        began = time.monotonic()
        while time.monotonic() < until:
            print("{:4.0f} {:7.1f} {:7d} {:7d}".format(time.monotonic() - began, *server.figures()))
            time.sleep(10)
        for visit in visits:
            did, wrong = visit.result()
            done += did
            faults += wrong
    time.sleep(30)  # what nobody reads comes to its end
    print(" end {:7.1f} {:7d} {:7d}".format(*server.figures()))
    print("visits:", dict(done))
    server.kill()
    server.start()
    again = client_of(server.url)
    if untimed(run(again, prompt=prompt_of(0), **SETTINGS)) != alone[0]:
        faults.append("another answer after the restart")
    print("killed and started again: answers as before")
    return faults


def _tiny(folder: str) -> str:
    from tests import tiny

    model = tiny.model("Llama", limit=8192)
    model.network.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return folder


if __name__ == "__main__":
    sys.exit(main())
