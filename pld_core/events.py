"""The stream: typed events and their one-line JSON form (NDJSON, field `v`).

A lane (one run of one decoder) is `Start`, `Prefill`, any number of `Pass`, `End`, in that
order. Several lanes may be interleaved in one stream; every event names its lane. `Compared`
comes after the ends of the two lanes it compares. The same lines are what the page renders,
what an exported file holds and what a recorded example is.

Token counts are tokens, times are wall seconds with the device synchronised, positions count
from the first token of their region.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Iterable, Iterator, get_args, get_origin, get_type_hints

from pld_core import tree

VERSION = 1
_DEEPEST = 20  # levels of objects in the free-form fields
REGIONS = ("prompt", "output", "reference")
REASONS = ("eos", "stop", "length", "context_full", "cancelled", "error")


class EventError(ValueError):
    """A line that is not an event of this schema; the message is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """`ids` [P] and `pieces` [P], their text; a begun answer starts at `answer_start` <= P."""

    ids: list[int]
    pieces: list[str]
    answer_start: int

    def __post_init__(self) -> None:
        if len(self.pieces) != len(self.ids):
            raise EventError("The prompt has a different number of ids and pieces.")
        if not 0 <= self.answer_start <= len(self.ids):
            raise EventError("The begun answer starts outside the prompt.")


@dataclass(frozen=True, slots=True)
class Match:
    """The earlier n-gram: `n` tokens from `start`, which counts within the context (regions
    prompt and output share one numbering) or within the reference text."""

    start: int
    n: int
    region: str

    def __post_init__(self) -> None:
        if self.start < 0 or self.n < 1:
            raise EventError("A match needs a start >= 0 and a length >= 1.")
        if self.region not in REGIONS:
            raise EventError(f"A match's region is one of {', '.join(REGIONS)}.")


@dataclass(frozen=True, slots=True)
class Branch:
    """One continuation in a tree of drafts: the draft tokens from a first one down to node
    `leaf`, copied from behind `match`."""

    leaf: int
    match: Match


@dataclass(frozen=True, slots=True)
class Candidate:
    """One token the target considered, and its probability."""

    id: int
    piece: str
    p: float


@dataclass(frozen=True, slots=True)
class Seconds:
    """Where a pass's time went. `forward` ends when the target's choices are on the host.
    `record` is what writing the event cost: no decoder needs it, so it is not in the total."""

    lookup: float
    forward: float
    accept: float
    record: float = 0.0

    @property
    def total(self) -> float:
        return self.lookup + self.forward + self.accept


