"""What the forward pass for GPUs reaches on this GPU, beside transformers' on the same weights.

    python benchmarks/gpu.py                       Llama 3.1 8B's shape in bfloat16, under 8 minutes
    python benchmarks/gpu.py --shape tiny          the same on anything, in seconds
    python benchmarks/gpu.py --skip transformers --out here.json

No network is needed: the weights are random. Random weights do not copy, so for tokens per second
with drafts (parts "decode" and "transformers") the text is forced, on both engines alike: behind
position p the token that a script says is given the largest logit. The script copies spans of 24
tokens of its prompt and puts 4 new ones between them; every pass still reads all weights and chooses
among all logits. So these parts say what an engine does with a text that copies so much, and
nothing about how much real texts do.

Prints a table and writes every number as JSON, after each part.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Callable, Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pld_core.threads import settle

settle()  # before anything imports torch

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig, PreTrainedModel

from pld_core.decoder import decode
from pld_core.events import Pass, Prompt, Start
from pld_core.models.eager import EagerTarget
from pld_core.models.fused import FusedNetwork
from pld_core.models.graphed import GraphedNetwork
from pld_core.models.graphs import Graphs
from pld_core.sampling import Chooser
from pld_core.settings import Settings
from pld_core.text import Pieces
from pld_core.trace import Trace, lanes
from pld_core.width import drafter

WIDTHS = (1, 2, 4, 8, 16, 32, 64)
WINS = 1e4  # the logit of a scripted token
SPAN, NEW = 24, 4  # tokens of a copied span, and of what stands between two


@dataclass(frozen=True)
class Shape:
    """A Llama: its config, the contexts at which widths are timed, and the text that is decoded."""

    config: dict
    contexts: tuple[int, ...]
    prompt: int
    new_tokens: int
    rounds: int


SHAPES = {
    "llama-3.1-8b": Shape(
        dict(
            vocab_size=128_256, hidden_size=4096, intermediate_size=14_336, num_hidden_layers=32,
            num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=131_072,
            rope_parameters={"rope_type": "default", "rope_theta": 500_000.0}, rms_norm_eps=1e-5,
        ),
        (512, 4096, 16_384), 2048, 256, 20,
    ),
    "smollm2-135m": Shape(
        dict(
            vocab_size=49_152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
            num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192,
            tie_word_embeddings=True,
        ),
        (128, 512), 512, 64, 5,
    ),
    "tiny": Shape(
        dict(
            vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
            num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=4096,
        ),
        (32, 300), 200, 60, 3,
    ),
}  # fmt: skip


class Clock:
    """The time there is, and how much of it is left."""

    def __init__(self, seconds: float) -> None:
        self._began, self._seconds = perf_counter(), seconds

    @property
    def left(self) -> float:
        return self._seconds - (perf_counter() - self._began)


class ScriptedNetwork(GraphedNetwork):
    """A network that says, behind position p, token p + 1 of its script; without one, its own."""

    script: torch.Tensor | None = None

    def _logits(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        logits = super()._logits(x, positions)
        if self.script is None:
            return logits
        return logits.scatter(1, self.script[positions + 1][:, None], WINS)

    def follow(self, script: torch.Tensor | None) -> None:
        self.script = script
        self.graphs.forget()


def made(config: dict, dtype: torch.dtype, device: str, scale: float = 0.02) -> PreTrainedModel:
    """A Llama with random weights, made where it runs."""
    torch.manual_seed(0)
    none = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    with torch.device(device):
        network = AutoModelForCausalLM.from_config(
            LlamaConfig(**config, **none, initializer_range=scale), dtype=dtype
        )
    network.generation_config = GenerationConfig(pad_token_id=0)
    return network.eval()


def script_of(shape: Shape) -> list[int]:
    """A prompt of new tokens, then spans of it with new ones between them."""
    chance = random.Random(0)
    tokens = [chance.randrange(shape.config["vocab_size"]) for _ in range(shape.prompt)]
    while len(tokens) < shape.prompt + shape.new_tokens:
        begin = chance.randrange(shape.prompt - SPAN)
        tokens += tokens[begin : begin + SPAN]
        tokens += [chance.randrange(shape.config["vocab_size"]) for _ in range(NEW)]
    return tokens[: shape.prompt + shape.new_tokens]


# Measuring.


def spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values), "least": min(values), "most": max(values)}


def seconds_of(run: Callable[[], object], rounds: int, warm: int) -> list[float]:
    """Wall seconds of each round of `run`, which ends with its result on the host."""
    for _ in range(warm):
        run()
    taken = []
    for _ in range(rounds):
        began = perf_counter()
        run()
        taken.append(perf_counter() - began)
    return taken


def greedy(device: str, settings: Settings = Settings()) -> Chooser:
    return Chooser(settings, 1, [], torch.device(device))


def start_of(ids: Sequence[int], settings: Settings) -> Start:
    prompt = Prompt(list(ids), [""] * len(ids), len(ids))
    return Start("pld", "random", "", "", "", {}, settings.to_json(), prompt)


def lane(target, ids: Sequence[int], settings: Settings) -> Trace:
    """One lane of the decoder; a token's text is its id, so no tokenizer is at work."""
    text = Pieces(lambda ids: "".join(f" {id}" for id in ids), {})
    events = decode(start_of(ids, settings), target, drafter(settings), text, settings)
    (found,) = lanes(events).values()
    return found


