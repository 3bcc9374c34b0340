"""Weights of few levels: the nearest ones, and none lost that were few already."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from pld_core.models.quantization import GROUP, can_quantize, fitted, joined, quantize
from tests import families


@pytest.mark.parametrize("bits", [4, 8])
def test_a_weight_moves_by_half_a_step_at_most(bits):
    torch.manual_seed(0)
    weight = torch.randn(64, 96) * torch.logspace(-3, 1, 64)[:, None]
    got = fitted(weight, bits).levels
    if bits == 4:
        groups = weight.unflatten(1, (-1, GROUP))
        steps = ((groups.amax(2) - groups.amin(2)) / 15).repeat_interleave(GROUP, 1)
    else:
        steps = (weight.abs().amax(1) / 127)[:, None].expand(-1, 96)
    # steps and levels are kept in bfloat16, which moves the outermost a little more
    assert bool(((got - weight).abs() <= (0.55 if bits == 4 else 0.75) * steps).all())
    assert got.shape == weight.shape


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_of_sixteen_levels_stay_what_they_are(dtype):
    torch.manual_seed(1)
    steps, least = torch.rand(64, 3, 1) + 0.1, torch.randn(64, 3, 1)
    integers = torch.randint(0, 16, (64, 3, GROUP))
    integers[..., 0], integers[..., 1] = 0, 15
    weight = (integers * steps + least).flatten(1).to(dtype)
    grid = fitted(weight, 4)
    assert torch.equal(grid.integers.long(), integers.flatten(1))
    moved = (grid.levels - weight.float()).abs()
    largest = (16 * steps + least.abs()).expand(-1, -1, GROUP).flatten(1)
    assert bool((moved <= 2**-7 * largest).all())


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("value", [0.0, 0.37, -5.0])
def test_weights_that_are_all_alike_stay_alike(bits, value):
    weight = torch.full((32, 64), value).bfloat16()
    torch.testing.assert_close(fitted(weight, bits).levels, weight.float(), rtol=2**-8, atol=1e-9)


def test_a_network_is_rounded_but_for_its_embedding():
    network = deepcopy(families.wide("Llama")).bfloat16()
    before = deepcopy(network)
    assert can_quantize(network)
    quantize(network)
    assert torch.equal(network.model.embed_tokens.weight, before.model.embed_tokens.weight)
    for module, old, bits in (
        (network.lm_head, before.lm_head, 8),
        (network.model.layers[1].mlp.down_proj, before.model.layers[1].mlp.down_proj, 4),
    ):
        levels = fitted(old.weight, bits).levels
        assert module.grid.bits == bits and torch.equal(module.grid.levels, levels)
        assert torch.equal(module.weight, levels.bfloat16())
        assert not torch.equal(module.weight, old.weight)


@pytest.mark.parametrize("bits", [4, 8])
def test_joined_grids_are_the_matrices_one_below_the_other(bits):
    torch.manual_seed(2)
    grids = [fitted(torch.randn(out, 64), bits) for out in (16, 48)]
    levels = torch.cat([grid.levels for grid in grids])
    assert torch.equal(joined(grids).levels, levels)


def test_matrices_of_other_sizes_are_not_rounded():
    assert not can_quantize(families.network("Llama"))
