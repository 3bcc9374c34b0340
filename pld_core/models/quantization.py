"""Weights rounded to few levels: 4 bits in the layers, 8 at the output, as GGUF files mix them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

import torch
from transformers import PreTrainedModel

GROUP = 32
"""How many neighbours of a row share the levels of 4 bits."""


@dataclass(frozen=True)
class Grid:
    """The levels of a matrix [out, in], scales in bfloat16.

    4 bits: integers [out, in] from 0 to 15, scales [out, in / GROUP, 2] of (step, the level of 8).
    8 bits: integers [out, in] from -127 to 127, scales [out] of steps.
    """

    bits: int
    integers: torch.Tensor
    scales: torch.Tensor

    @property
    def levels(self) -> torch.Tensor:
        """The weights [out, in] that they stand for, in float32."""
        scales = self.scales.float()
        if self.bits == 8:
            return self.integers * scales[:, None]
        steps, eighth = scales.unbind(-1)
        integers = self.integers.unflatten(1, (-1, GROUP)).float() - 8
        return (integers * steps[..., None] + eighth[..., None]).flatten(1)


def joined(grids: Sequence[Grid]) -> Grid:
    """One grid of several matrices, one below the other."""
    integers = torch.cat([grid.integers for grid in grids])
    return Grid(grids[0].bits, integers, torch.cat([grid.scales for grid in grids]))


def can_quantize(network: PreTrainedModel) -> bool:
    """Whether torch's products take the matrices of a network of the Llama family."""
    shapes = [module.weight.shape for module in (*_inner(network), network.lm_head)]
    return all(out % 16 == 0 and in_ % GROUP == 0 for out, in_ in shapes)


def quantize(network: PreTrainedModel) -> None:
    """Rounds the matrices of a network of the Llama family to their levels, and gives each module
    its `grid`. The embedding, also one that the output layer shared, stays as it was."""
    for bits, modules in ((4, _inner(network)), (8, [network.lm_head])):
        for module in modules:
            module.grid = fitted(module.weight, bits)
            levels = module.grid.levels.to(module.weight.dtype)
            module.weight = torch.nn.Parameter(levels, requires_grad=False)


def _inner(network: PreTrainedModel) -> list[torch.nn.Linear]:
    modules = network.model.layers.modules()
    return [module for module in modules if isinstance(module, torch.nn.Linear)]


def fitted(weight: torch.Tensor, bits: int) -> Grid:
    """The grid from the smallest to the largest weight of each group, or of each row's largest
    either way for 8 bits."""
    weight = weight.detach().float()
    if bits == 8:
        steps = _steps(weight.abs().amax(1) / 127)
        return Grid(8, (weight / steps[:, None]).round().clamp(-127, 127).char(), steps.bfloat16())
    groups = weight.unflatten(1, (-1, GROUP))
    least, most = groups.aminmax(dim=2)
    eighth = (least + 8 / 15 * (most - least)).bfloat16().float()
    steps = _steps((most - least) / 15)
    integers = ((groups - eighth[..., None]) / steps[..., None] + 8).round().clamp(0, 15)
    scales = torch.stack([steps, eighth], -1).bfloat16()
    return Grid(4, integers.flatten(1).to(torch.uint8), scales)


def _steps(steps: torch.Tensor) -> torch.Tensor:
    """As bfloat16 holds them; never 0, also where all weights are alike."""
    return steps.clamp(min=2.0**-100).bfloat16().float()