# The parts. Each yields lines for the table and leaves its numbers in `found`.


def bandwidth(found: dict, device: str, rounds: int) -> Iterator[str]:
    """How fast memory is copied: bytes read and written per second."""
    size = 1 << 31 if device == "cuda" else 1 << 26
    source = torch.empty(size, dtype=torch.uint8, device=device).fill_(1)
    copy = torch.empty_like(source)

    def run() -> None:
        copy.copy_(source)
        if device == "cuda":
            torch.cuda.synchronize()

    rates = [2 * size / seconds for seconds in seconds_of(run, rounds, 3)]
    found["bytes_per_second"] = spread(rates)
    yield f"memory, copied               {median(rates) / 1e9:8.0f} GB/s read and written"


def exact(found: dict, device: str) -> Iterator[str]:
    """Graphed, without graphs, and transformers' own passes in float32 on a small shape."""
    shape = SHAPES["tiny"]
    ids = script_of(shape)[:150]
    settings = Settings(k=10, max_new_tokens=80)
    eager = made(shape.config, torch.float32, device, scale=0.3)
    plain = lane(EagerTarget(eager, greedy(device)), ids, settings.plain()).ids
    network = GraphedNetwork(FusedNetwork(made(shape.config, torch.float32, device, scale=0.3)))
    same = {}
    for name in ("first use", "captured", "without graphs"):
        if name == "without graphs":
            network.graphs = Graphs(None)
        for kind, own in (("plain", settings.plain()), ("PLD", settings)):
            target = network.target(greedy(device), len(ids) + 80)
            same[f"{kind}, {name}"] = lane(target, ids, own).ids == plain
    network.close()
    found["same_tokens"] = same
    yield f"float32, graphed as eager    {sum(same.values())} of {len(same)} runs of the same tokens"


def widths(found: dict, network, shape: Shape, device: str, clock: Clock) -> Iterator[str]:
    """A pass by its width and its context."""
    found["seconds"] = {}
    yield "ms a pass, of width        " + "".join(f"{width:>8}" for width in WIDTHS) + "   16 : 1"
    for context in shape.contexts:
        if clock.left < 20 and found["seconds"]:
            yield f"  context {context:>6}  no time left"
            continue
        times = found["seconds"][context] = {}
        target = network.target(greedy(device), context + WIDTHS[-1])
        chance = random.Random(context)
        target.prefill([chance.randrange(target.vocabulary) for _ in range(context)])
        for width in WIDTHS:
            tokens = [chance.randrange(target.vocabulary) for _ in range(width)]

            def run() -> None:
                target.forward(tokens).choices[0]
                target.commit(0)

            times[width] = spread(seconds_of(run, shape.rounds, 3))
        row = "".join(f"{times[width]['median'] * 1e3:8.2f}" for width in WIDTHS)
        ratio = times[16]["median"] / times[1]["median"]
        yield f"  context {context:>6}         {row}   {ratio:6.2f}"


