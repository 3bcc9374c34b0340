"""What a run is asked to do, checked once, before anything runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace

from pld_core.lookup import POLICIES, SEARCHES


class SettingsError(ValueError):
    """A setting that cannot be meant; the message is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one lane.

    n_max, n_min: longest and shortest match, tokens. k: longest draft, tokens; 0 is plain
    decoding. policy: which of several equal matches is copied. search: where matches may
    stand. periodic: a match near the end of the context goes on into its own draft.
    max_new_tokens: at most this many tokens are generated. stop: strings that end the answer;
    the token that completes one is its last.
    """

    n_max: int = 3
    n_min: int = 1
    k: int = 10
    policy: str = "recent"
    search: str = "context"
    periodic: bool = True
    max_new_tokens: int = 256
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, low, high in (
            ("n_max", 1, 64),
            ("n_min", 1, 64),
            ("k", 0, 512),
            ("max_new_tokens", 1, 1_000_000),
        ):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise SettingsError(
                    f"{name} is a whole number from {low} to {high:,}, not {value!r}."
                )
        if self.n_min > self.n_max:
            raise SettingsError(f"n_min ({self.n_min}) is larger than n_max ({self.n_max}).")
        if self.policy not in POLICIES:
            raise SettingsError(f"The policy is one of {', '.join(POLICIES)}, not {self.policy!r}.")
        if self.search not in SEARCHES:
            raise SettingsError(f"The search is one of {', '.join(SEARCHES)}, not {self.search!r}.")
        if any(not isinstance(stop, str) or not stop for stop in self.stop):
            raise SettingsError("A stop string is a text of at least one character.")

    def plain(self) -> Settings:
        """The same run without drafts."""
        return replace(self, k=0)

    def to_json(self) -> dict:
        return {**asdict(self), "stop": list(self.stop)}

    @classmethod
    def from_json(cls, data: dict) -> Settings:
        """Settings from a recorded start event; fields of other versions are ignored.

        Raises SettingsError for values that cannot be meant.
        """
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        if not isinstance(known.get("stop", []), (list, tuple)):
            raise SettingsError("The stop strings of a run are a list.")
        known["stop"] = tuple(known.get("stop", ()))
        return cls(**known)
