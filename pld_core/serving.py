"""One model for many visitors: loaded behind the page, asked for one run at a time."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Callable, Iterable, Iterator

from pld_core.decoder import Reading
from pld_core.events import Event, dumps
from pld_core.prompting import Ask
from pld_core.settings import Sampling, Settings, SettingsError

if TYPE_CHECKING:
    from pld_core.models.loading import Model

UPDATE_SECONDS = 0.04  # a page that is sent more than 25 updates a second shows no more
LONGEST_SECONDS = 0.2  # between two updates, where there is news
SENDING_SHARE = 0.01  # of a run's time may go into sending it: the decoder waits meanwhile

log = logging.getLogger(__name__)


class RequestError(ValueError):
    """A run that cannot be made; the message is one sentence for the visitor."""


RIVAL = "pld-b"  # the lane of the second settings


@dataclass(frozen=True, slots=True)
class Rival:
    """Another lookup for the same prompt, to be run beside the first; see Settings."""

    n_max: int
    n_min: int
    k: int
    policy: str
    adaptive: bool = True
    branches: int = 1


@dataclass(frozen=True, slots=True)
class Request:
    """A run as a visitor asks for it; see Ask, Sampling and Settings. plain: run the plain lane
    too. strict: every pass of every lane is as wide as the longest draft needs."""

    prompt: str
    answer_prefix: str = ""
    chat: bool = True
    system: str | None = None
    reference: str = ""
    n_max: int = 3
    n_min: int = 1
    k: int = 31
    policy: str = "nearest"
    adaptive: bool = True
    max_new_tokens: int = 256
    strict: bool = False
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    plain: bool = True
    rival: Rival | None = None
    branches: int = 1

    def ask(self) -> Ask:
        return Ask(self.prompt, self.answer_prefix, self.chat, self.system, self.reference)

    def settings(self) -> Settings:
        """Raises RequestError for values that cannot be meant."""
        drafts = [lane.k for lane in (self, self.rival) if lane and isinstance(lane.k, int)]
        widest = max(drafts, default=0)
        try:
            return Settings(
                n_max=self.n_max,
                n_min=self.n_min,
                k=self.k,
                policy=self.policy,
                adaptive=self.adaptive,
                branches=self.branches,
                max_new_tokens=self.max_new_tokens,
                sampling=Sampling(
                    temperature=self.temperature,
                    top_k=self.top_k,
                    top_p=self.top_p,
                    seed=self.seed,
                ),
                fixed_width=widest + 1 if self.strict else 0,
            )
        except SettingsError as error:
            raise RequestError(str(error)) from None

    def beside(self) -> dict[str, Settings]:
        """The settings of the lanes beside the first, by lane. Raises RequestError."""
        if self.rival is None:
            return {}
        rival = self.rival
        try:
            settings = replace(
                self.settings(),
                n_max=rival.n_max,
                n_min=rival.n_min,
                k=rival.k,
                policy=rival.policy,
                adaptive=rival.adaptive,
                branches=rival.branches,
            )
        except SettingsError as error:
            raise RequestError(f"Settings B: {error}") from None
        return {RIVAL: settings}


@dataclass(frozen=True, slots=True)
class Status:
    """state: loading, ready or failed. text: one sentence for the page. model, device: what
    runs, once it is ready."""

    state: str
    text: str
    model: str | None = None
    device: str | None = None


class Slot:
    """The model, and the one place where it runs.

    Runs take turns: whoever calls while another runs waits. (The page's queue sees to that
    already, and shows the place in line; the lock is for every other caller.)
    """

    def __init__(
        self,
        model: str | None = None,
        device: str | None = None,
        dtype: str | None = None,
        on_gpu: str | None = None,
        hardware: str | None = None,
    ) -> None:
        """model, device, dtype: see `load`. on_gpu: the model where none is named and there is
        a GPU. hardware: what the machine is called when it is not this one."""
        self._wanted = (model, device, dtype)
        self._on_gpu = on_gpu
        self._hardware = hardware
        self._model: Model | None = None
        self._status = Status("loading", "The model is loading.")
        self._turn = threading.Lock()

    @property
    def status(self) -> Status:
        return self._status

    def load_in_background(self) -> threading.Thread:
        """Starts loading and returns at once; `status` says how it went."""
        thread = threading.Thread(target=self.load, name="load-model", daemon=True)
        thread.start()
        return thread

    def load(self) -> None:
        """Loads the model; never raises, `status` says how it went."""
        try:
            from pld_core.models.errors import ModelError
            from pld_core.models.loading import has_gpu, load

            try:
                model, device, dtype = self._wanted
                if model is None and self._on_gpu and has_gpu():
                    model = self._on_gpu
                loaded = load(model, device, dtype, report=self._report)
                if self._hardware is None:  # elsewhere no pass runs but in a visitor's turn
                    self._report("Measuring what a pass costs here.")
                    loaded.pass_seconds  # measured once, then kept
            except ModelError as error:
                log.error("%s", error)
                self._status = Status("failed", str(error))
                return
        except Exception as error:
            log.exception("loading the model failed")
            self._status = Status("failed", f"The model failed to load ({type(error).__name__}).")
            return
        hardware = self._hardware or loaded.hardware
        self._model = loaded
        text = f"{loaded.name}, {loaded.dtype} on {hardware}"
        self._status = Status("ready", text, loaded.name, hardware)

    def run(self, request: Request) -> Iterator[str]:
        """Yields the growing stream (NDJSON, append-only), at most 25 times a second and first as
        soon as the lanes have started. Closing it stops the decoder before its next pass, or the
        next part of a long prompt.

        Raises RequestError before the first yield. An error of the model ends the stream with
        an `end` that says so.
        """
        model = self._model
        if model is None:
            raise RequestError(self._status.text)
        settings, beside = request.settings(), request.beside()
        with self._turn:
            try:
                events = model.run(request.ask(), settings, request.plain, beside, parts=True)
            except ValueError as error:
                raise RequestError(str(error)) from None
            yield from updates(events, starts=1 + len(beside) + request.plain)

    def measure(self) -> tuple[tuple[int, float], ...]:
        """What a pass costs at this moment, pairs (width, seconds), measured between two runs.
        Raises RequestError."""
        model = self._model
        if model is None:
            raise RequestError(self._status.text)
        with self._turn:
            return model.measure_passes()

    def _report(self, line: str) -> None:
        self._status = Status("loading", line)


def updates(events: Iterable[Event | Reading], starts: int) -> Iterator[str]:
    """The growing stream of a run's events (NDJSON, append-only), at most 25 times a second and
    first as soon as so many lanes have started."""
    return _batched(_lines(events, starts))


def _lines(events, starts: int) -> Iterator[tuple[str, bool]]:
    """(line, whether the page should have it at once)."""
    try:
        for count, event in enumerate(events, 1):
            if isinstance(event, Reading):
                yield "", True  # nothing new, but a moment at which the visitor may be gone
            else:
                yield dumps(event) + "\n", count == starts
    except Exception:
        # the lane has told its end; what went wrong is for the log, without the prompt
        log.exception("a run failed")


def _batched(
    lines: Iterator[tuple[str, bool]], clock: Callable[[], float] = monotonic
) -> Iterator[str]:
    """The text so far, as often as its sending takes no more than its share."""
    due, text = 0.0, ""
    shown = ""
    try:
        for line, at_once in lines:
            text += line
            if at_once or clock() >= due:
                began = clock()
                yield text
                sent, shown = clock(), text
                due = sent + min(max((sent - began) / SENDING_SHARE, UPDATE_SECONDS), LONGEST_SECONDS)
        if text != shown:
            yield text
    finally:
        lines.close()