@dataclass(frozen=True, slots=True)
class Start:
    """What runs: enough to repeat it, and to replay it without the model. `notices` are
    sentences for the person who asked; `created` is an ISO 8601 time."""

    type: ClassVar[str] = "start"
    lane: str
    model: str
    revision: str
    device: str
    dtype: str
    versions: dict
    settings: dict
    prompt: Prompt
    eos: list[int] = field(default_factory=list)
    context_limit: int | None = None
    reference: Prompt | None = None
    created: str = ""
    hardware: str = ""
    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Prefill:
    """Pass 1: the prompt goes through the target, which chooses the first token."""

    type: ClassVar[str] = "prefill"
    lane: str
    seconds: float
    kept: list[int]
    pieces: list[str]
    probabilities: list[float] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        _check_kept(self)
        if len(self.kept) != 1:
            raise EventError("Prefill keeps exactly one token.")


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass over `width` positions.

    `draft` [k'] was copied from behind `match`; its first `accepted` tokens stand, then comes
    `bonus`, the target's own token, unless the answer ended inside the accepted ones (then
    null). `kept` = draft[:accepted] + [bonus].

    Where several continuations were checked at once, `draft` holds the nodes of their tree:
    `parents` [k'] is the index of each one's parent, which stands before it, and -1 for a child
    of the context's newest token. `branches` says where each continuation was copied from, and
    `match` is that of the kept one (of the first, where none was kept); `path` [accepted] lists
    the kept nodes, so kept = draft[path] + [bonus]. All three are empty for a chain, in which
    each token is the child of the one before, and are then not written.

    `pieces` [len(kept)] are texts that never split a character: a token that completes none has
    the piece "". `gain` says why the draft is as long as it is, where that was chosen: the
    expected tokens per second over those of a plain pass; 1.0 without a draft when none was
    expected to pay. `probabilities` and `margins` (top-1 minus top-2 logit) belong to the kept
    tokens; `wanted` lists the target's favourites where it rejected the draft.
    """

    type: ClassVar[str] = "pass"
    lane: str
    index: int
    match: Match | None
    draft: list[int]
    draft_pieces: list[str]
    accepted: int
    bonus: int | None
    kept: list[int]
    pieces: list[str]
    width: int
    seconds: Seconds
    alternatives: int = 0
    probabilities: list[float] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    wanted: list[Candidate] = field(default_factory=list)
    gain: float | None = None
    parents: list[int] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    path: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        _check_kept(self)
        own = [] if self.bonus is None else [self.bonus]
        if not 0 <= self.accepted <= len(self.draft):
            raise EventError("A pass cannot accept more tokens than were drafted.")
        _check_tree(self)
        if self.kept != [self.draft[node] for node in self.accepted_nodes] + own:
            raise EventError("A pass keeps its accepted draft tokens and then its bonus token.")
        if self.match is not None and not self.draft:
            raise EventError("A match comes with its draft.")
        if len(self.draft_pieces) != len(self.draft):
            raise EventError("A pass has a different number of draft tokens and draft pieces.")
        if self.width < 1 + len(self.draft):
            raise EventError("A pass is at least as wide as its draft plus one.")

    @property
    def accepted_nodes(self) -> list[int]:
        """The places in `draft` of the accepted tokens [accepted]."""
        return self.path if self.parents else list(range(self.accepted))

    @property
    def continuations(self) -> list[tuple[Match, list[int]]]:
        """Each continuation that was copied: its match and its tokens."""
        if not self.parents:
            return [] if self.match is None else [(self.match, self.draft)]
        paths = [tree.path(self.parents, branch.leaf) for branch in self.branches]
        drafts = [[self.draft[node] for node in path] for path in paths]
        return [(branch.match, draft) for branch, draft in zip(self.branches, drafts)]

    @property
    def refused(self) -> list[int]:
        """The drafted tokens behind the last accepted one, none of which the target chose."""
        if not self.parents:
            return self.draft[self.accepted :][:1]
        last = self.path[-1] if self.path else -1
        return [token for token, parent in zip(self.draft, self.parents) if parent == last]

    @property
    def line(self) -> list[int]:
        """The places in `draft` of the continuation that was kept, from its first token to its
        last: of the first one, where none was kept. A chain's draft has no other."""
        if not self.parents:
            return list(range(len(self.draft)))
        leaves = [branch.leaf for branch in self.branches]
        return tree.path(self.parents, leaves[tree.kept(self.parents, leaves, self.path)])


@dataclass(frozen=True, slots=True)
class End:
    """The last event of a lane, always there. `pieces` holds text still held back, if any."""

    type: ClassVar[str] = "end"
    lane: str
    reason: str
    tokens: int
    passes: int
    pieces: list[str] = field(default_factory=list)
    message: str = ""

    def __post_init__(self) -> None:
        if self.reason not in REASONS:
            raise EventError(f"The reason of an end is one of {', '.join(REASONS)}.")


@dataclass(frozen=True, slots=True)
class Compared:
    """After two finished lanes: whether `lane` generated the same tokens as `against`.

    first_difference: index of the first generated token that differs, null when none does.
    margin: the smaller of the two lanes' top-2 logit margins there. swing: the sum of them, how
    far the two tokens moved against each other between the lanes. rounding: how far rounding
    alone was measured to move them, between one-row and many-row passes of this model on this
    device; null when there was no need to measure.
    """

    type: ClassVar[str] = "compare"
    lane: str
    against: str
    first_difference: int | None = None
    margin: float | None = None
    swing: float | None = None
    rounding: float | None = None

    @property
    def verdict(self) -> str:
        """same, tie (rounding explains the difference), bug (it does not) or different."""
        if self.first_difference is None:
            return "same"
        if self.swing is None or self.rounding is None:
            return "different"
        return "tie" if self.swing <= self.rounding else "bug"


Event = Start | Prefill | Pass | End | Compared
_TYPES: dict[str, type] = {cls.type: cls for cls in (Start, Prefill, Pass, End, Compared)}


def _check_kept(event: Prefill | Pass) -> None:
    if not event.kept:
        raise EventError("A pass keeps at least one token.")
    if len(event.pieces) != len(event.kept):
        raise EventError("A pass has a different number of kept tokens and pieces.")
    for name in ("probabilities", "margins"):
        if len(getattr(event, name)) not in (0, len(event.kept)):
            raise EventError(f"A pass has {name} for some of its kept tokens only.")


def _check_tree(event: Pass) -> None:
    parents = event.parents
    if not parents:
        if event.path or event.branches:
            raise EventError("A chain has no branches and no path.")
        return
    if len(parents) != len(event.draft):
        raise EventError("A pass has a different number of draft tokens and parents.")
    if not all(-1 <= parent < node for node, parent in enumerate(parents)):
        raise EventError("A draft token stands before its parent.")
    if len(event.path) != event.accepted:
        raise EventError("A pass accepts the draft tokens of its path.")
    if not all(0 <= node < len(parents) for node in event.path):
        raise EventError("The path of a pass leaves its draft.")
    if [parents[node] for node in event.path] != [-1, *event.path][: event.accepted]:
        raise EventError("The path of a pass goes from each draft token to a child of it.")
    if not 1 <= len(event.branches) <= tree.BRANCHES:
        raise EventError(f"A tree has from 1 to {tree.BRANCHES} branches.")
    leaves = [branch.leaf for branch in event.branches]
    if not all(0 <= leaf < len(parents) for leaf in leaves):
        raise EventError("A branch ends outside its draft.")
    if len(tree.on_branches(parents, leaves)) < len(parents):
        raise EventError("A draft token stands on no branch.")
    if event.match != event.branches[tree.kept(parents, leaves, event.path)].match:
        raise EventError("The match of a pass is that of the branch it kept.")


def dumps(event: Event) -> str:
    """One JSON line without its newline. Every character outside ASCII is escaped, so no
    line separator hides in it; lone surrogates survive."""
    data = {"v": VERSION, "type": event.type, **_fields(event)}
    if isinstance(event, Pass) and not event.parents:
        for name in ("parents", "branches", "path"):
            del data[name]
    return _encode(data)


def _fields(record: Any) -> dict[str, Any]:
    """Like `asdict`, which copies every list on the way; that took longer than the writing."""
    return {name: getattr(record, name) for name in _names(type(record))}


@cache
def _names(cls: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_fields).encode


def loads(line: str) -> Event:
    """The event of one line. Unknown fields are ignored.

    Raises EventError, one sentence, for anything that is not an event of this version.
    """
    try:
        data = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise EventError("This is not a line of JSON.") from None
    kind = data.get("type") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in _TYPES:
        raise EventError("This is not an event of a trace.")
    version = data.get("v")
    if type(version) is not int or version != VERSION:
        shown = f"{version!r:.20}" if isinstance(version, (int, float, str)) else "unknown"
        raise EventError(f"This trace has version {shown}; version {VERSION} is read.")
    return _build(_TYPES[kind], data)


def read(lines: Iterable[str]) -> Iterator[Event]:
    """The events of a stream's lines; EventError names the line. Blank lines are skipped."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield loads(line)
            except EventError as error:
                raise EventError(f"Line {number}: {error}") from None


def _shallow(value: Any, levels: int) -> bool:
    """Whether it is nested no deeper: what is read can be copied and written again."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return True
    return levels > 0 and all(_shallow(entry, levels - 1) for entry in value)


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_hints = cache(get_type_hints)


def _build(cls: type, data: Any) -> Any:
    if not isinstance(data, dict):
        raise EventError(f"A {cls.__name__.lower()} is an object.")
    hints = _hints(cls)
    values = {}
    for f in fields(cls):
        if f.name in data:
            values[f.name] = _value(f"{cls.__name__.lower()}.{f.name}", hints[f.name], data[f.name])
    try:
        return cls(**values)
    except TypeError:
        missing = [f.name for f in fields(cls) if f.name not in values]
        raise EventError(f"A {cls.__name__.lower()} lacks one of: {', '.join(missing)}.") from None


def _value(name: str, hint: Any, value: Any) -> Any:
    options = [hint] if get_origin(hint) in (list, None) else list(get_args(hint))
    if value is None and type(None) in options:
        return None
    wanted = next(option for option in options if option is not type(None))
    if get_origin(wanted) is list and isinstance(value, list):
        (item,) = get_args(wanted)
        return [_value(name, item, entry) for entry in value]
    if wanted is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
        return float(value)
    if wanted in (int, str) and type(value) is wanted:
        return value
    if wanted is dict and type(value) is dict and _shallow(value, _DEEPEST):
        return value
    if hasattr(wanted, "__dataclass_fields__"):
        return _build(wanted, value)
    raise EventError(f"{name} has the wrong type.")
