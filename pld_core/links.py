"""A link to an example, a pass and settings; texts of one's own only when asked for.

The query string holds `example`, `pass` and the settings by the short names of FIELDS. Texts
stand in the hash, deflated and in base64url: a browser sends the hash to nobody.
"""

from __future__ import annotations

import json
import math
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Mapping
from urllib.parse import parse_qs, urlencode

from pld_core.lookup import POLICIES
from pld_core.tree import BRANCHES

LONGEST_HASH = 100_000  # characters
LONGEST_TEXT = 1_000_000  # bytes, when inflated
TEXTS = ("prompt", "answer_prefix", "system", "reference")


class LinkError(ValueError):
    """A link that cannot be made or read; the message is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Field:
    """A setting of a run as a form and a link hold it: its name there, its range, its default;
    `choices` instead of a range for a text, neither for a yes or no."""

    name: str
    default: int | float | bool | str
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()

    def read(self, text: str) -> int | float | bool | str:
        """Raises LinkError."""
        kind = type(self.default)
        if kind is str:
            if text in self.choices:
                return text
            raise LinkError(f"one of {', '.join(self.choices)}")
        if kind is bool:
            if text in ("0", "1"):
                return text == "1"
            raise LinkError("0 or 1")
        try:
            value = kind(text) if len(text) <= 30 else math.nan
        except ValueError:
            value = math.nan
        if not self.low <= value <= self.high:
            noun = "a whole number" if kind is int else "a number"
            raise LinkError(f"{noun} from {self.low:,g} to {self.high:,.15g}")
        return value

    def write(self, value: int | float | bool | str) -> str:
        if type(self.default) is str:
            return str(value)
        if type(self.default) is float:
            return f"{float(value):.6g}"
        return str(int(value))


_POLICIES = tuple(POLICIES)
FIELDS = {
    "n": Field("n_max", 3, 1, 16),
    "n_min": Field("n_min", 1, 1, 16),
    "k": Field("k", 31, 1, 64),
    "branches": Field("branches", 1, 1, BRANCHES),
    "policy": Field("policy", "nearest", choices=_POLICIES),
    "max": Field("max_new_tokens", 256, 1, 2048),
    "chat": Field("chat", True),
    "plain": Field("plain", True),
    "adaptive": Field("adaptive", True),
    "strict": Field("strict", False),
    "temperature": Field("temperature", 0.0, 0, 2),
    "top_k": Field("top_k", 0, 0, 1000),
    "top_p": Field("top_p", 1.0, 0.01, 1),
    "seed": Field("seed", 0, 0, 2**31 - 1),
    "b": Field("rival", False),
    "b_n": Field("rival_n_max", 5, 1, 16),
    "b_n_min": Field("rival_n_min", 1, 1, 16),
    "b_k": Field("rival_k", 5, 1, 64),
    "b_branches": Field("rival_branches", 1, 1, BRANCHES),
    "b_policy": Field("rival_policy", "recent", choices=_POLICIES),
    "b_adaptive": Field("rival_adaptive", True),
}
NAMES = tuple(field.name for field in FIELDS.values())
RANGES = {field.name: field for field in FIELDS.values()}
FORM = (*TEXTS, *NAMES)
"""What is asked of a visitor, in the order in which it is handed on."""


@dataclass(frozen=True, slots=True)
class Link:
    """What a link asks for; `settings` by the names of FIELDS, only those it holds. problems:
    one sentence for each part that could not be read and was left out."""

    example: str | None = None
    settings: dict[str, int | float | bool | str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def write(
    base: str,
    settings: Mapping[str, int | float | bool | str],
    example: str | None = None,
    pass_: int | None = None,
    texts: Mapping[str, str] | None = None,
) -> str:
    """The link: n and k always, other settings where they are not the default, and the texts
    only where they are given. Raises LinkError for texts that no link should hold."""
    query = {"example": example} if example else {}
    rival = settings.get("rival", False)
    for short, known in FIELDS.items():
        if known.name not in settings or (short.startswith("b_") and not rival):
            continue
        value = settings[known.name]
        if short in ("n", "k") or short.startswith("b_") or value != known.default:
            query[short] = known.write(value)
    if pass_ is not None:
        query["pass"] = str(pass_)
    return f"{base}?{urlencode(query)}" + (f"#{_packed(texts)}" if texts else "")


def read(search: str, hash_: str = "") -> Link:
    """The link's query string and hash, each with or without its first sign. Never raises: what
    cannot be read is left out and told in `problems`."""
    problems: list[str] = []
    try:
        query = parse_qs(search.removeprefix("?")[:LONGEST_HASH], max_num_fields=100)
    except ValueError:
        query, problems = {}, ["The link's query string has too many fields to be read."]
    settings = {}
    for short, known in FIELDS.items():
        if short in query:
            try:
                settings[known.name] = known.read(query[short][-1])
            except LinkError as error:
                given = query[short][-1][:20]
                problems.append(f"The link's {short} should be {error}, not {given!r}.")
    texts: dict[str, str] = {}
    if packed := hash_.removeprefix("#"):
        try:
            texts = _unpacked(packed)
        except LinkError as error:
            problems.append(str(error))
    return Link(query.get("example", [None])[-1], settings, texts, tuple(problems))


def _packed(texts: Mapping[str, str]) -> str:
    kept = {name: texts[name] for name in TEXTS if texts.get(name)}
    data = json.dumps(kept, separators=(",", ":")).encode()
    squeezed = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = urlsafe_b64encode(squeezed.compress(data) + squeezed.flush()).decode().rstrip("=")
    if len(data) > LONGEST_TEXT or len(packed) > LONGEST_HASH:
        raise LinkError("The prompt is too long for a link; save the trace instead.")
    return packed


def _unpacked(packed: str) -> dict[str, str]:
    broken = LinkError("The link's text could not be read: it is damaged, or it is no text of ours.")
    if len(packed) > LONGEST_HASH:
        raise LinkError("The link's text is too long to be read.")
    try:
        data = urlsafe_b64decode(packed.encode("ascii") + b"=" * (-len(packed) % 4))
        inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        text = inflate.decompress(data, LONGEST_TEXT)
        if inflate.unconsumed_tail:
            raise LinkError("The link's text is too long to be read.")
        if not inflate.eof:
            raise broken
        texts = json.loads(text)
    except LinkError:
        raise
    except (ValueError, zlib.error, RecursionError):
        raise broken from None
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise broken
    return {name: texts[name] for name in TEXTS if name in texts}
