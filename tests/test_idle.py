"""A page that waits leaves the processor to the decoder."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import app
from pld_core.serving import Status


@pytest.mark.parametrize("look", ["start_processing", "start_progress_updates"])
def test_the_queue_looks_for_work_rarely(look: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = app.build(SimpleNamespace(status=Status("ready", "")))._queue
    waits: list[float] = []

    really = asyncio.sleep

    async def looking() -> None:
        here = asyncio.get_running_loop()

        async def sleep(seconds: float, *result: object) -> object:
            if asyncio.get_running_loop() is not here:  # a server of another test
                return await really(seconds, *result)
            waits.append(seconds)
            queue.stopped = len(waits) == 3

        monkeypatch.setattr(asyncio, "sleep", sleep)
        await getattr(queue, look)()

    with ThreadPoolExecutor(1) as thread:  # the browser of other tests has a loop in this one
        thread.submit(asyncio.run, looking()).result()
    assert len(waits) == 3 and min(waits) >= 0.02
