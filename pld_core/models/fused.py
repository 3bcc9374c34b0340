"""A lean forward pass for the Llama family: fused and packed projections over a cache that
is written in place. The weights are transformers', the passes are ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

import torch
import torch.nn.functional as F
from transformers import PreTrainedModel

from pld_core import tree
from pld_core.models.sequence import SequenceTarget, context_limit
from pld_core.models.trees import tree_mask
from pld_core.sampling import ChosenScores, Chooser

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
_SCORES = 1 << 26  # attention scores that are held at once


def can_fuse(network: PreTrainedModel) -> bool:
    """Whether this is a model of the family, with every layer reading the whole context."""
    config = network.config
    return (
        config.model_type in FAMILIES
        and config.hidden_act == "silu"
        and not any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ())
        and (config.model_type != "mistral" or config.sliding_window is None)
        and (getattr(config, "rope_parameters", None) or {}).get("rope_type") != "longrope"
        and getattr(network, "hf_quantizer", None) is None
        and network.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and len({parameter.device for parameter in network.parameters()}) == 1
    )


class Linear:
    """x [W, in] -> [W, out]; one product for all the modules it is made of, whose weights it
    takes over and, on a CPU, packs."""

    def __init__(self, *modules: torch.nn.Linear) -> None:
        weights = [module.weight.detach() for module in modules]
        self._weight = torch.cat(weights) if len(weights) > 1 else weights[0]
        biases = [module.bias.detach() for module in modules if module.bias is not None]
        self._bias = torch.cat(biases) if biases else None
        for module in modules:
            module.weight = torch.nn.Parameter(self._weight.new_empty(0), requires_grad=False)
        self._packed = self._weight.device.type == "cpu" and _packs(self._weight.dtype)
        if self._packed:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(self._weight, 1)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self._packed:
            product = torch.ops.mkldnn._linear_pointwise.default
            return product(x, self._weight, self._bias, "none", [], "")
        return F.linear(x, self._weight, self._bias)

    def onto(self, sum_: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """sum_ + self(x), rounded once where weights are packed; on a GPU in place. Neither costs
        an operation of its own."""
        if self._packed:
            product = torch.ops.mkldnn._linear_pointwise.binary
            return product(x, sum_, self._weight, self._bias, "add")
        if self._weight.device.type == "cpu":
            return sum_ + self(x)
        if self._bias is not None:
            sum_.add_(self._bias)
        return sum_.addmm_(x, self._weight.t())


class Norm:
    """x [..., size] over the root mean square of its last dimension, times weight [..., size].

    On a CPU in as few operations as there are, each of which costs more than its arithmetic: with
    the factor sqrt(size) in the weight, the divisor is the hypotenuse of x's length and
    sqrt(size * eps). In half precision only the result is rounded.
    """

    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        self._eps = eps
        self._on_cpu = weight.device.type == "cpu"
        size = weight.shape[-1]
        self._weight = weight.float() * size**0.5 if self._on_cpu else weight
        self._least = torch.tensor((size * eps) ** 0.5)

    def __call__(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        if not self._on_cpu:
            if out is None:
                return F.rms_norm(x, x.shape[-1:], self._weight, self._eps)
            return torch.mul(F.rms_norm(x, x.shape[-1:], None, self._eps), self._weight, out=out)
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        out = torch.empty_like(x) if out is None else out
        return torch.mul(x / length.hypot_(self._least), self._weight, out=out)


@dataclass(frozen=True, slots=True)
class _Layer:
    before_attention: Norm
    qkv: Linear
    qk_norm: Norm | None  # of [W, heads + kv_heads, head_size]
    out: Linear
    before_mlp: Norm
    gate_up: Linear
    down: Linear


class FusedNetwork:
    """The weights of a network, fused: q, k and v are one product, gate and up another. On a
    CPU every matrix is packed once into oneDNN's own layout, which at 11 rows is worth a factor
    of two to three in float32 and makes further rows cheap.

    Takes the projections' weights over: the network they came from can no longer run.
    """

    def __init__(self, network: PreTrainedModel) -> None:
        config = network.config
        self.config = config
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self.head_size: int = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        self.embedding = network.model.embed_tokens.weight.detach()
        self.norm = Norm(network.model.norm.weight.detach(), config.rms_norm_eps)
        self.layers = [
            _fuse(layer, self.heads, self.kv_heads, config.rms_norm_eps)
            for layer in network.model.layers
        ]
        self.head = Linear(network.lm_head)
        self._rotary = network.model.rotary_emb
        self._last = (context_limit(config) or 2**31) - 1

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    @torch.inference_mode()
    def forward(
        self,
        tokens: Sequence[int],
        cache: FusedCache,
        last_only: bool,
        parents: Sequence[int] = (),
    ) -> torch.Tensor:
        """Reads tokens [W] at the cache's end and appends them to it, as a tree where there are
        parents [W - 1], see Target. Returns logits [W, V], or [1, V] of the last one."""
        begin, end = cache.length, cache.length + len(tokens)
        cache.reserve(end)
        x = self.embedding[torch.tensor(tokens, device=self.device)]
        span = cache.span(end)
        if parents:
            positions = torch.tensor([0, *tree.depths(parents)], device=self.device) + begin
            mask = tree_mask(parents, begin, torch.float32, self.device)
        else:
            positions = torch.arange(begin, end, device=self.device)
            mask = _causal(begin, span, len(tokens), cache.layers[0][0])
        cos, sin = self.rotation(positions)
        if mask is not None:
            mask = self.for_groups(mask)

        def attend(place: int, qkv: torch.Tensor) -> torch.Tensor:
            keys, values = cache.layers[place]
            qk, v = qkv.split((self.heads + self.kv_heads, self.kv_heads), 1)
            qk = torch.addcmul(qk * cos, qk.roll(self.head_size // 2, -1), sin)
            keys[:, begin:end] = qk[:, self.heads :].transpose(0, 1)
            values[:, begin:end] = v.transpose(0, 1)
            return self.mix(qk[:, : self.heads], keys[:, :span], values[:, :span], mask)

        x = self.hidden(x, attend)
        cache.length = end
        return self.logits(x[-1:] if last_only else x)

    def hidden(self, x: torch.Tensor, attend: Attend) -> torch.Tensor:
        """Every layer over x [W, hidden], which may be overwritten."""
        both = self.heads + self.kv_heads
        for place, layer in enumerate(self.layers):
            qkv = layer.qkv(layer.before_attention(x)).view(len(x), -1, self.head_size)
            if layer.qk_norm is not None:
                layer.qk_norm(qk := qkv[:, :both], out=qk)
            x = layer.out.onto(x, attend(place, qkv))
            gate, up = layer.gate_up(layer.before_mlp(x)).chunk(2, -1)
            x = layer.down.onto(x, F.silu(gate) * up)
        return x

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """[W, V] of what the last layer gave [W, hidden]."""
        return self.head(self.norm(x))

    def mix(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """Attention of q [W, heads, size] over keys and values [kv_heads, N, size]: [W, -1].
        mask [W * group, N], see for_groups, is added to the scores. In half precision scores
        and softmax are float32 all the same."""
        width, group = len(q), self.heads // self.kv_heads
        block = max(1, _SCORES // (self.heads * keys.shape[1]))
        if mask is not None and width > block:
            parts = zip(q.split(block), mask.split(block * group))
            return torch.cat([self.mix(rows, keys, values, part) for rows, part in parts])
        # the heads of a group share their keys, so they are rows of one product
        rows = q.unflatten(1, (self.kv_heads, group)).transpose(0, 1)
        rows = rows.reshape(self.kv_heads, width * group, self.head_size).to(keys.dtype)
        if mask is None:
            mixed = F.scaled_dot_product_attention(rows[None], keys[None], values[None])
        else:
            scores = _scores(mask[None], rows, keys.transpose(1, 2), self.head_size**-0.5)
            mixed = torch.bmm(scores.softmax(-1).to(values.dtype), values)
        mixed = mixed.view(self.kv_heads, width, group * self.head_size).transpose(0, 1)
        return mixed.reshape(width, -1).to(q.dtype)

    def for_groups(self, mask: torch.Tensor) -> torch.Tensor:
        """A mask [W, N] for the rows of `mix` [W * group, N]."""
        group = self.heads // self.kv_heads
        return mask[:, None].expand(-1, group, -1).flatten(0, 1)

    def rotation(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin [W, 1, head_size] by which queries and keys at positions [W] turn."""
        # padding may lie beyond the model's positions, where "dynamic" angles change for all
        positions = positions.clamp(max=self._last)
        # transformers' own rotary embedding, so every kind of frequency scaling is its kind
        like = self.embedding[:1][None]
        cos, sin = self._rotary(like, positions[None])
        sin = sin.clone()
        sin[..., : self.head_size // 2] *= -1  # so that rotating is a roll
        return cos[0, :, None], sin[0, :, None]

    def target(self, chooser: Chooser, positions: int, fixed_width: int = 0) -> FusedTarget:
        """See FusedTarget."""
        return FusedTarget(self, chooser, positions, fixed_width)


Attend = Callable[[int, torch.Tensor], torch.Tensor]
"""(layer, queries, keys and values [W, heads + 2 * kv_heads, size], not yet turned) -> what
attention gives [W, heads * size]; writes the cache."""


class FusedCache:
    """Keys and values [kv_heads, L, head_size] of every layer, written in place; rollback is
    lowering `length`. fixed: attention spans so many positions whatever is in use (strict
    mode); 0 spans what is in use. On a CPU always float32: attention is faster in it."""

    def __init__(self, network: FusedNetwork, positions: int, fixed: int = 0) -> None:
        self.length = 0
        self.fixed = fixed
        dtype = torch.float32 if network.device.type == "cpu" else network.embedding.dtype
        shape = (network.kv_heads, max(positions, fixed, 1), network.head_size)
        self.layers = [
            tuple(torch.zeros(shape, dtype=dtype, device=network.device) for _ in range(2))
            for _ in network.layers
        ]

    def span(self, end: int) -> int:
        return self.fixed or end

    @torch.inference_mode()
    def move(self, begin: int, rows: Sequence[int]) -> None:
        """Puts the positions begin + rows, rising, at `begin` and behind."""
        places = torch.tensor(rows, device=self.layers[0][0].device) + begin
        for layer in self.layers:
            for tensor in layer:
                tensor[:, begin : begin + len(rows)] = tensor[:, places]

    def reserve(self, positions: int) -> None:
        """Room for so many positions; grows by doubling, so that it costs O(1) a token."""
        if positions <= (room := self.layers[0][0].shape[1]):
            return
        more = max(positions, 2 * room) - room
        self.layers = [
            tuple(F.pad(tensor, (0, 0, 0, more)) for tensor in layer) for layer in self.layers
        ]


class FusedTarget(SequenceTarget):
    """A fused network with the cache of one sequence; see Target.

    positions: how many the lane is expected to need. fixed_width: strict mode, see
    StaticTarget; the last one never reads padding beyond the model's positions as anything but
    padding.
    """

    def __init__(
        self, network: FusedNetwork, chooser: Chooser, positions: int, fixed_width: int = 0
    ) -> None:
        super().__init__(network.config, chooser)
        positions = min(positions, self.room)
        self._network = network
        self._fixed_width = fixed_width
        fixed = positions + fixed_width if fixed_width else 0
        self._cache = FusedCache(network, positions, fixed)

    @property
    def trees(self) -> bool:
        return self._fixed_width == 0

    def forward(self, tokens: Sequence[int], parents: Sequence[int] = ()) -> ChosenScores:
        padding = [tokens[-1]] * (self._fixed_width - len(tokens))
        logits = self._network.forward([*tokens, *padding], self._cache, False, parents)
        self._width = len(tokens)
        self._ids.extend(tokens)
        self._cache.length = len(self._ids)
        scores = self._chooser.scores(logits[: len(tokens)], self._ids, parents)
        scores.width = len(logits)
        return scores

    def _read(self, ids: Sequence[int]) -> torch.Tensor:
        logits = self._network.forward(ids, self._cache, last_only=True)
        self._ids.extend(ids)
        return logits

    def _move(self, begin: int, rows: Sequence[int]) -> None:
        self._cache.move(begin, rows)

    def _forget(self, count: int) -> None:
        super()._forget(count)
        self._cache.length = len(self._ids)


def _fuse(layer, heads: int, kv_heads: int, eps: float) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    qk_norm = None
    if hasattr(attention, "q_norm"):
        norms = (attention.q_norm.weight, heads), (attention.k_norm.weight, kv_heads)
        weights = torch.cat([weight.detach().expand(count, -1) for weight, count in norms])
        qk_norm = Norm(weights, eps)
    return _Layer(
        Norm(layer.input_layernorm.weight.detach(), eps),
        Linear(attention.q_proj, attention.k_proj, attention.v_proj),
        qk_norm,
        Linear(attention.o_proj),
        Norm(layer.post_attention_layernorm.weight.detach(), eps),
        Linear(mlp.gate_proj, mlp.up_proj),
        Linear(mlp.down_proj),
    )


def _packs(dtype: torch.dtype) -> bool:
    """Whether oneDNN can multiply by packed weights of this type here, found by trying."""
    try:
        eye = torch.eye(2, dtype=dtype)
        packed = torch.ops.mkldnn._reorder_linear_weight(eye, 1)
        got = torch.ops.mkldnn._linear_pointwise(eye, packed, None, "none", [], "")
        return bool(torch.equal(got, eye))
    except (AttributeError, RuntimeError):
        return False


def _scores(mask, rows, keys, scale: float) -> torch.Tensor:
    if rows.dtype == torch.float32:
        return torch.baddbmm(mask, rows, keys, alpha=scale)
    if rows.is_cuda:
        scores = torch.bmm(rows, keys, out_dtype=torch.float32)
    else:  # no device but CUDA has that product, nor has a CUDA that ZeroGPU only imitates
        scores = torch.bmm(rows.float(), keys.float())
    return torch.add(mask, scores, alpha=scale)


def _causal(begin: int, span: int, width: int, like: torch.Tensor) -> torch.Tensor | None:
    """[W, span] added to the attention's scores; on a CPU None for a single position that sees
    all."""
    if width == 1 and span == begin + 1 and like.device.type == "cpu":
        return None
    mask = torch.full((width, span), float("-inf"), device=like.device)
    return mask.triu_(begin + 1)
