"""What a server would keep for visitors who never came back for it."""

from __future__ import annotations

import threading
from time import monotonic
from typing import Any, Callable, Iterable, MutableMapping

PATIENCE = 120.0  # seconds for which the rest of a finished run is kept for a slow reader


class Leftovers:
    """Empties mappings from sessions to whatever is kept for them. A session is forgotten when
    none of its runs is `alive()` and none was for PATIENCE seconds."""

    def __init__(
        self,
        kept: Iterable[MutableMapping[str, Any]],
        alive: Callable[[], Iterable[str]],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._kept = tuple(kept)
        self._alive = alive
        self._clock = clock
        self._idle_since: dict[str, float] = {}
        self._lock = threading.Lock()

    def sweep(self) -> None:
        """Call it now and then, from any thread."""
        with self._lock:
            now, alive = self._clock(), set(self._alive())
            idle = {session for mapping in self._kept for session in list(mapping)} - alive
            since = {session: self._idle_since.get(session, now) for session in idle}
            gone = [session for session, began in since.items() if now - began > PATIENCE]
            for session in gone:
                del since[session]
                for mapping in self._kept:
                    mapping.pop(session, None)
            self._idle_since = since
