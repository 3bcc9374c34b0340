"""Visitors of a served page who ask for runs as programs do, and come and go as people do."""

from __future__ import annotations

import json
from typing import Any, Iterator

import httpx
from gradio_client import Client

Record = dict[str, Any]
UNTIMED = ("seconds", "created")


def steps(stream: str) -> list[Record]:
    """A stream's events; see `untimed`."""
    return untimed([json.loads(line) for line in stream.splitlines()])


def untimed(records: list[Record]) -> list[Record]:
    """A run's events by lane, without what the clock says, the waiting and the summary."""
    kept = [{k: v for k, v in record.items() if k not in UNTIMED} for record in records]
    events = [record for record in kept if "lane" in record]
    return sorted(events, key=lambda event: event["lane"])


def run(client: Client, **values: Any) -> list[Record]:
    """The records of a whole run through Gradio's own client."""
    return list(client.submit(**values, api_name="/run_trace"))


class Visitor:
    """One visitor of the page at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url
        found = httpx.get(f"{url}gradio_api/info", timeout=300).json()
        form = found["named_endpoints"]["/run_trace"]["parameters"]
        self.form = {field["parameter_name"]: field.get("parameter_default") for field in form}

    def post(self, **values: Any) -> str:
        """Asks for a run and returns its address; it goes on whether or not that is read."""
        asked = list({**self.form, **values}.values())
        address = f"{self.url}gradio_api/call/run_trace"
        answer = httpx.post(address, json={"data": asked}, timeout=300)
        answer.raise_for_status()
        return f"{address}/{answer.json()['event_id']}"

    def records(self, **values: Any) -> Iterator[Record]:
        """A run's records as they come, or {"error": sentence}. Closing this is closing the
        tab."""
        with httpx.stream("GET", self.post(**values), timeout=300) as answer:
            kind = ""
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data" and kind == "generating":
                    yield json.loads(value)[0]
                elif name == "data" and kind == "error":
                    yield json.loads(value)
