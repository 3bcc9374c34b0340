"""What a run is asked to do, checked once, before anything runs."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields, replace

from pld_core.cost import PassCost
from pld_core.tree import BRANCHES

POLICIES = ("recent", "oldest", "nearest", "vote", "longest")
SEARCHES = ("context", "prompt")


class SettingsError(ValueError):
    """A setting that cannot be meant; the message is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the target chooses a token from its logits; names and rules are transformers'.

    temperature 0 is greedy. top_k 0, top_p 1, min_p 0 leave everything in. The penalties and
    no_repeat_ngram (tokens, 0 for none) look at the context; presence_penalty and
    frequency_penalty, which transformers lacks, at the generated tokens alone and are
    subtracted as OpenAI defines them. banned: token sequences that never appear. forced_first,
    forced_last: ids of the first token and of the one at the length limit. One seed gives one
    text: the noise of a position depends on the seed and the position alone.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram: int = 0
    min_new_tokens: int = 0
    banned: tuple[tuple[int, ...], ...] = ()
    forced_first: int | None = None
    forced_last: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.temperature != 0:
            _number("temperature", self.temperature, 1e-9, 100, "0 (greedy) or ")
        _number("top_p", self.top_p, 1e-9, 1)
        _number("min_p", self.min_p, 0, 1)
        _number("repetition_penalty", self.repetition_penalty, 1e-3, 1e3)
        _number("presence_penalty", self.presence_penalty, -100, 100)
        _number("frequency_penalty", self.frequency_penalty, -100, 100)
        _whole("top_k", self.top_k, 0, 1_000_000)
        _whole("no_repeat_ngram", self.no_repeat_ngram, 0, 1_000)
        _whole("min_new_tokens", self.min_new_tokens, 0, 1_000_000)
        _whole("seed", self.seed, 0, 2**63 - 1)
        for token in (self.forced_first, self.forced_last):
            if token is not None:
                _whole("A forced token", token, 0, 2**31 - 1)
        if any(not sequence for sequence in self.banned):
            raise SettingsError("A banned sequence has at least one token.")
        for token in (token for sequence in self.banned for token in sequence):
            _whole("A banned token", token, 0, 2**31 - 1)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    @classmethod
    def from_json(cls, data: dict) -> Sampling:
        """Raises SettingsError for values that cannot be meant."""
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        banned = known.get("banned", [])
        if not isinstance(banned, (list, tuple)) or not all(
            isinstance(sequence, (list, tuple)) for sequence in banned
        ):
            raise SettingsError("The banned tokens of a run are a list of lists.")
        return cls(**{**known, "banned": tuple(tuple(sequence) for sequence in banned)})


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one lane.

    n_max, n_min: longest and shortest match, tokens. k: longest draft, tokens; 0 is plain
    decoding. policy: which of several equal matches is copied; "longest" takes matches of more
    than n_max tokens, too. search: where matches may stand. periodic: a match near the end of
    the context goes on into its own draft. max_new_tokens: at most this many tokens are
    generated. stop: strings that end the answer; the token that completes one is its last.
    fixed_width: strict mode, every pass runs exactly so many positions over a cache of fixed
    length, so that a position's numbers do not depend on the draft and half precision is exact
    too; 0 runs 1 + draft positions. adaptive: drafts are cut to the length that is expected to
    pay, by pass_seconds, pairs (width, seconds of a pass) as measured on the device, see
    PassCost; without them, and in strict mode, where every pass costs the same, drafts are
    whole. branches: up to so many continuations are drafted at once, as a tree whose first
    branch is the draft of a chain; 1 is a chain.
    """

    n_max: int = 3
    n_min: int = 1
    k: int = 31
    policy: str = "nearest"
    search: str = "context"
    periodic: bool = True
    max_new_tokens: int = 256
    stop: tuple[str, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    fixed_width: int = 0
    adaptive: bool = True
    pass_seconds: tuple[tuple[int, float], ...] = ()
    branches: int = 1

    def __post_init__(self) -> None:
        _whole("n_max", self.n_max, 1, 64)
        _whole("n_min", self.n_min, 1, 64)
        _whole("k", self.k, 0, 512)
        _whole("max_new_tokens", self.max_new_tokens, 1, 1_000_000)
        _whole("fixed_width", self.fixed_width, 0, 1024)
        _whole("branches", self.branches, 1, BRANCHES)
        if 0 < self.fixed_width <= self.k:
            raise SettingsError(
                f"A fixed width of {self.fixed_width} has no room for drafts of {self.k} tokens."
            )
        if self.n_min > self.n_max:
            raise SettingsError(f"n_min ({self.n_min}) is larger than n_max ({self.n_max}).")
        if type(self.adaptive) is not bool:
            raise SettingsError(f"adaptive is true or false, not {_shown(self.adaptive)}.")
        if self.pass_seconds:
            try:
                PassCost(self.pass_seconds)
            except (TypeError, ValueError):
                raise SettingsError("These are no costs of passes by their widths.") from None
        _one_of("policy", self.policy, POLICIES)
        _one_of("search", self.search, SEARCHES)
        if type(self.periodic) is not bool:
            raise SettingsError(f"periodic is true or false, not {_shown(self.periodic)}.")
        if any(not isinstance(stop, str) or not stop for stop in self.stop):
            raise SettingsError("A stop string is a text of at least one character.")

    def plain(self) -> Settings:
        """The same run without drafts."""
        return replace(self, k=0)

    def to_json(self) -> dict:
        """JSON values alone, so that it survives a file."""
        sampling = asdict(self.sampling)
        sampling["banned"] = [list(sequence) for sequence in self.sampling.banned]
        seconds = [list(pair) for pair in self.pass_seconds]
        listed = {"stop": list(self.stop), "pass_seconds": seconds, "sampling": sampling}
        return {**asdict(self), **listed}

    @classmethod
    def from_json(cls, data: dict) -> Settings:
        """Settings from a recorded start event; fields of other versions are ignored.

        Raises SettingsError for values that cannot be meant.
        """
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        if not isinstance(known.get("stop", []), (list, tuple)):
            raise SettingsError("The stop strings of a run are a list.")
        sampling = known.get("sampling", {})
        if not isinstance(sampling, dict):
            raise SettingsError("The sampling settings of a run are an object.")
        known["stop"] = tuple(known.get("stop", ()))
        seconds = known.get("pass_seconds", ())
        if not isinstance(seconds, (list, tuple)) or not all(
            isinstance(pair, (list, tuple)) for pair in seconds
        ):
            raise SettingsError("The pass costs of a run are a list of pairs.")
        known["pass_seconds"] = tuple(tuple(pair) for pair in seconds)
        return cls(**{**known, "sampling": Sampling.from_json(sampling)})


def _shown(value: object) -> str:
    """A value as a sentence can hold it, however long it is."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _whole(name: str, value: object, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise SettingsError(f"{name} is a whole number from {low} to {high:,}, not {_shown(value)}.")


def _one_of(name: str, value: object, options: tuple[str, ...]) -> None:
    if value not in options:
        raise SettingsError(f"The {name} is one of {', '.join(options)}, not {_shown(value)}.")


def _number(name: str, value: object, low: float, high: float, besides: str = "") -> None:
    number = type(value) in (int, float) and math.isfinite(value)
    if not number or not low <= value <= high:
        raise SettingsError(f"{name} is {besides}a number from {low:g} to {high:g}, not {_shown(value)}.")
