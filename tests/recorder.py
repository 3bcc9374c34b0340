"""In place of CUDA graphs on a CPU: records a body's operations and does them again, as they were,
on the tensors as they were, without running any Python of the body."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

NOT_IN_A_CAPTURE = {"_local_scalar_dense", "lift_fresh", "nonzero", "equal"}
"""What waits for the device, or brings numbers of the host along."""


class _Recording(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.done = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name.removeprefix("aten::") in NOT_IN_A_CAPTURE:
            raise RuntimeError(f"{func} is not permitted when a stream is capturing")
        out = func(*args, **(kwargs or {}))
        self.done.append((func, args, kwargs or {}, out))
        return out


class Recorder:
    """Counts captures and their replays; the captures whose numbers (from 1) are in `fails` fail."""

    def __init__(self, fails=()):
        self.captures, self.replays, self._fails = 0, 0, fails

    def capture(self, body):
        self.captures += 1
        if self.captures in self._fails:
            raise RuntimeError("out of memory\nand a long story")
        with _Recording() as recording:
            body()
        operations = recording.done

        @torch.inference_mode()
        def replay():
            self.replays += 1
            for func, args, kwargs, before in operations:
                after = func(*args, **kwargs)
                for old, new in zip(tree_leaves(before), tree_leaves(after)):
                    if isinstance(old, torch.Tensor) and not _same_memory(old, new):
                        old.copy_(new)

        return replay


def _same_memory(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
