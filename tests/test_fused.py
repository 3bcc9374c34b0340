"""The operations of our own forward pass, each against its definition in float64."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from pld_core.models.fused import FusedCache, FusedNetwork, Norm, attention
from pld_core.models.quantization import quantize
from tests import families
from tests.rounding import last_place

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


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


@pytest.mark.parametrize("width, most", [(1, 1 << 26), (7, 1 << 26), (7, 4 * 41 * 3), (7, 1)])
def test_attention_is_its_definition_in_one_go_or_in_blocks_of_rows(width, most):
    heads, kv_heads, size, span = 4, 2, 16, 41
    torch.manual_seed(2)
    q = torch.randn(width, heads, size)
    keys, values = torch.randn(2, kv_heads, span, size)
    mask = torch.full((width, span), float("-inf")).triu(span - width + 1)
    of_each_head = [x.repeat_interleave(heads // kv_heads, 0).double() for x in (keys, values)]
    scores = torch.einsum("whd,hnd->whn", q.double(), of_each_head[0]) / size**0.5
    weights = (scores + mask[:, None]).softmax(-1)
    exact = torch.einsum("whn,hnd->whd", weights, of_each_head[1]).reshape(width, -1)
    of_groups = mask.repeat_interleave(heads // kv_heads, 0)
    for given in (of_groups, None) if width == 1 else (of_groups,):
        for alike in (True, False):
            got = attention(q, keys, values, given, alike, most)
            torch.testing.assert_close(got.double(), exact, rtol=1e-5, atol=1e-5)


def in_float32(network):
    return network


def published_in_half_precision(network):
    return network.bfloat16().float()


def in_int4(network):
    quantize(network.bfloat16())
    return network


@pytest.mark.parametrize(
    "kind",
    [
        in_float32,
        published_in_half_precision,
        torch.nn.Module.bfloat16,
        torch.nn.Module.half,
        in_int4,
    ],
)
@pytest.mark.parametrize("name", ["Llama", "Qwen2", "Qwen3"])
def test_torchscript_gives_what_python_gives_to_the_bit(name, kind, monkeypatch):
    def fused():
        return FusedNetwork(kind(deepcopy(families.wide(name))))

    scripted = fused()
    assert isinstance(scripted._run_layers, torch.jit.ScriptModule)
    monkeypatch.setattr(torch.jit, "script", missing)
    by_python = fused()
    assert not isinstance(by_python._run_layers, torch.jit.ScriptModule)
    ids = [(7 * place) % families.LETTERS for place in range(90)]
    passes = [(ids[:40], ()), (ids[40:41], ()), (ids[41:58], ()), (ids[58:63], (-1, -1, 0, 1))]
    caches = [FusedCache(network, 16) for network in (scripted, by_python)]
    for tokens, parents in 2 * passes:  # TorchScript may optimise what it has seen
        logits = [
            network.forward(tokens, cache, False, parents)
            for network, cache in zip((scripted, by_python), caches)
        ]
        assert torch.equal(*logits)
    assert all(torch.equal(*layers) for layers in zip(*(cache.layers for cache in caches)))


def missing(module):
    raise AttributeError("module 'torch.jit' has no attribute 'script'")
