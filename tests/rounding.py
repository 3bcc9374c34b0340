"""How near a number can come to an exact one."""

import torch


def last_place(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What the last place of each value is worth in dtype."""
    info = torch.finfo(dtype)
    return exact.abs().clamp(min=info.tiny).log2().floor().exp2() * info.eps
