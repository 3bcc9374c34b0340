"""The forward pass for a GPU: every pass is one of a few fixed shapes over a cache that stays
where it is, so that it can be captured once and replayed."""

from __future__ import annotations

import weakref
from contextlib import contextmanager
from itertools import count
from typing import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right
from transformers import PreTrainedModel

from pld_core import tree
from pld_core.models.fused import FusedNetwork, attention, can_fuse
from pld_core.models.graphs import CudaRecorder, Graphs, Recorder
from pld_core.models.sequence import SequenceTarget
from pld_core.models.trees import tree_mask
from pld_core.sampling import MARGIN_LIMIT, Chooser, ChosenScores

WIDEST = 96  # positions of the widest bucket that there is room for at first: a tree's, its root's
SHORTEST = 256  # keys of the shortest length class
AHEAD = 4096  # positions that a lane has room for behind its prompt at first


def can_graph(network: PreTrainedModel) -> bool:
    """Whether this engine runs the model: one that can be fused, and whose positions turn by
    the same angles however long the context is."""
    rope = getattr(network.config, "rope_parameters", None) or {}
    return can_fuse(network) and rope.get("rope_type") != "dynamic"


def bucket(width: int) -> int:
    """The width that a pass of `width` positions really runs: 1, 2, 4, 8, 16, 32, 64, 96, ..."""
    return 1 << (width - 1).bit_length() if width <= 64 else -(-width // 32) * 32


def length_class(positions: int, shortest: int = SHORTEST) -> int:
    """How many keys attention reads to see so many positions: shortest times 1, 1.25, 1.5, 1.75,
    2, 2.5, ... So it follows the context in use, and reads at most a quarter more."""
    sizes = (shortest * part << doublings >> 2 for doublings in count() for part in (4, 5, 6, 7))
    return next(size for size in sizes if size >= positions)


class Seat:
    """Where one lane sits: a cache [layers, 2, kv_heads, positions, head_size] that stays where
    it is (keys, then values), and the angles of its positions."""

    def __init__(self, network: FusedNetwork, positions: int) -> None:
        on_cpu = network.device.type == "cpu"
        shape = (len(network.layers), 2, network.kv_heads, positions, network.head_size)
        dtype = torch.float32 if on_cpu else network.embedding.dtype  # see FusedCache
        self.positions = positions
        self.cache = torch.zeros(shape, dtype=dtype, device=network.device)
        cos, sin = network.rotation(torch.arange(positions, device=network.device))
        # rows (cos, sin), (sin, cos) of signs such that a position turns by two kernels:
        # a product with its matrix [2, 2, half] and a sum
        half = network.head_size // 2
        cos, sin = (x.view(positions, 1, 2, half) for x in (cos, sin))
        first = torch.stack((cos[:, :, 0], sin[:, :, 0]), 2)
        second = torch.stack((sin[:, :, 1], cos[:, :, 1]), 2)
        self.turns = torch.stack((first, second), 2)


class _Buffers:
    """The tensors through which passes of at most `width` positions get what is new and give
    back what came of it; all lanes share them, as one pass runs at a time.

    inputs [1 + width]: the position of the pass's first token, and its tokens. depth [width]:
    how far behind that position each token stands; sees [width, width]: what is added to the
    scores between the tokens of a pass; a chain's, but for the time of a tree's pass. logits
    [width, V]. report [width, 3]: choice, probability, margin. The host's sides are pinned where
    that means something.
    """

    def __init__(self, width: int, vocabulary: int, device: torch.device) -> None:
        def host(*shape: int, dtype: torch.dtype) -> torch.Tensor:
            return torch.zeros(*shape, dtype=dtype, pin_memory=device.type == "cuda")

        self.width = width
        self.ramp = torch.arange(width, device=device)
        self.depth = self.ramp.clone()
        self.chain = _causal(width, device)
        self.sees = self.chain.clone()
        self.inputs = torch.zeros(1 + width, dtype=torch.int64, device=device)
        self.logits = torch.zeros(width, vocabulary, device=device)
        self.report = torch.zeros(width, 3, device=device)
        self.host_inputs = host(1 + width, dtype=torch.int64)
        self.host_report = host(width, 3, dtype=torch.float32)


class GraphedNetwork:
    """A fused network whose passes are captured and replayed, one graph per lane's cache, bucket
    and length class. Between passes a lane's state is a number: how many positions it holds.

    Lanes take turns; each sits on a seat of its own, which keeps its graphs and goes back to be
    used again when its target is gone. A seat costs its cache: 128 kB a position for the shape of
    Llama 3.1 8B in half precision, 2.1 GB at 16,384. The graphs share one memory pool of the size
    that the largest of them needs. `close` gives all of it back.

    shortest: the keys of the shortest length class. recorder: what captures; CUDA graphs on a
    CUDA device, otherwise nothing does.
    """

    def __init__(
        self, fused: FusedNetwork, shortest: int = SHORTEST, recorder: Recorder | None = None
    ) -> None:
        self.fused = fused
        self.config = fused.config
        self.device = fused.device
        self._cuda = fused.device.type == "cuda"
        self._shortest = shortest
        if recorder is None and self._cuda:
            recorder = CudaRecorder(fused.device)
        self._stream = recorder.stream if recorder is not None else None
        self.graphs = Graphs(recorder)
        self.arrived: torch.cuda.Event | None = None  # the last pass's report is on the host
        self._free: list[Seat] = []
        self.buffers = self._made(WIDEST)

    def _made(self, width: int) -> _Buffers:
        return _Buffers(width, self.config.vocab_size, self.device)

    def close(self) -> None:
        """Gives back the graphs and the seats that no lane uses."""
        self.graphs.forget()
        self._free.clear()
        if self._cuda:
            torch.cuda.empty_cache()

    def target(self, chooser: Chooser, positions: int, fixed_width: int = 0) -> GraphedTarget:
        """See GraphedTarget."""
        return GraphedTarget(self, chooser, positions, fixed_width)

    def keys_for(self, positions: int) -> int:
        """The length class of so many positions."""
        return length_class(positions, self._shortest)

    # Seats.

    def take(self, positions: int) -> Seat:
        """A seat with an empty cache for so many positions and the widest pass behind them."""
        wanted = self.keys_for(positions + self.buffers.width)
        for seat in sorted(self._free, key=lambda seat: seat.positions):
            if seat.positions >= wanted:
                self._free.remove(seat)
                # also numbers that are none, which no mask would hide
                seat.cache.zero_()
                return seat
        for seat in self._free:  # too short for the lanes there are now
            self._drop(seat)
        self._free.clear()
        return Seat(self.fused, wanted)

    def give_back(self, seat: Seat) -> None:
        self._free.append(seat)

    def larger(self, seat: Seat, positions: int) -> Seat:
        """A seat for more positions with what `seat` holds, which is gone."""
        grown = Seat(self.fused, self.keys_for(max(positions, 2 * seat.positions)))
        grown.cache[:, :, :, : seat.positions] = seat.cache
        self._drop(seat)
        return grown

    def widen(self, width: int) -> None:
        """Makes room for passes of `width` positions."""
        if width > self.buffers.width:
            self.graphs.forget()
            self.buffers = self._made(bucket(width))

    def _drop(self, seat: Seat) -> None:
        self.graphs.forget(lambda key: key[0] is seat)

    # Passes.

    @torch.inference_mode()
    def read(self, seat: Seat, start: int, ids: Sequence[int]) -> torch.Tensor:
        """Reads a part of a prompt at position `start`. Returns the last one's logits [1, V].
        Parts are of any length, so nothing of this is captured."""
        end = start + len(ids)
        tokens = torch.tensor(ids, device=self.device)
        slots = torch.arange(start, end, device=self.device)
        with self._on_stream(), _exact_float32():
            if self._cuda and seat.cache.dtype != torch.float32:
                mix = self._mix_by_flash(start, end)
            else:
                sees = _causal(len(ids), self.device)
                mix = self._mix(slots[:1], slots, sees, self.keys_for(end))
            x = self._hidden(seat, tokens, slots, slots, mix)
            return self._logits(x[-1:], slots[-1:])

    @torch.inference_mode()
    def step(
        self,
        seat: Seat,
        start: int,
        tokens: Sequence[int],
        width: int,
        keys: int,
        parents: Sequence[int] = (),
    ) -> None:
        """Starts a pass of `width` positions over `tokens` [<= width] at position `start`, with
        attention over `keys` of them; its results come into the buffers. Padding repeats the
        last token, stands behind the real ones and is seen by none of them."""
        buffers = self.buffers
        if self.arrived is not None:
            self.arrived.synchronize()  # else the host's side may still be on its way
        padding = [tokens[-1]] * (width - len(tokens))
        buffers.host_inputs[: 1 + width] = torch.tensor([start, *tokens, *padding])
        with self._on_stream(), _exact_float32():
            buffers.inputs.copy_(buffers.host_inputs, non_blocking=True)
            if parents:
                depths = torch.tensor([0, *tree.depths(parents)], device=self.device)
                buffers.depth[: len(depths)] = depths
                sees = tree_mask(parents, 0, torch.float32, self.device)
                buffers.sees[: len(sees), : len(sees)] = sees
            self.graphs.run((seat, width, keys), lambda: self._pass(seat, width, keys))
            if parents:
                buffers.depth.copy_(buffers.ramp)
                buffers.sees.copy_(buffers.chain)
            buffers.host_report.copy_(buffers.report, non_blocking=True)
            self.arrived = None if self._stream is None else self._stream.record_event()

    @torch.inference_mode()
    def move(self, seat: Seat, start: int, rows: Sequence[int]) -> None:
        """The positions start + rows, rising, come to stand from `start` on."""
        with self._on_stream():
            places = torch.tensor(rows, device=self.device) + start
            kept = seat.cache.index_select(3, places)
            seat.cache[:, :, :, start : start + len(rows)] = kept

    def _pass(self, seat: Seat, width: int, keys: int) -> None:
        """What is captured: reads and writes the buffers and the seat alone."""
        buffers = self.buffers
        start, tokens = buffers.inputs[:1], buffers.inputs[1 : 1 + width]
        slots = start + buffers.ramp
        # what wider passes left behind this one's end may be no numbers, which would show through
        # a mask; further away nothing was ever written
        seat.cache.index_fill_(3, slots[width:], 0)
        sees = buffers.sees[:width, :width]
        mix = self._mix(start, slots[:width], sees, keys)
        positions = start + buffers.depth[:width]
        x = self._hidden(seat, tokens, positions, slots[:width], mix)
        logits = self._logits(x, positions)
        buffers.logits[:width] = logits
        buffers.report[:width] = _report(logits)

    def _logits(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """[W, V] of what the last layer gave [W, hidden] at positions [W]."""
        return self.fused.logits(x).float()

    def _hidden(self, seat, tokens, positions, slots, mix) -> torch.Tensor:
        """The layers over tokens [W] at positions [W], whose keys and values go to slots [W]."""
        fused, half = self.fused, self.fused.head_size // 2
        turns = seat.turns[positions]

        def attend(place: int, qkv: torch.Tensor) -> torch.Tensor:
            width, cache = len(qkv), seat.cache[place]
            qk = qkv[:, : fused.heads + fused.kv_heads].unflatten(2, (2, half))
            torch.sum(qk.unsqueeze(2) * turns, 3, out=qk)
            kv = qkv[:, fused.heads :].view(width, 2, fused.kv_heads, -1).permute(1, 2, 0, 3)
            cache.index_copy_(2, slots, kv.to(cache.dtype))
            return mix(qkv[:, : fused.heads], cache[0], cache[1])

        return fused.hidden(fused.embedding[tokens], attend)

    def _mix(self, start, slots, sees, keys: int):
        """Attention over the first `keys` positions of a cache: all of those before start [1],
        and of those from slots [W] what `sees` [W, W] lets through."""
        mask = torch.zeros(len(slots), keys, device=self.device)
        mask.masked_fill_(torch.arange(keys, device=self.device) >= start, float("-inf"))
        mask = self.fused.for_groups(mask.index_copy_(1, slots, sees))
        return lambda q, k, v: attention(q, k[:, :keys], v[:, :keys], mask, True)

    def _mix_by_flash(self, begin: int, end: int):
        """Attention of the last positions of `end`, from `begin` on; for prompts, which are long
        and not captured."""
        mask = causal_lower_right(end - begin, end)

        def mix(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            q, k, v = q.transpose(0, 1)[None], k[None, :, :end], v[None, :, :end]
            mixed = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
            return mixed[0].transpose(0, 1).reshape(end - begin, -1)

        return mix

    @contextmanager
    def _on_stream(self) -> Iterator[None]:
        """On a GPU all of it runs on one side stream, as a warm-up must, between what the caller
        asked for before and what comes after."""
        if self._stream is None:
            yield
            return
        outside = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(outside)
        with torch.cuda.stream(self._stream):
            yield
        outside.wait_stream(self._stream)


class GraphedScores(ChosenScores):
    """The tokens of the largest logits, which may still be on their way from the device: reading
    them waits. They are to be read, and `logits` and `favourites` hold, before the next pass of
    any lane.

    logits [W, V]; report [W, 3] on the host, see _Buffers, there when `arrived` is.
    """

    def __init__(
        self,
        logits: torch.Tensor,
        width: int,
        report: torch.Tensor,
        arrived: torch.cuda.Event | None,
    ) -> None:
        self.logits = self._processed = logits
        self.width = width
        self._report = report
        self._arrived = arrived
        self._read_rows: list[list[float]] | None = None

    @property
    def late(self) -> bool:
        return self._arrived is not None

    @property
    def choices(self) -> list[int]:
        return [int(choice) for choice, _, _ in self._read()]

    def kept(self, rows: int) -> tuple[list[float], list[float]]:
        read = self._read()[:rows]
        return [chance for _, chance, _ in read], [margin for _, _, margin in read]

    def along(self, rows: Sequence[int]) -> GraphedScores:
        part = GraphedScores(self.logits, self.width, self._report, self._arrived)
        part._read_rows = [self._read()[row] for row in rows]
        part._processed = [self.logits[row] for row in rows]
        return part

    def _read(self) -> list[list[float]]:
        if self._read_rows is None:
            if self._arrived is not None:
                self._arrived.synchronize()
            self._read_rows = self._report.tolist()
        return self._read_rows


class GraphedTarget(SequenceTarget):
    """A graphed network with the cache of one sequence; see Target.

    positions: how many the lane may need; its seat grows to hold them. fixed_width:
    strict mode, see StaticTarget. Nothing is allocated before the prompt is read, so that a device
    without room says so in the run that found it full.
    """

    def __init__(
        self, network: GraphedNetwork, chooser: Chooser, positions: int, fixed_width: int = 0
    ) -> None:
        super().__init__(network.config, chooser)
        self._network = network
        self._fixed_width = fixed_width
        self._positions = min(positions, self.room)
        self._seat: Seat | None = None
        self._release = None

    @property
    def trees(self) -> bool:
        return self._fixed_width == 0

    def read(self, ids: Sequence[int]) -> Iterator[int]:
        if self._seat is None:
            self._network.widen(self._fixed_width)
            # few answers are as long as they may be; strict mode reads them all
            positions = self._positions if self._fixed_width else len(ids) + AHEAD
            self._sit(self._network.take(max(len(ids), min(positions, self._positions))))
        yield from super().read(ids)

    def forward(self, tokens: Sequence[int], parents: Sequence[int] = ()) -> ChosenScores:
        network, start = self._network, len(self._ids)
        width = self._fixed_width or bucket(len(tokens))
        network.widen(width)
        if start + network.buffers.width > self._seat.positions:
            self._sit(network.larger(self._seat, start + network.buffers.width))
        # in strict mode every pass of a lane, and of the lane beside it, reads as many keys
        positions = max(start, self._positions) if self._fixed_width else start
        keys = network.keys_for(positions + width)
        network.step(self._seat, start, tokens, width, keys, parents)
        self._width = len(tokens)
        self._ids.extend(tokens)
        logits = network.buffers.logits[: len(tokens)]
        if self._chooser.takes_the_largest:
            report = network.buffers.host_report[: len(tokens)]
            return GraphedScores(logits, width, report, network.arrived)
        scores = self._chooser.scores(logits, self._ids, parents)
        scores.width = width
        return scores

    def _read(self, ids: Sequence[int]) -> torch.Tensor:
        logits = self._network.read(self._seat, len(self._ids), ids)
        self._ids.extend(ids)
        return logits

    def _move(self, begin: int, rows: Sequence[int]) -> None:
        self._network.move(self._seat, begin, rows)

    def _sit(self, seat: Seat) -> None:
        if self._release is not None:
            self._release.detach()
        self._seat = seat
        self._release = weakref.finalize(self, self._network.give_back, seat)
        self._release.atexit = False


def _causal(width: int, device: torch.device) -> torch.Tensor:
    return torch.full((width, width), float("-inf"), device=device).triu_(1)


def _report(logits: torch.Tensor) -> torch.Tensor:
    """[W, 3] of logits [W, V]: see _Buffers, and ChosenScores for what the numbers mean."""
    choice = logits.argmax(-1, keepdim=True)
    best = logits.gather(1, choice)
    second = logits.scatter(1, choice, float("-inf")).amax(-1, keepdim=True)
    chance = logits.softmax(-1).gather(1, choice)
    margin = (best - second).clamp(max=MARGIN_LIMIT)
    return torch.cat((choice.float(), chance, margin), 1).nan_to_num(0.0)


@contextmanager
def _exact_float32() -> Iterator[None]:
    """float32 products in float32, whatever the program around this asked for (TF32 is a tenth
    of its precision); its choice stands again afterwards."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
