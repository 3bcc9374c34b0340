"""A lean forward pass for the Llama family: fused projections over a cache that is written in
place. The weights are transformers', the passes are ours."""

from __future__ import annotations

import logging
import warnings
from typing import Callable, Sequence

import torch
import torch.nn.functional as F
from transformers import PreTrainedModel

from pld_core import tree
from pld_core.models.products import linear
from pld_core.models.sequence import SequenceTarget, context_limit
from pld_core.models.trees import tree_mask
from pld_core.sampling import ChosenScores, Chooser

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
log = logging.getLogger(__name__)


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


class Norm(torch.nn.Module):
    """x [..., size] over the root mean square of its last dimension, times weight [..., size].

    On a CPU in as few operations as there are, each of which costs more than its arithmetic: with
    the factor sqrt(size) in the weight, the divisor is the hypotenuse of x's length and
    sqrt(size * eps). In half precision only the result is rounded.
    """

    __constants__ = ["on_cpu", "eps"]

    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.on_cpu = weight.device.type == "cpu"
        size = weight.shape[-1]
        self.weight = weight.float() * size**0.5 if self.on_cpu else weight
        self.least = torch.tensor((size * eps) ** 0.5)

    def forward(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        if self.on_cpu:
            length = torch.linalg.vector_norm(x, dim=[-1], keepdim=True, dtype=torch.float32)
            out = torch.empty_like(x) if out is None else out
            return torch.mul(x / length.hypot_(self.least), self.weight, out=out)
        if out is None:
            return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)
        return torch.mul(F.rms_norm(x, x.shape[-1:], None, self.eps), self.weight, out=out)