def plain(found: dict, parts: dict, network, shape: Shape, weights: int) -> Iterator[str]:
    """A pass of one position against what memory could give. Without part "bandwidth" or "widths"
    there is nothing to compare."""
    if "bytes_per_second" not in parts["bandwidth"] or "seconds" not in parts["widths"]:
        return
    fused = network.fused
    context = shape.contexts[0]
    per_key = 2 * len(fused.layers) * fused.kv_heads * fused.head_size * fused.embedding.itemsize
    size = weights + per_key * context
    taken = parts["widths"]["seconds"][context][1]["median"]
    share = size / taken / parts["bandwidth"]["bytes_per_second"]["median"]
    found.update(bytes_per_pass=size, passes_per_second=1 / taken, share_of_bandwidth=share)
    yield f"plain, context {context:>6}        {1 / taken:8.1f} tokens/s, {share:.0%} of the memory's speed"


def graphs(found: dict, network, shape: Shape, device: str) -> Iterator[str]:
    """The same passes with graphs and without, by turns."""
    context = shape.contexts[0]
    own, without = network.graphs, Graphs(None)
    target = network.target(greedy(device), context + WIDTHS[-1])
    target.prefill([place % target.vocabulary for place in range(context)])
    for width in (1, 16):
        times: dict[str, list[float]] = {"graphs": [], "no graphs": []}
        for turn in range(2 + shape.rounds):
            for name, kept in (("graphs", own), ("no graphs", without)):
                network.graphs = kept
                tokens = [(7 * turn + place) % target.vocabulary for place in range(width)]
                began = perf_counter()
                target.forward(tokens).choices[0]
                if turn > 1:
                    times[name].append(perf_counter() - began)
                target.commit(0)
        network.graphs = own
        found[width] = {name: spread(taken) for name, taken in times.items()}
        with_, bare = (median(taken) * 1e3 for taken in times.values())
        captured = "" if own.captured else " (nothing is captured here)"
        yield f"width {width:>2}, graphs : none       {with_:8.2f} : {bare:.2f} ms{captured}"


def decoding(found: dict, network, shape: Shape, device: str, clock: Clock) -> Iterator[str]:
    """The decoder on the scripted text, plain and with drafts, by turns."""
    script = script_of(shape)
    padded = script + [0] * (4 * shape.new_tokens)
    network.follow(torch.tensor(padded, device=device))
    settings = Settings(n_max=3, k=10, max_new_tokens=shape.new_tokens)
    runs: dict[str, list[Trace]] = {"plain": [], "PLD": []}
    for turn in range(4):
        if turn > 1 and clock.left < 15:
            break
        for name, own in (("plain", settings.plain()), ("PLD", settings)):
            target = network.target(greedy(device), len(script))
            run = lane(target, script[: shape.prompt], own)
            assert run.ids == script[shape.prompt :], "the script was not followed"
            if turn:  # the first one captures
                runs[name].append(run)
    network.follow(None)
    for name, each in runs.items():
        passes = [step for run in each for step in run.passes]
        rates = [(shape.new_tokens - 1) / run.numbers().decode_seconds for run in each]
        found[name] = {
            "tokens_per_second": spread(rates),
            "tokens_per_pass": each[0].numbers().tokens_per_pass,
            "outside_forward": outside(passes),
        }
        yield (
            f"ours, {name:<5}                 {median(rates):8.1f} tokens/s, "
            f"{each[0].numbers().tokens_per_pass:.2f} a pass, "
            f"{outside(passes):.1%} outside the forward pass"
        )


def outside(passes: Sequence[Pass]) -> float:
    """The share of a pass's time that is not its forward pass's, events included."""
    seconds = [step.seconds for step in passes]
    whole = sum(each.total + each.record for each in seconds)
    return 1 - sum(each.forward for each in seconds) / whole


