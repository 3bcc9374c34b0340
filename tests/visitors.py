"""Visitors of a served page, without a browser: the page's own `run` over its HTTP interface."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Iterator

import httpx
from gradio_client import Client

UNTIMED = ("seconds", "created")


def steps(stream: str) -> list[dict[str, Any]]:
    """A stream's events by lane, without what the clock says."""
    events = [json.loads(line) for line in stream.splitlines()]
    kept = [{k: v for k, v in event.items() if k not in UNTIMED} for event in events]
    return sorted(kept, key=lambda event: event["lane"])


@dataclass(frozen=True)
class Update:
    """What the page shows of a run: its stream so far (None where nothing of it is new), and
    the sentence beside it."""

    stream: str | None
    notice: str | None


@dataclass
class Visitor:
    """One visitor of the page at `url`, with values for its form."""

    url: str
    values: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = httpx.get(f"{self.url}gradio_api/info").json()["named_endpoints"]["/run"]
        self.form = {p["parameter_name"]: p.get("parameter_default") for p in found["parameters"]}

    def client(self) -> Client:
        return Client(self.url, verbose=False)

    def asked(self, **more: Any) -> dict[str, Any]:
        return {**self.form, **self.values, **more}

    def run(self, client: Client, **more: Any) -> Update:
        """A whole run through Gradio's own client."""
        stream, notice, *_ = client.predict(**self.asked(**more), api_name="/run")
        return Update(stream if isinstance(stream, str) else None, notice)

    def post(self, **more: Any) -> str:
        """Asks for a run and returns its address; it goes on whether or not that is read."""
        asked = list(self.asked(**more).values())
        answer = httpx.post(f"{self.url}gradio_api/call/run", json={"data": asked}, timeout=60)
        answer.raise_for_status()
        return f"{self.url}gradio_api/call/run/{answer.json()['event_id']}"

    def updates(self, **more: Any) -> Iterator[Update]:
        """A run as it comes. Closing this is closing the tab."""
        with httpx.stream("GET", self.post(**more), timeout=60) as answer:
            for line in answer.iter_lines():
                data = json.loads(line[6:]) if line.startswith("data: ") else None
                if isinstance(data, list):
                    texts = [part if isinstance(part, str) else None for part in data[:2]]
                    yield Update(*texts)
                elif isinstance(data, dict):
                    yield Update(None, data.get("error"))
