"""The exactness battery: does PLD write what plain decoding writes, on this model, here?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Iterator, Sequence

from pld_core.decoder import PromptError
from pld_core.events import Compared, End, Event
from pld_core.prompting import Ask
from pld_core.rows import Row
from pld_core.settings import Sampling, Settings, SettingsError
from pld_core.trace import Trace, lanes

if TYPE_CHECKING:
    from pld_core.models.model import Model

_NOTE = (
    "Meeting notes, 4 March. The north gate opens at 7:30 and closes at 18:00. Deliveries go to "
    "bay 3, not to bay 2, until the floor there is dry. Call extension 4417 before you unload."
)
_CODE = (
    "def area(width, height):\n    return width * height\n\n\n"
    "def volume(width, height, depth):\n    return area(width, height) * depth\n"
)

ROWS = (
    Row("copy", "copy", Ask(f"Repeat this word for word:\n\n{_NOTE}", _NOTE[:47])),
    Row("code", "edit", Ask(f"Rename width to w in this code:\n\n{_CODE}", "def area(w, height):")),
    Row("list", "periodic", Ask("Write the word yes forty times, separated by commas.")),
    Row("question", "question", Ask(f"{_NOTE}\n\nWhere do deliveries go, and until when?")),
    Row("json", "extract", Ask(f'{_NOTE}\n\nGive the opening hours as JSON with "open" and "close".')),
    Row("story", "free", Ask("Tell a short story about a clock that runs backwards.")),
    Row("unicode", "text", Ask("Repeat: 🦊-41 → 北京 ñandú 👩‍🚀 🦊-41 → 北京 ñandú 👩‍🚀")),
)
"""Asked of a model when no file of rows is given."""

SAMPLED = Sampling(temperature=0.8, top_p=0.95, seed=7)
PENALISED = Sampling(repetition_penalty=1.2, no_repeat_ngram=6, min_new_tokens=8)


@dataclass(frozen=True, slots=True)
class Check:
    """One way to decode; every row is run with it in both lanes."""

    name: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one row gave under one check. refused is the sentence why it could not run, failed
    what the model died of on the way, broken the first law that a lane breaks."""

    row: Row
    check: Check
    pld: Trace | None = None
    plain: Trace | None = None
    compared: Compared | None = None
    refused: str = ""
    failed: str = ""
    broken: str = ""

    @property
    def verdict(self) -> str:
        """same, tie, bug, different (see Compared), refused or failed; a broken law is a bug."""
        if self.broken:
            return "bug"
        if self.failed:
            return "failed"
        return self.compared.verdict if self.compared else "refused"


def checks(max_new_tokens: int, n_max: int = 3, k: int = 15) -> list[Check]:
    """Greedy, sampled, with processors, with trees of drafts, and strict (one fixed width)."""
    # every match is drafted whole: that asks most of exactness
    base = Settings(n_max=n_max, k=k, max_new_tokens=max_new_tokens, adaptive=False)
    return [
        Check("greedy", base),
        Check("sampled", replace(base, sampling=SAMPLED)),
        Check("penalised", replace(base, sampling=PENALISED)),
        Check("trees", replace(base, branches=4)),
        Check("strict", replace(base, fixed_width=k + 1)),
    ]


def verify(model: Model, rows: Sequence[Row], wanted: Sequence[Check]) -> Iterator[Outcome]:
    """Runs every row under every check and yields each outcome as it is known."""
    for row in rows:
        for check in wanted:
            settings = replace(check.settings, stop=row.stop)
            events: list[Event] = []
            try:
                events.extend(model.run(row.ask, settings))
            except (PromptError, SettingsError) as error:
                yield Outcome(row, check, refused=str(error))
                continue
            except Exception as error:
                yield Outcome(row, check, failed=_cause(events, error))
                continue
            found = lanes(events)
            pld, plain = found["pld"], found["plain"]
            broken = next(chain(pld.laws(), plain.laws()), "")
            yield Outcome(row, check, pld, plain, pld.compared, broken=broken)


def _cause(events: Sequence[Event], error: Exception) -> str:
    """What the lane that died said of it, else the error's kind: one sentence."""
    said = (event.message for event in events if isinstance(event, End) and event.message)
    return next(said, f"The model failed ({type(error).__name__}).")