def peers(found: dict, network: PreTrainedModel, shape: Shape, device: str, clock: Clock):
    """transformers' own generate on the same weights and the same script."""
    script = script_of(shape)
    known = torch.tensor(script + [0] * 64, device=device)
    whole = network.forward
    calls = []

    def forced(*given, **named):
        out = whole(*given, **named)
        end = named["attention_mask"].shape[1]
        rows = torch.arange(out.logits.shape[1], device=device)
        after = known[end - len(rows) + 1 : end + 1]
        out.logits[0, rows, after] = WINS
        if not calls and device == "cuda":
            torch.cuda.synchronize()
        calls.append(perf_counter())
        return out

    prompt = torch.tensor([script[: shape.prompt]], device=device)
    network.forward = forced
    try:
        for name, options in (("plain", {}), ("PLD", {"prompt_lookup_num_tokens": 10})):
            rates = []
            for turn in range(3):
                if turn > 1 and clock.left < 30:
                    break
                calls.clear()
                out = network.generate(
                    prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
                    max_new_tokens=shape.new_tokens, **options,
                )  # fmt: skip
                got = out[0, shape.prompt :].tolist()
                assert got == script[shape.prompt :], "the script was not followed"
                if turn:
                    rates.append((len(got) - 1) / (perf_counter() - calls[0]))
            per_pass = shape.new_tokens / len(calls)
            found[name] = {"tokens_per_second": spread(rates), "tokens_per_pass": per_pass}
            yield f"transformers, {name:<5}         {median(rates):8.1f} tokens/s, {per_pass:.2f} a pass"
    finally:
        del network.forward


# The whole.

PARTS = ("bandwidth", "exact", "transformers", "widths", "plain", "graphs", "decode")


@torch.no_grad()
def main(arguments: Sequence[str] | None = None) -> dict:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="llama-3.1-8b")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"))
    parser.add_argument("--skip", nargs="*", choices=PARTS, default=[], metavar="PART",
                        help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--seconds", type=float, default=460, help="what does not fit is left out")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    options = parser.parse_args(arguments)
    device, shape, clock = options.device, SHAPES[options.shape], Clock(options.seconds)
    dtype = options.dtype or ("bfloat16" if device == "cuda" else "float32")
    found: dict = {
        "machine": machine(device),
        "shape": {"name": options.shape, "dtype": dtype, **shape.config},
        "forced_script": f"{SPAN} copied tokens, {NEW} new ones, and so on",
        "parts": {name: {} for name in PARTS},
    }
    parts = found["parts"]
    print("  ".join(f"{name} {value}" for name, value in found["machine"].items()))
    print(f"{options.shape}, {dtype}, random weights; drafts on a forced script, see --help")

    def take(name: str, needed: float, run: Callable[[dict], Iterator[str]]) -> None:
        if name in options.skip:
            return
        if clock.left < needed:
            parts[name]["left_out"] = "no time"
            print(f"{name}: left out, {clock.left:.0f} s are not enough")
            return
        print(f"... {name}, {clock.left:.0f} s left", file=sys.stderr, flush=True)
        for line in run(parts[name]):
            print(line, flush=True)
        options.out.write_text(json.dumps(found, indent=1), encoding="utf-8")

    take("bandwidth", 0, lambda own: bandwidth(own, device, shape.rounds))
    take("exact", 0, lambda own: exact(own, device))
    small = options.shape == "tiny"
    network = made(shape.config, getattr(torch, dtype), device)
    weights = bytes_read(network)
    take("transformers", 0 if small else 60, lambda own: peers(own, network, shape, device, clock))
    ours = ScriptedNetwork(FusedNetwork(network))
    del network
    take("widths", 0 if small else 40, lambda own: widths(own, ours, shape, device, clock))
    take("plain", 0, lambda own: plain(own, parts, ours, shape, weights))
    take("graphs", 0 if small else 10, lambda own: graphs(own, ours, shape, device))
    take("decode", 0 if small else 20, lambda own: decoding(own, ours, shape, device, clock))
    if device == "cuda":
        found["peak_bytes"] = torch.cuda.max_memory_allocated()
    found["seconds"] = options.seconds - clock.left
    options.out.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(f"{found['seconds']:.0f} s; written to {options.out}")
    return found


def bytes_read(network: PreTrainedModel) -> int:
    """The bytes of all weights that a pass of one position reads."""
    tied = network.config.tie_word_embeddings
    embedding = 0 if tied else network.get_input_embeddings().weight.nbytes
    return sum(weights.nbytes for weights in network.parameters()) - embedding


def machine(device: str) -> dict[str, str]:
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or "CPU"
    return {
        "device": name,
        "driver": driver() if device == "cuda" else "none",
        "CUDA": str(torch.version.cuda),
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def driver() -> str:
    try:
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


if __name__ == "__main__":
    main()
