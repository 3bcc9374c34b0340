"""How a matrix of weights is kept and multiplied by, as fast as the device and the type allow."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from pld_core.models.quantization import GROUP, Grid, joined


def linear(*modules: torch.nn.Linear) -> torch.nn.Module:
    """x [W, in] -> [W, out]; one product for all the modules, whose weights it takes over.

    `onto(sum_, x)` is sum_ + self(x), in one operation where there is one, on a GPU in place.
    """
    weights = [module.weight.detach() for module in modules]
    weight = torch.cat(weights) if len(weights) > 1 else weights[0]
    biases = [module.bias.detach() for module in modules if module.bias is not None]
    bias = torch.cat(biases) if biases else None
    grids = [module.__dict__.pop("grid") for module in modules if hasattr(module, "grid")]
    for module in modules:
        module.weight = torch.nn.Parameter(weight.new_empty(0), requires_grad=False)
    if weight.device.type != "cpu":
        return Dense(weight, bias)
    if grids:
        return Quantized(weight, bias, joined(grids))
    if weight.dtype == torch.float32 and (exponent := _halving(weight)) is not None:
        return Halved(weight, bias, exponent)
    return Packed(weight, bias) if _packs(weight.dtype) else Dense(weight, bias)


class Dense(torch.nn.Module):
    """The weights as they are."""

    __constants__ = ["in_place"]

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.weight = weight
        self.bias = bias
        self.in_place = weight.device.type != "cpu"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)

    @torch.jit.export
    def onto(self, sum_: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        if not self.in_place:
            return sum_ + self(x)
        if self.bias is not None:
            sum_.add_(self.bias)
        return sum_.addmm_(x, self.weight.t())


class Packed(torch.nn.Module):
    """In oneDNN's own layout, which at 11 rows is worth a factor of two to three in float32 and
    makes further rows cheap. What `onto` gives is rounded once."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, 1)
        self.bias = bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        none = torch.jit.annotate(list[int | float | complex | None], [])
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", none, "")

    @torch.jit.export
    def onto(self, sum_: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, sum_, self.weight, self.bias, "add")


class Halved(torch.nn.Module):
    """float32 weights kept in float16, times a power of two, where that changes none of them: as
    with every model that was published in half precision. FBGEMM widens them on the way into
    the arithmetic, which is float32's; half the bytes are read.

    exponent: see _halving.
    """

    __constants__ = ["scale"]

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, exponent: int) -> None:
        super().__init__()
        larger = 2.0**exponent
        self.scale = 1 / larger
        bias = None if bias is None else bias * larger
        self.weights = torch.ops.quantized.linear_prepack_fp16(weight * larger, bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.ops.quantized.linear_dynamic_fp16(x, self.weights)
        return y if self.scale == 1.0 else y.mul_(self.scale)

    @torch.jit.export
    def onto(self, sum_: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = torch.ops.quantized.linear_dynamic_fp16(x, self.weights)
        return torch.add(sum_, y, alpha=self.scale)


class Quantized(torch.nn.Module):
    """bfloat16 weights of 16 or 256 levels. Few rows are multiplied by the integers, for which a
    fourth or half of the bytes are read, more rows by the weights they stand for: what is gained
    at one row would be lost at 16, and a draft's rows would no longer be nearly free.

    torch's products with integers take their rows by fours, so that the fifth is dear.
    """

    __constants__ = ["bits", "few", "group"]

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, grid: Grid) -> None:
        super().__init__()
        self.bits = grid.bits
        self.few = 4
        self.group = GROUP
        self.bias = bias
        self.many = Packed(weight, bias)
        if self.bits == 4:
            pack = torch.ops.aten._convert_weight_to_int4pack_for_cpu
            self.integers = pack(grid.integers.int(), 1)
            self.scales = grid.scales.transpose(0, 1).contiguous()
        else:
            self.integers = grid.integers
            self.scales = grid.scales

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.many(x) if len(x) > self.few else self._by_integers(x)

    @torch.jit.export
    def onto(self, sum_: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self.many.onto(sum_, x) if len(x) > self.few else sum_ + self._by_integers(x)

    def _by_integers(self, x: torch.Tensor) -> torch.Tensor:
        if self.bits == 4:
            y = torch.ops.aten._weight_int4pack_mm_for_cpu(x, self.integers, self.group, self.scales)
        else:
            y = torch.ops.aten._weight_int8pack_mm(x, self.integers, self.scales)
        return y if self.bias is None else y.add_(self.bias)


def _halving(weight: torch.Tensor) -> int | None:
    """The exponent of the power of two times which float16 holds every weight exactly; None
    where there is none, or where FBGEMM does not run."""
    largest = float(weight.abs().max())
    if not math.isfinite(largest) or not _halves():
        return None
    most = 15 - math.frexp(largest)[1]  # below 2**15
    for exponent in sorted({0, most}):
        larger = weight * 2.0**exponent
        if torch.equal(larger.half().float(), larger):
            return exponent
    return None


def _halves() -> bool:
    """Whether FBGEMM can multiply by float16 weights here, found by trying."""
    try:
        eye = torch.eye(2)
        packed = torch.ops.quantized.linear_prepack_fp16(eye, None)
        return bool(torch.equal(torch.ops.quantized.linear_dynamic_fp16(eye, packed), eye))
    except (AttributeError, RuntimeError):
        return False


def _packs(dtype: torch.dtype) -> bool:
    """Whether oneDNN can multiply by packed weights of this type here, found by trying."""
    try:
        eye = torch.eye(2, dtype=dtype)
        packed = torch.ops.mkldnn._reorder_linear_weight(eye, 1)
        got = torch.ops.mkldnn._linear_pointwise(eye, packed, None, "none", [], "")
        return bool(torch.equal(got, eye))
    except (AttributeError, RuntimeError):
        return False