class Layer(torch.nn.Module):
    """A layer but for its attention, which stands between the two halves."""

    __constants__ = ["turned", "head_size"]

    def __init__(self, layer, heads: int, kv_heads: int, head_size: int, eps: float) -> None:
        super().__init__()
        attention, mlp = layer.self_attn, layer.mlp
        self.turned = heads + kv_heads
        self.head_size = head_size
        self.before_attention = Norm(layer.input_layernorm.weight.detach(), eps)
        self.qkv = linear(attention.q_proj, attention.k_proj, attention.v_proj)
        self.qk_norm = None
        if hasattr(attention, "q_norm"):
            norms = (attention.q_norm.weight, heads), (attention.k_norm.weight, kv_heads)
            weights = torch.cat([weight.detach().expand(count, -1) for weight, count in norms])
            self.qk_norm = Norm(weights, eps)
        self.out = linear(attention.o_proj)
        self.before_mlp = Norm(layer.post_attention_layernorm.weight.detach(), eps)
        self.gate_up = linear(mlp.gate_proj, mlp.up_proj)
        self.down = linear(mlp.down_proj)

    @torch.jit.export
    def project(self, x: torch.Tensor) -> torch.Tensor:
        """Queries, keys and values [W, heads + 2 * kv_heads, size], not yet turned."""
        qkv = self.qkv(self.before_attention(x)).view(len(x), -1, self.head_size)
        if self.qk_norm is not None:
            qk = qkv.narrow(1, 0, self.turned)
            self.qk_norm(qk, out=qk)
        return qkv

    def forward(self, x: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """x [W, hidden], which may be overwritten, and what attention gives [W, heads * size]."""
        x = self.out.onto(x, mixed)
        gate_up = self.gate_up(self.before_mlp(x))
        half = gate_up.shape[1] // 2
        return self.down.onto(x, F.silu(gate_up.narrow(1, 0, half)) * gate_up.narrow(1, half, half))


class Layers(torch.nn.Module):
    """Every layer, reading a cache that grows.

    On a CPU this is run by TorchScript: the same operations to the bit, which Python would take
    a seventh of a pass of one position to call. Parts of tensors are taken by `narrow`, because
    slices and chunks are several calls each.
    """

    __constants__ = ["heads", "kv_heads"]

    def __init__(self, layers: Sequence[Layer], heads: int, kv_heads: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)
        self.heads = heads
        self.kv_heads = kv_heads

    def forward(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        cache: list[torch.Tensor],
        begin: int,
        span: int,
        mask: torch.Tensor | None,
        alike: bool,
    ) -> torch.Tensor:
        """x [W, hidden] at positions from `begin`, whose keys and values it writes; attention
        reads the cache's first `span`, see FusedCache. cos and sin: see FusedNetwork.rotation;
        mask and alike: see attention."""
        for place, layer in enumerate(self.layers):
            qkv = layer.project(x)
            qk = qkv.narrow(1, 0, self.heads + self.kv_heads)
            torch.addcmul(qk * cos, qk.roll(qk.shape[2] // 2, -1), sin, out=qk)
            new = qkv.narrow(1, self.heads, 2 * self.kv_heads).transpose(0, 1)
            cache[place].narrow(1, begin, len(x)).copy_(new)
            seen = cache[place].narrow(1, 0, span)
            keys = seen.narrow(0, 0, self.kv_heads)
            values = seen.narrow(0, self.kv_heads, self.kv_heads)
            x = layer(x, attention(qkv.narrow(1, 0, self.heads), keys, values, mask, alike))
        return x


class FusedNetwork:
    """The weights of a network, fused: q, k and v are one product, gate and up another.

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
            Layer(layer, self.heads, self.kv_heads, self.head_size, config.rms_norm_eps)
            for layer in network.model.layers
        ]
        self.head = linear(network.lm_head)
        self._rotary = network.model.rotary_emb
        self._last = (context_limit(config) or 2**31) - 1
        self._run_layers = Layers(self.layers, self.heads, self.kv_heads)
        if self.device.type == "cpu":
            self._run_layers = _scripted(self._run_layers)

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
            mask = _causal(begin, span, len(tokens), self.device)
        cos, sin = self.rotation(positions)
        if mask is not None:
            mask = self.for_groups(mask)
        alike = cache.fixed > 0 or self.device.type != "cpu"
        x = self._run_layers(x, cos, sin, cache.layers, begin, span, mask, alike)
        cache.length = end
        return self.logits(x[-1:] if last_only else x)

    def hidden(self, x: torch.Tensor, attend: Attend) -> torch.Tensor:
        """Every layer over x [W, hidden], which may be overwritten."""
        for place, layer in enumerate(self.layers):
            x = layer(x, attend(place, layer.project(x)))
        return x

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """[W, V] of what the last layer gave [W, hidden]."""
        return self.head(self.norm(x))

    def for_groups(self, mask: torch.Tensor) -> torch.Tensor:
        """A mask [W, N] for the rows of `attention` [W * group, N]."""
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
"""(place of a layer, what it projects to, see Layer) -> what attention gives [W, heads * size];
writes the cache."""


def attention(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    alike: bool,
    most: int = 1 << 26,
) -> torch.Tensor:
    """Attention of q [W, heads, size] over keys and values [kv_heads, N, size]: [W, -1]. mask
    [W * group, N], see FusedNetwork.for_groups, is added to the scores. In half precision scores
    and softmax are float32 all the same.

    alike: all rows are rounded alike and at most so many scores are held at once. Otherwise it is
    torch's own attention, for keys and values in float32. On a CPU that is the quicker one, but
    it takes rows by blocks and rounds one or two that are left over in another way.
    """
    width, heads, size = q.shape
    kv_heads = len(keys)
    group = heads // kv_heads
    # the heads of a group share their keys, so they are rows of one product
    rows = q.view(width, kv_heads, group, size).transpose(0, 1)
    rows = rows.reshape(kv_heads, width * group, size).to(keys.dtype)
    if mask is None or not alike:
        mixed = F.scaled_dot_product_attention(rows[None], keys[None], values[None], mask)
    else:
        block = max(1, most // (kv_heads * keys.shape[1]))
        parts = zip(rows.split(block, 1), mask.split(block))
        mixed = _joined([_mixed(part, keys, values, hidden) for part, hidden in parts])
    mixed = mixed.view(kv_heads, width, group * size).transpose(0, 1)
    return mixed.reshape(width, -1).to(q.dtype)


def _mixed(
    rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    scores = _scores(mask[None], rows, keys.transpose(1, 2), rows.shape[2] ** -0.5)
    return torch.bmm(scores.softmax(-1).to(values.dtype), values)


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


class FusedCache:
    """Keys and values of every layer, [2 * kv_heads, L, head_size], written in place; rollback is
    lowering `length`. fixed: attention spans so many positions whatever is in use (strict
    mode); 0 spans what is in use. On a CPU always float32: attention is faster in it."""

    def __init__(self, network: FusedNetwork, positions: int, fixed: int = 0) -> None:
        self.length = 0
        self.fixed = fixed
        dtype = torch.float32 if network.device.type == "cpu" else network.embedding.dtype
        shape = (2 * network.kv_heads, max(positions, fixed, 1), network.head_size)
        self.layers = [
            torch.zeros(shape, dtype=dtype, device=network.device) for _ in network.layers
        ]

    def span(self, end: int) -> int:
        return self.fixed or end

    @torch.inference_mode()
    def move(self, begin: int, rows: Sequence[int]) -> None:
        """Puts the positions begin + rows, rising, at `begin` and behind."""
        places = torch.tensor(rows, device=self.layers[0].device) + begin
        for layer in self.layers:
            layer[:, begin : begin + len(rows)] = layer[:, places]

    def reserve(self, positions: int) -> None:
        """Room for so many positions; grows by doubling, so that it costs O(1) a token."""
        if positions > (room := self.layers[0].shape[1]):
            more = max(positions, 2 * room) - room
            self.layers = [F.pad(layer, (0, 0, 0, more)) for layer in self.layers]


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


def _scripted(layers: Layers) -> torch.nn.Module:
    """The same by TorchScript; as it is where a torch no longer has that."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return torch.jit.script(layers)
    except (AttributeError, RuntimeError) as error:
        log.warning("Passes are run by Python, and slower: TorchScript failed (%s).", error)
        return layers


def _scores(
    mask: torch.Tensor, rows: torch.Tensor, keys: torch.Tensor, scale: float
) -> torch.Tensor:
    if rows.dtype == torch.float32:
        return torch.baddbmm(mask, rows, keys, alpha=scale)
    if rows.is_cuda:
        scores = torch.bmm(rows, keys, out_dtype=torch.float32)
    else:  # no device but CUDA has that product, nor has a CUDA that ZeroGPU only imitates
        scores = torch.bmm(rows.float(), keys.float())
    return torch.add(mask, scores, alpha=scale)


def _causal(begin: int, span: int, width: int, device: torch.device) -> torch.Tensor | None:
    """[W, span] added to the attention's scores; on a CPU None for a single position that sees
    all."""
    if width == 1 and span == begin + 1 and device.type == "cpu":
        return None
    mask = torch.full((width, span), float("-inf"), device=device)
    return mask.triu_(begin + 1)
