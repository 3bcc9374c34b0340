"""The page as a process: how it ends."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import httpx
import pytest

from tests import tiny
from tests.visitors import Visitor

ROOT = Path(__file__).resolve().parent.parent
LONG = {"prompt": tiny.PROMPT, "chat": False, "max_new_tokens": 39_000}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A small model on disk whose answers are as long as they may be."""
    path = tmp_path_factory.mktemp("models") / "tiny"
    model = tiny.model("Llama", 3, limit=40_000)
    model.network.save_pretrained(path)
    model.tokenizer.save_pretrained(path)
    return path


@pytest.fixture
def port() -> Iterator[int]:
    """A port that no connection of anyone takes until the page has started: it stays bound."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
def page(folder, port) -> Iterator[tuple[subprocess.Popen, str]]:
    """The page in a process of its own, with its address."""
    own = {"HOST": "127.0.0.1", "PORT": str(port), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    url = f"http://127.0.0.1:{port}/"
    with subprocess.Popen(
        [sys.executable, "app.py", "--model", str(folder)],
        cwd=ROOT, env={**os.environ, **own}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            while (now := health(url)).get("status") != "ready":
                assert process.poll() is None, process.stderr.read()
                assert now.get("status") != "failed", now["message"]
                time.sleep(0.2)
            yield process, url
        finally:
            process.kill()


def health(url: str) -> dict[str, Any]:
    try:
        return httpx.get(f"{url}health", timeout=60).json()
    except httpx.HTTPError:
        return {}


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_the_page_handles_a_request_to_end_and_ends_in_silence_amid_a_pass(page, asked) -> None:
    """Handled it must be: the first process of a container has no other way to hear of it."""
    process, url = page
    records = Visitor(url).records(**LONG)
    while next(records)["type"] != "pass":
        pass
    process.send_signal(asked)
    assert (process.stderr.read(), process.wait()) == ("", 0)
