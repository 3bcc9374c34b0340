"""A lean forward pass for the Llama family: fused and packed projections over a cache that
is written in place. The weights are transformers', the passes are ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

import torch
import torch.nn.functional as F
from transformers import PreTrainedModel

from pld_core import tree
from pld_core.models.eager import context_limit
from pld_core.models.trees import tree_mask
from pld_core.sampling import ChosenScores, Chooser

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
PREFILL_CHUNK = 512  # positions; bounds the memory of a long prompt's attention

Linear = Callable[[torch.Tensor], torch.Tensor]


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


@dataclass(frozen=True, slots=True)
class _Layer:
    before_attention: torch.Tensor
    qkv: Linear
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    out: Linear
    before_mlp: torch.Tensor
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
        self.eps: float = config.rms_norm_eps
        self.embedding = network.model.embed_tokens.weight.detach()
        self.norm = network.model.norm.weight.detach()
        self.layers = [_fuse(layer) for layer in network.model.layers]
        self.head = _linear(network.lm_head)
        self._rotary = network.model.rotary_emb

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
            mask = tree_mask(parents, begin, cache.layers[0][0].dtype, self.device)
        else:
            positions = torch.arange(begin, end, device=self.device)
            mask = _causal(begin, span, len(tokens), cache.layers[0][0])
        cos, sin = self._rotation(positions, x)
        for layer, (keys, values) in zip(self.layers, cache.layers):
            h = F.rms_norm(x, x.shape[1:], layer.before_attention, self.eps)
            x = x + self._attend(layer, h, cos, sin, mask, keys, values, begin, end, span)
            h = F.rms_norm(x, x.shape[1:], layer.before_mlp, self.eps)
            gate, up = layer.gate_up(h).chunk(2, -1)
            x = x + layer.down(F.silu(gate) * up)
        cache.length = end
        if last_only:
            x = x[-1:]
        return self.head(F.rms_norm(x, x.shape[1:], self.norm, self.eps))

    def _attend(self, layer, h, cos, sin, mask, keys, values, begin, end, span) -> torch.Tensor:
        width, heads, kv_heads = len(h), self.heads, self.kv_heads
        qk, v = layer.qkv(h).view(width, -1, self.head_size).split((heads + kv_heads, kv_heads), 1)
        if layer.q_norm is not None:
            q, k = qk.split((heads, kv_heads), 1)
            q = F.rms_norm(q, q.shape[2:], layer.q_norm, self.eps)
            k = F.rms_norm(k, k.shape[2:], layer.k_norm, self.eps)
            qk = torch.cat((q, k), 1)
        qk = torch.addcmul(qk * cos, qk.roll(self.head_size // 2, -1), sin)
        keys[:, begin:end] = qk[:, heads:].transpose(0, 1)
        values[:, begin:end] = v.transpose(0, 1)
        return layer.out(self._mix(qk[:, :heads], keys[:, :span], values[:, :span], mask))

    def _mix(self, q, keys, values, mask) -> torch.Tensor:
        """Attention of q [W, heads, size] over keys and values [kv_heads, N, size]: [W, -1]."""
        width = len(q)
        if q.device.type != "cpu":
            mixed = F.scaled_dot_product_attention(
                q.transpose(0, 1)[None], keys[None], values[None], mask, enable_gqa=True
            )
            return mixed[0].transpose(0, 1).reshape(width, -1)
        # the heads of a group share their keys, so they are rows of one product
        group = self.heads // self.kv_heads
        rows = q.view(width, self.kv_heads, group, self.head_size).permute(1, 2, 0, 3)
        rows = rows.reshape(self.kv_heads, group * width, self.head_size).to(keys.dtype)
        scale = self.head_size**-0.5
        if mask is None:
            scores = torch.bmm(rows * scale, keys.transpose(1, 2))
        else:
            mask = mask.repeat(group, 1)[None]
            scores = torch.baddbmm(mask, rows, keys.transpose(1, 2), alpha=scale)
        mixed = torch.bmm(scores.softmax(-1), values)
        mixed = mixed.view(self.kv_heads, group, width, self.head_size).permute(2, 0, 1, 3)
        return mixed.reshape(width, -1).to(q.dtype)

    def _rotation(
        self, positions: torch.Tensor, x: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # transformers' own rotary embedding, so every kind of frequency scaling is its kind
        cos, sin = self._rotary(x[None], positions[None])
        sin = sin.clone()
        sin[..., : self.head_size // 2] *= -1  # so that rotating is a roll
        return cos[0, :, None], sin[0, :, None]


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
        if list(rows) == list(range(len(rows))):
            return
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


class FusedTarget:
    """A fused network with the cache of one sequence; see Target.

    positions: how many the lane is expected to need. fixed_width: strict mode, see
    StaticTarget; the last one never reads padding beyond the model's positions as anything but
    padding.
    """

    def __init__(
        self, network: FusedNetwork, chooser: Chooser, positions: int, fixed_width: int = 0
    ) -> None:
        self.vocabulary: int = network.config.vocab_size
        self.context_limit = context_limit(network.config)
        if self.context_limit is not None:
            positions = min(positions, self.context_limit)
        self._network = network
        self._chooser = chooser
        self._fixed_width = fixed_width
        fixed = positions + fixed_width if fixed_width else 0
        self._cache = FusedCache(network, positions, fixed)
        self._ids: list[int] = []
        self._width = 0

    @property
    def room(self) -> int:
        limit = self.context_limit
        return 2**31 if limit is None else limit - len(self._ids)

    can_roll_back = True

    def prefill(self, ids: Sequence[int]) -> ChosenScores:
        for start in range(0, len(ids), PREFILL_CHUNK):
            logits = self._network.forward(
                ids[start : start + PREFILL_CHUNK], self._cache, last_only=True
            )
        self._ids = list(ids)
        return self._chooser.scores(logits, self._ids)

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

    def commit(self, positions: int, rows: Sequence[int] = ()) -> None:
        begin = len(self._ids) - self._width
        kept = [0, *rows[: positions - 1]] if rows else range(positions)
        self._cache.move(begin, kept)
        self._ids[begin:] = [self._ids[begin + row] for row in kept]
        self._cache.length = len(self._ids)


def _fuse(layer) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    return _Layer(
        layer.input_layernorm.weight.detach(),
        _linear(attention.q_proj, attention.k_proj, attention.v_proj),
        attention.q_norm.weight.detach() if hasattr(attention, "q_norm") else None,
        attention.k_norm.weight.detach() if hasattr(attention, "k_norm") else None,
        _linear(attention.o_proj),
        layer.post_attention_layernorm.weight.detach(),
        _linear(mlp.gate_proj, mlp.up_proj),
        _linear(mlp.down_proj),
    )


def _linear(*modules: torch.nn.Linear) -> Linear:
    """One product for all of them, with weights taken over and, on a CPU, packed."""
    weight = torch.cat([module.weight.detach() for module in modules])
    biases = [module.bias.detach() for module in modules if module.bias is not None]
    bias = torch.cat(biases) if biases else None
    for module in modules:
        module.weight = torch.nn.Parameter(weight.new_empty(0), requires_grad=False)
    if weight.device.type == "cpu" and _packs(weight.dtype):
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, 1)
        return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    return lambda x: F.linear(x, weight, bias)


def _packs(dtype: torch.dtype) -> bool:
    """Whether oneDNN can multiply by packed weights of this type here, found by trying."""
    try:
        eye = torch.eye(2, dtype=dtype)
        packed = torch.ops.mkldnn._reorder_linear_weight(eye, 1)
        got = torch.ops.mkldnn._linear_pointwise(eye, packed, None, "none", [], "")
        return bool(torch.equal(got, eye))
    except (AttributeError, RuntimeError):
        return False


def _causal(begin: int, span: int, width: int, like: torch.Tensor) -> torch.Tensor | None:
    """[W, span] added to the attention's scores; None for a single position that sees all."""
    if width == 1 and span == begin + 1:
        return None
    mask = torch.full((width, span), float("-inf"), dtype=like.dtype, device=like.device)
    return mask.triu_(begin + 1)
