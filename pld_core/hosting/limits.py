"""What one visitor may ask for: one record, two sets of defaults, one variable for each limit."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Mapping

from pld_core.serving import Request, RequestError

PREFIX = "PLD_MAX_"


class LimitError(ValueError):
    """A limit that cannot be meant; the message is one sentence for whoever hosts the page."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Every limit of a served page; the environment variable of each is PLD_MAX_ and its name,
    as in PLD_MAX_NEW_TOKENS=128. All are whole numbers from 1.

    new_tokens: of each lane. prompt_characters: of prompt, begun answer and system prompt
    together. reference_characters: of the reference text. upload_bytes: of one file. waiting:
    runs in line, the one that runs not counted; waiting_per_visitor: those of one open page or
    API client; waiting_per_address: those from one network address. run_seconds: wall time at
    the model, after which a run is ended.
    """

    new_tokens: int
    prompt_characters: int
    reference_characters: int
    upload_bytes: int
    waiting: int
    waiting_per_visitor: int
    waiting_per_address: int
    run_seconds: int

    def check(self, request: Request) -> None:
        """Raises RequestError for a run that is larger than allowed."""
        texts = (request.prompt, request.answer_prefix, request.system or "")
        _within("The prompt", sum(map(len, texts)), self.prompt_characters)
        _within("The reference text", len(request.reference), self.reference_characters)
        if isinstance(request.max_new_tokens, int) and request.max_new_tokens > self.new_tokens:
            raise RequestError(
                f"A run here gives at most {self.new_tokens:,} new tokens, "
                f"not {request.max_new_tokens:,}."
            )


LOCAL = Limits(
    new_tokens=1_000_000,
    prompt_characters=1_000_000,
    reference_characters=1_000_000,
    upload_bytes=200_000,
    waiting=32,
    waiting_per_visitor=32,
    waiting_per_address=32,
    run_seconds=86_400,
)
HOSTED = Limits(
    new_tokens=512,
    prompt_characters=100_000,
    reference_characters=100_000,
    upload_bytes=200_000,
    waiting=32,
    waiting_per_visitor=1,
    waiting_per_address=8,
    run_seconds=300,
)


def on_space(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this is a Hugging Face Space."""
    return "SPACE_ID" in environment


def hosted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether strangers visit: on a Space, and where PLD_HOSTED=1 says so."""
    return on_space(environment) or environment.get("PLD_HOSTED", "") not in ("", "0")


def limits(strangers: bool, environment: Mapping[str, str] = os.environ) -> Limits:
    """The defaults for strangers or for oneself, with what the environment says instead. Raises
    LimitError."""
    defaults = HOSTED if strangers else LOCAL
    return Limits(
        **{
            field.name: _read(environment, field.name, getattr(defaults, field.name))
            for field in fields(Limits)
        }
    )


def switched(
    variable: str, default: bool, environment: Mapping[str, str] = os.environ
) -> bool:
    """A variable that is 0 or 1. Raises LimitError."""
    text = environment.get(variable, "").strip()
    if text not in ("", "0", "1"):
        raise LimitError(f"{variable} is 0 or 1, not {text[:40]!r}.")
    return text == "1" if text else default


def _read(environment: Mapping[str, str], name: str, default: int) -> int:
    variable = PREFIX + name.upper()
    text = environment.get(variable, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 16 and int(text) > 0):
        raise LimitError(f"{variable} is a whole number from 1, not {text[:40]!r}.")
    return int(text)


def _within(what: str, length: int, limit: int) -> None:
    if length > limit:
        raise RequestError(f"{what} has {length:,} characters; at most {limit:,} are taken here.")
