"""In place of CUDA graphs on a CPU: records a body's operations and does them again, as they were,
on the tensors as they were, without running any Python of the body."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

NOT_IN_A_CAPTURE = {"_local_scalar_dense", "lift_fresh", "nonzero", "equal"}
"""What waits for the device, or brings numbers of the host along."""


class Recording(TorchDispatchMode):
    """Records every operation inside its context; `replay` does them again."""

    def __init__(self):
        super().__init__()
        self._done = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name.removeprefix("aten::") in NOT_IN_A_CAPTURE:
            raise RuntimeError(f"{func} is not permitted when a stream is capturing")
        out = func(*args, **(kwargs or {}))
        self._done.append((func, args, kwargs or {}, out))
        return out

    @torch.inference_mode()
    def replay(self):
        for func, args, kwargs, before in self._done:
            after = func(*args, **kwargs)
            for old, new in zip(tree_leaves(before), tree_leaves(after)):
                if isinstance(old, torch.Tensor) and not _same_memory(old, new):
                    old.copy_(new)


class Recorder:
    """Counts captures and their replays; the captures whose numbers (from 1) are in `fails` fail."""

    stream = None

    def __init__(self, fails=()):
        self.captures, self.replays, self._fails = 0, 0, fails

    def capture(self, body):
        self.captures += 1
        if self.captures in self._fails:
            raise RuntimeError("out of memory\nand a long story")
        with Recording() as recording:
            body()

        def replay():
            self.replays += 1
            recording.replay()

        return replay


@dataclass
class Cuda:
    """Stands for as much of torch.cuda as captures use; `said` is what it was told, in order."""

    said: list = field(default_factory=list)

    def install(self, monkeypatch):
        for name in ("Stream", "CUDAGraph", "graph", "graph_pool_handle", "stream", "current_stream"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))

    def Stream(self, device):
        return _Stream(self, "side")

    def current_stream(self, device):
        return _Stream(self, "outside")

    def graph_pool_handle(self):
        self.said.append("a pool")
        return object()

    @contextmanager
    def stream(self, stream):
        self.said.append(f"on {stream.name}")
        yield
        self.said.append(f"off {stream.name}")

    def CUDAGraph(self):
        return _Graph(self)

    @contextmanager
    def graph(self, graph, pool, stream, capture_error_mode):
        self.said.append(("capture", id(pool), stream.name, capture_error_mode))
        with graph.recording:
            yield


class _Stream:
    def __init__(self, cuda, name):
        self.cuda, self.name = cuda, name

    def wait_stream(self, other):
        self.cuda.said.append(f"{self.name} waits for {other.name}")

    def record_event(self):
        self.cuda.said.append("event")
        return self

    def synchronize(self):
        self.cuda.said.append("waited")


class _Graph:
    def __init__(self, cuda):
        self.cuda, self.recording = cuda, Recording()

    def replay(self):
        self.cuda.said.append("replay")
        self.recording.replay()


def _same_memory(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
