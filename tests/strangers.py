"""The page on a scripted slot as a program reaches it: over HTTP, without a browser."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any, Awaitable, Callable, Iterator

import anyio
import httpx
from gradio_client import Client

import app
from pld_core.hosting.limits import LOCAL, Limits
from pld_core.hosting.metrics import Metrics
from tests.browser.scripted import ScriptedSlot, tokens_of

ANSWER = tokens_of(" b c d e X f")
PROMPT = "a b c d e f g"


def awaited(function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """What an asynchronous function returns. The browser tests leave a loop in this thread."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(anyio.run, function, *arguments).result()


class Stranger:
    """Speaks to the page's routes, in whatever shape it likes."""

    def __init__(self, url: str, slot: ScriptedSlot) -> None:
        self.url, self.slot = url, slot
        self.http = httpx.Client(base_url=url, timeout=60)
        config = self.http.get("config").json()
        ids = {part["props"].get("elem_id"): part["id"] for part in config["components"]}
        self.listeners: list[dict[str, Any]] = config["dependencies"]
        self._ids = ids
        self._sessions = count()

    def listener(self, element: str, event: str) -> int:
        """The number of the listener for an event of an element that the server answers."""
        target = [self._ids[element], event]
        return next(
            one["id"] for one in self.listeners if target in one["targets"] and one["backend_fn"]
        )

    def send(self, number: int, data: Any, event_data: Any = None) -> httpx.Response:
        """One call of a listener past the queue, as the page makes the light ones."""
        body = {"data": data, "fn_index": number, "event_data": event_data, "session_hash": "s"}
        return self.post("gradio_api/run/predict", body)

    def queue(self, number: int, data: Any, event_data: Any = None) -> list[dict[str, Any]]:
        """The messages for one call through the queue, to its end."""
        session = f"stranger-{next(self._sessions)}"
        body = {
            "data": data, "fn_index": number, "event_data": event_data, "session_hash": session
        }  # fmt: skip
        joined = self.post("gradio_api/queue/join", body)
        if joined.status_code != 200:
            return [{"msg": "refused", "status": joined.status_code, "text": joined.text}]
        messages = []
        query = {"session_hash": session}
        with self.http.stream("GET", "gradio_api/queue/data", params=query) as stream:
            for line in stream.iter_lines():
                if line.startswith("data:"):
                    messages.append(json.loads(line.removeprefix("data:")))
                    if messages[-1]["msg"] in ("process_completed", "unexpected_error"):
                        break
        return messages

    def raw(self, path: str) -> int:
        """The status for a path that no client has tidied."""
        connection = HTTPConnection(self.http.base_url.host, self.http.base_url.port, timeout=60)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()

    def post(self, path: str, body: Any) -> httpx.Response:
        """Anything as JSON, also what no JSON writer of good manners would write."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.http.post(path, content=content, headers={"content-type": "application/json"})

    def run(self, prompt: str = PROMPT, **settings: Any) -> list[dict[str, Any]]:
        """The records of a run. Raises AppError for one that was refused."""
        client = Client(self.url, verbose=False, analytics_enabled=False)
        job = client.submit(prompt=prompt, api_name="/run_trace", **settings)
        records = list(job)
        job.result()
        return records


@contextmanager
def served(
    examples: Path | None = None, allowed: Limits = LOCAL, **launch: Any
) -> Iterator[Stranger]:
    slot, metrics = ScriptedSlot(), Metrics()
    slot.answer = ANSWER
    page = app.build(slot, examples or app.STATIC / "examples", allowed, metrics)
    settings = {**app.launch_settings(slot, allowed, metrics), **launch}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    _, url, _ = page.launch(
        server_name="127.0.0.1", server_port=port, prevent_thread_lock=True, quiet=True, **settings
    )
    try:
        yield Stranger(url, slot)
    finally:
        page.close()
