"""Recorded device work: a pass that was run once is captured, and from then on replayed, so that
its hundreds of kernels cost the host one launch."""

from __future__ import annotations

import logging
from typing import Callable, Hashable, Protocol

import torch

log = logging.getLogger(__name__)

Body = Callable[[], None]
"""Device work of a fixed shape that reads and writes tensors which stay where they are."""


class Recorder(Protocol):
    """What captures a body."""

    stream: torch.cuda.Stream | None
    """Where bodies are to run, also before they are captured; None for where they are."""

    def capture(self, body: Body) -> Body:
        """Records the work of `body` without doing it; returns what does it again."""


class CudaRecorder:
    """Captures into CUDA graphs that share one memory pool. They may: no two run at once, and
    nothing in the pool outlives the replay that made it, as a body leaves its results in tensors
    from outside. The bodies' first runs belong on `stream` too: they are the warm-up that a
    capture asks for."""

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def capture(self, body: Body) -> Body:
        graph = torch.cuda.CUDAGraph()
        # thread_local: what other threads do on the device is none of this capture's business
        with torch.cuda.graph(
            graph, pool=self._pool, stream=self.stream, capture_error_mode="thread_local"
        ):
            body()
        return graph.replay


class Graphs:
    """Bodies by their keys. The first use of a key runs its body as it is, so that nobody waits
    for a capture that is never used again; the second captures it; later ones replay.

    Without a recorder every use runs the body. The same where a capture fails: the log has one
    sentence about it, and nothing is captured any more.
    """

    def __init__(self, recorder: Recorder | None) -> None:
        self._recorder = recorder
        self._replays: dict[Hashable, Body] = {}
        self._ran: set[Hashable] = set()

    @property
    def captured(self) -> list[Hashable]:
        """The keys whose next use is a replay."""
        return list(self._replays)

    def run(self, key: Hashable, body: Body) -> None:
        if self._recorder is not None and key in self._ran and key not in self._replays:
            self._capture(key, body)
        self._ran.add(key)
        self._replays.get(key, body)()

    def forget(self, owns: Callable[[Hashable], bool] = lambda key: True) -> None:
        """Frees the graphs whose keys `owns` says are its own: their tensors have moved."""
        self._replays = {key: replay for key, replay in self._replays.items() if not owns(key)}
        self._ran = {key for key in self._ran if not owns(key)}

    def _capture(self, key: Hashable, body: Body) -> None:
        try:
            self._replays[key] = self._recorder.capture(body)
        except Exception as error:
            self._recorder = None
            reason = str(error).partition("\n")[0]
            log.warning(
                "Passes run without CUDA graphs, and slower, because one could not be captured "
                "(%s: %s).", type(error).__name__, reason,
            )
