"""A Space on ZeroGPU: the model stands in this process, a run happens in another.

What the package `spaces` asks of a program (0.51, read in its source): the model is put on
"cuda" by the thread that imported `spaces`, before the page is launched; a decorated generator
runs in a forked process that has the GPU, its arguments and everything it yields are pickled,
what it raises arrives as the name of a class, and what it changes stays there. Its duration is
held against the visitor's quota before it starts.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import Callable, Iterator, Mapping

from pld_core.hosting.service import Runner
from pld_core.serving import Request, RequestError, Status

START_SECONDS = 10  # the fork, the weights' way to the GPU, the prompt
TOKEN_SECONDS = 0.04  # of one lane
MOST_SECONDS = 120  # what a visitor without an account has a day

_STREAM, _REFUSED = "stream", "refused"


def on_zero_gpu(environment: Mapping[str, str] = os.environ) -> bool:
    return environment.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


def seconds(request: Request) -> int:
    """How long a run may take on the GPU, by the tokens of all its lanes."""
    lanes = 1 + request.plain + (request.rival is not None)
    tokens = request.max_new_tokens if isinstance(request.max_new_tokens, int) else 0
    return int(min(MOST_SECONDS, START_SECONDS + TOKEN_SECONDS * tokens * lanes))


class ZeroGpu:
    """Runs a slot's requests where the GPU is. gpu: the decorator spaces.GPU."""

    def __init__(self, slot: Runner, gpu: Callable) -> None:
        self._slot = slot

        def worker(request: Request) -> Iterator[tuple[str, str]]:
            """(kind, text): what the stream has grown by, or why there is none."""
            sent = 0
            try:
                with closing(slot.run(request)) as updates:
                    for stream in updates:
                        yield _STREAM, stream[sent:]
                        sent = len(stream)
            except RequestError as error:
                yield _REFUSED, str(error)

        self._worker = gpu(duration=seconds)(worker)

    @property
    def status(self) -> Status:
        return self._slot.status

    def measure(self) -> tuple[tuple[int, float], ...]:
        raise RequestError("Nothing is measured here: it would take of your GPU time.")

    def run(self, request: Request) -> Iterator[str]:
        """See Slot.run; raises besides what `spaces` raises."""
        stream = ""
        with closing(self._worker(request)) as parts:
            for kind, text in parts:
                if kind == _REFUSED:
                    raise RequestError(text)
                stream += text
                yield stream
