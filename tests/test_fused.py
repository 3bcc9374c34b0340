"""The operations of our own forward pass, each against its definition in float64."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from pld_core.models.fused import FusedNetwork, Linear, Norm
from tests import families

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def last_place(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What the last place of each value is worth in dtype."""
    info = torch.finfo(dtype)
    return exact.abs().clamp(min=info.tiny).log2().floor().exp2() * info.eps


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 576), (17, 33), (5, 3, 64)])
def test_a_norm_is_its_definition_rounded_once(dtype, shape):
    torch.manual_seed(0)
    x = (torch.randn(shape) * 3).to(dtype)
    x[0] = 0
    weight = torch.rand(shape[1:]).to(dtype)
    exact = x.double() * (x.double().pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * weight.double()
    norm = Norm(weight, 1e-5)
    got = norm(x)
    assert got.dtype == dtype and bool((got[0] == 0).all())
    places = 4 if dtype == torch.float32 else 0.51
    assert bool(((got.double() - exact).abs() <= places * last_place(exact, dtype)).all())
    norm(x, out=x)
    assert torch.equal(x, got)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("width", [1, 7])
def test_a_product_onto_a_sum_is_rounded_once(dtype, bias, width):
    torch.manual_seed(1)
    module = torch.nn.Linear(96, 64, bias=bias).to(dtype)
    x, before = torch.randn(width, 96).to(dtype), torch.randn(width, 64).to(dtype) * 8
    with torch.inference_mode():
        exact = before.double() + x.double() @ module.weight.double().t()
        if bias:
            exact = exact + module.bias.double()
        kept, linear = before.clone(), Linear(module)
        got = linear.onto(before, x)
    error = (got.double() - exact).abs()
    # sums of 96 products are right to float32's precision, the result to half a place
    assert bool((error <= 0.51 * last_place(exact, dtype) + 1e-5).all())
    assert torch.equal(before, kept)


def test_one_position_attends_as_one_of_many():
    network = FusedNetwork(deepcopy(families.network("Qwen3")))
    torch.manual_seed(2)
    q = torch.randn(1, network.heads, network.head_size)
    keys, values = torch.randn(2, network.kv_heads, 41, network.head_size)
    alone = network.mix(q, keys, values, None)
    masked = network.mix(q, keys, values, network.for_groups(torch.zeros(1, 41)))
    group = network.heads // network.kv_heads
    of_each_head = [x.repeat_interleave(group, 0).double() for x in (keys, values)]
    scores = torch.einsum("hd,hnd->hn", q[0].double(), of_each_head[0]) / network.head_size**0.5
    exact = torch.einsum("hn,hnd->hd", scores.softmax(-1), of_each_head[1])
    for got in (alone, masked):
        torch.testing.assert_close(got.double(), exact.reshape(1, -1), rtol=1e-5, atol=1e-5)
