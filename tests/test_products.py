"""Each way to multiply by a matrix, against the exact product of the weights it was given."""

from __future__ import annotations

import pytest
import torch

from pld_core.models import products
from pld_core.models.products import Dense, Halved, Packed, Quantized, linear
from pld_core.models.quantization import fitted
from tests.rounding import last_place

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def layer(dtype=torch.float32, bias=False, weight=None):
    made = torch.nn.Linear(96, 64, bias=bias).to(dtype)
    if weight is not None:
        made.weight = torch.nn.Parameter(weight)
    return made


def exactly(module, x):
    product = x.double() @ module.weight.detach().double().t()
    return product if module.bias is None else product + module.bias.detach().double()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("width", [1, 7])
def test_a_product_onto_a_sum_is_rounded_once(dtype, bias, width):
    torch.manual_seed(1)
    module = layer(dtype, bias)
    x, before = torch.randn(width, 96).to(dtype), torch.randn(width, 64).to(dtype) * 8
    with torch.inference_mode():
        exact = before.double() + exactly(module, x)
        kept, product = before.clone(), linear(module)
        got = product.onto(before, x)
    error = (got.double() - exact).abs()
    # sums of 96 products are right to float32's precision, the result to half a place
    assert bool((error <= 0.51 * last_place(exact, dtype) + 1e-5).all())
    assert torch.equal(before, kept)


def published_in(dtype, smallest):
    """float32 weights that a type of half precision holds, the smallest of which are so large."""
    torch.manual_seed(2)
    weight = torch.randn(64, 96).to(dtype).float()
    weight[0, :8] = torch.tensor(smallest).to(dtype).float()
    return weight


@pytest.mark.parametrize(
    "weight",
    [
        published_in(torch.float16, 6e-8),
        published_in(torch.bfloat16, 1e-4),
        published_in(torch.bfloat16, 1e-8),  # no float16 as it is
        published_in(torch.bfloat16, 3000.0) * 64,  # beyond float16's largest
        torch.zeros(64, 96),
    ],
)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("width", [1, 6, 130])
def test_weights_that_float16_holds_are_halved_and_stay_what_they_are(weight, bias, width):
    module = layer(bias=bias, weight=weight.clone())
    x, before = torch.randn(width, 96), torch.randn(width, 64)
    with torch.inference_mode():
        exact = exactly(module, x)
        size = x.double().abs() @ weight.double().abs().t() + 1
        product = linear(module)
        if not products._halves():
            pytest.skip("FBGEMM does not run here")
        assert isinstance(product, Halved)
        assert bool(((product(x) - exact).abs() <= 1e-6 * size).all())
        onto = product.onto(before, x)
    assert bool(((onto - before.double() - exact).abs() <= 1e-6 * (size + before.abs())).all())
    assert not isinstance(product.scale, torch.Tensor) and module.weight.numel() == 0


@pytest.mark.parametrize("spoilt", [1 / 3, 1e-30, 3e38, float("inf"), float("nan")])
def test_one_weight_that_float16_cannot_hold_keeps_them_all_in_float32(spoilt):
    weight = published_in(torch.bfloat16, 1e-4)
    weight[5, 5] = spoilt
    assert isinstance(linear(layer(weight=weight)), Packed)


def test_without_fbgemm_and_onednn_weights_stay_as_they_are(monkeypatch):
    weight = published_in(torch.bfloat16, 1e-4)
    monkeypatch.setattr(products, "_halves", lambda: False)
    assert isinstance(linear(layer(weight=weight.clone())), Packed)
    monkeypatch.setattr(products, "_packs", lambda dtype: False)
    assert isinstance(linear(layer(weight=weight.clone())), Dense)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("bias", [False, True])
def test_few_rows_and_many_multiply_by_the_same_levels(bits, bias):
    torch.manual_seed(3)
    grid = fitted(torch.randn(64, 96), bits)
    weight = grid.levels.bfloat16()
    module = layer(torch.bfloat16, bias, weight)
    module.grid = grid
    x, before = torch.randn(9, 96).bfloat16(), torch.randn(9, 64).bfloat16()
    with torch.inference_mode():
        exact = exactly(module, x)
        product = linear(module)
        assert isinstance(product, Quantized)
        assert not hasattr(module, "grid") and module.weight.numel() == 0
        # the rounding of the weights to bfloat16, of the product and of the sum
        allowed = 2**-8 * (x.double().abs() @ weight.double().abs().t() / 2 + exact.abs() + 1)
        for width in range(1, 10):
            got, onto = product(x[:width]), product.onto(before[:width], x[:width])
            assert got.dtype == onto.dtype == torch.bfloat16
            assert bool(((got - exact[:width]).abs() <= allowed[:width]).all()), width
            off = (onto - before[:width].double() - exact[:width]).abs()
            assert bool((off <= allowed[:width] + 2**-8 * before[:width].abs()).all()), width


@pytest.mark.parametrize("bits", [4, 8])
def test_a_row_is_the_same_whatever_stands_beside_it(bits):
    torch.manual_seed(4)
    weight = torch.randn(64, 96).bfloat16()
    product = Quantized(weight, None, fitted(weight, bits))
    x = torch.randn(4, 96).bfloat16()
    together = product(x)
    for row in range(4):
        assert torch.equal(product(x[row : row + 1])[0], together[row])
