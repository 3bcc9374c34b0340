"""What can be timed: one engine answers one prompt, greedily, and says what that took."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Callable

from pld_core.prompting import decoder
from pld_core.rows import Row
from pld_core.settings import Settings
from pld_core.trace import lanes

if TYPE_CHECKING:
    from pld_core.models.model import Model

PLAIN = "ours-plain"
LOCAL = (PLAIN, "ours-pld", "ours-adaptive", "transformers-plain", "transformers-pld")
"""Engines that run in this process, by name; the first is what the others are compared with."""

PEER_DRAFT = 10
"""transformers' own default for prompt_lookup_num_tokens."""


class EngineError(Exception):
    """An engine that could not answer; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Run:
    """One answer. text is it without the token that ends it; ids are its tokens, where the engine
    gives them; passes the forward passes, the prompt's included. Seconds are wall seconds: up to
    the first token, and from there to the last; `at_first` tokens came together with the first.
    Whatever an engine does not say is null, and `unsaid` says why."""

    text: str
    ids: list[int] | None
    tokens: int | None
    passes: int | None
    prefill_seconds: float
    decode_seconds: float
    at_first: int | None = 1
    unsaid: str = ""

    def to_json(self) -> dict:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Engine:
    """A name, how it answers a row, and the facts on which its numbers rest. After an answer it
    may keep the machine busy for `rest` seconds more."""

    name: str
    run: Callable[[Row], Run]
    facts: dict[str, str] = field(default_factory=dict)
    rest: float = 0.0


def spoken(model: Model, ids: list[int]) -> str:
    """The answer's text, without the token that ends it."""
    ended = bool(ids) and ids[-1] in model.eos
    return decoder(model.tokenizer)(ids[:-1] if ended else ids)


def ours(name: str, model: Model, settings: Settings) -> Engine:
    """This package's decoder. Seconds are the decoder's own, around its passes."""

    def run(row: Row) -> Run:
        events = model.run(row.ask, replace(settings, stop=row.stop), plain=False)
        (trace,) = lanes(events).values()
        n = trace.numbers()
        text = spoken(model, trace.ids)
        return Run(text, trace.ids, n.tokens, n.passes, n.prefill_seconds, n.decode_seconds)

    shown = {key: str(getattr(settings, key)) for key in ("n_max", "n_min", "k", "policy")}
    return Engine(name, run, {} if settings.k == 0 else shown)


class _Arrivals:
    """A streamer for generate(): when tokens come, and how many with the first pass."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.counts: list[int] = []

    def put(self, tokens) -> None:
        self.times.append(perf_counter())
        self.counts.append(tokens.numel())

    def end(self) -> None:
        pass


def transformers(name: str, model: Model, max_new_tokens: int, draft: int = 0) -> Engine:
    """transformers' own generate() on an eager model; draft > 0 is its prompt_lookup_num_tokens.
    Seconds are taken around the whole call: its lookup is part of its time, as ours is of ours.
    Its first pass checks a draft together with the prompt."""
    import torch

    network = model.network
    lookup = {"prompt_lookup_num_tokens": draft} if draft else {}

    def run(row: Row) -> Run:
        prompt = model.start("prompt", row.ask, Settings()).prompt.ids
        stop = {"stop_strings": list(row.stop), "tokenizer": model.tokenizer} if row.stop else {}
        passes = 0
        forward = network.forward

        def counted(*args, **kwargs):
            nonlocal passes
            passes += 1
            return forward(*args, **kwargs)

        network.forward = counted
        arrivals = _Arrivals()
        try:
            began = perf_counter()
            out = network.generate(
                torch.tensor([prompt], device=network.device),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long, device=network.device),
                do_sample=False,
                max_new_tokens=max_new_tokens,
                pad_token_id=model.eos[0] if model.eos else 0,
                streamer=arrivals,
                **stop,
                **lookup,
            )[0].tolist()
            ended = perf_counter()
        finally:
            del network.forward
        ids = out[1:] if model.encoder_decoder else out[len(prompt) :]
        first = arrivals.times[1]  # the prompt came before it
        return Run(
            spoken(model, ids),
            ids,
            len(ids),
            passes,
            first - began,
            ended - first,
            arrivals.counts[1],
        )

    return Engine(name, run, {key: str(value) for key, value in lookup.items()})


def local(
    names: list[str], settings: Settings, model: Model, eager: Callable[[], Model]
) -> list[Engine]:
    """The engines of these names, in LOCAL's order. `eager` loads the model as transformers runs
    it, and is called only where one of them is transformers'."""
    made: list[Engine] = []
    plain = settings.plain()
    whole = replace(settings, adaptive=False)
    adaptive = replace(settings, adaptive=True)
    for name, own in zip(LOCAL, (plain, whole, adaptive)):
        if name in names:
            made.append(ours(name, model, own))
    if theirs := [name for name in LOCAL[3:] if name in names]:
        peer = eager()
        limit = settings.max_new_tokens
        for name in theirs:
            made.append(transformers(name, peer, limit, PEER_DRAFT if name.endswith("pld") else 0))
    return made
