"""A loaded model: from a prompt to the lanes that run it."""

from __future__ import annotations

import platform
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Iterator, Mapping

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pld_core.decoder import Reading, check_prompt, decode
from pld_core.events import Event, Start
from pld_core.models.eager import EagerTarget
from pld_core.models.cost import pass_seconds
from pld_core.models.encdec import EncoderDecoderTarget
from pld_core.models.fused import FusedNetwork
from pld_core.models.graphed import GraphedNetwork
from pld_core.models.rounding import measure
from pld_core.models.sequence import context_limit
from pld_core.models.static import StaticTarget, why_not_static
from pld_core.models.strict import TRIED, exact_width, positions_tried
from pld_core.models.target import Target
from pld_core.models.trees import reads_trees
from pld_core.prompting import Ask, control_tokens, decoder, encode, encode_reference
from pld_core.race import race
from pld_core.sampling import Chooser
from pld_core.settings import Settings, SettingsError
from pld_core.text import Pieces
from pld_core.trace import Trace, compare, lanes
from pld_core.width import drafter, needs_cost

ORDINARY_LOGIT = 16.0


@dataclass(frozen=True)
class Model:
    """A network with its tokenizer, ready to run any number of lanes. With `fused` its passes
    are ours, and `network` has given its weights away; without, they are transformers'."""

    name: str
    revision: str
    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    fused: FusedNetwork | GraphedNetwork | None = None
    quantized: bool = False  # see `quantize`

    @property
    def device(self) -> str:
        return self.network.device.type

    @property
    def dtype(self) -> str:
        """One of loading.DTYPES."""
        return "int4" if self.quantized else str(self.network.dtype).removeprefix("torch.")

    @property
    def encoder_decoder(self) -> bool:
        return bool(self.network.config.is_encoder_decoder)

    @cached_property
    def hardware(self) -> str:
        """What a reader of a trace wants to know of the machine."""
        if self.device == "cuda":
            return torch.cuda.get_device_name(self.network.device)
        info = Path("/proc/cpuinfo")
        lines = info.read_text().splitlines() if info.is_file() else []
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        cpu = names[0] if names else platform.processor() or platform.machine()
        return f"{cpu}, {torch.get_num_threads()} threads"

    @cached_property
    def pass_seconds(self) -> tuple[tuple[int, float], ...]:
        """What a pass costs by its width, measured at the first question (about a second)."""
        return self.measure_passes()

    def measure_passes(self) -> tuple[tuple[int, float], ...]:
        """What a pass costs by its width at this moment; see `pass_seconds`."""
        return pass_seconds(lambda: self.target(Settings(), prompt_length=1), self.prompt_limit)

    @property
    def prompt_limit(self) -> int | None:
        """The longest prompt in tokens, None when there is no limit."""
        return context_limit(self._text_config)

    @property
    def _text_config(self):
        return self.network.config.get_text_config(decoder=True)

    @property
    def eos(self) -> list[int]:
        """Ids that end an answer; none, one or several."""
        ids = self.network.generation_config.eos_token_id
        if ids is None:
            ids = self.tokenizer.eos_token_id
        if ids is None:
            return []
        return [int(i) for i in (ids if isinstance(ids, (list, tuple)) else [ids])]

    def start(self, lane: str, ask: Ask, settings: Settings) -> Start:
        """The first event of a lane. Raises PromptError for a prompt that cannot be run."""
        prompt, notices = encode(self.tokenizer, ask)
        check_prompt(len(prompt.ids), self.prompt_limit)
        limit = context_limit(self._text_config, len(prompt.ids))
        if limit is not None and self.encoder_decoder:
            limit += len(prompt.ids) - 1  # the decoder has positions of its own
        strict = settings.fixed_width and self.why_not_strict is None
        if strict and self.exact_width(settings.fixed_width) is None:
            notices.append(
                "Strict mode is not exact here: at every width that was tried, this machine "
                "rounds the rows of a pass differently."
            )
        if settings.branches > 1 and settings.k and (reason := self.why_no_trees(settings)):
            notices.append(f"The drafts have one branch: {reason}.")
        return Start(
            lane=lane,
            model=self.name,
            revision=self.revision,
            device=self.device,
            dtype=self.dtype,
            versions={
                "python": platform.python_version(),
                "torch": torch.__version__,
                "transformers": version("transformers"),
            },
            settings=settings.to_json(),
            prompt=prompt,
            eos=self.eos,
            context_limit=limit,
            reference=encode_reference(self.tokenizer, ask.reference) if ask.reference else None,
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            hardware=self.hardware,
            notices=notices,
        )

    def target(self, settings: Settings, prompt_length: int) -> Target:
        """A fresh target for one lane; prompt_length in tokens. Raises SettingsError for strict
        mode on an architecture that it does not run on."""
        own = 1 if self.encoder_decoder else prompt_length
        chooser = Chooser(settings, own, self.eos, self.network.device)
        if settings.fixed_width and (reason := self.why_not_strict):
            kind = self.network.config.model_type
            raise SettingsError(f"Strict mode does not run on {self.name} ({kind}): {reason}.")
        if self.encoder_decoder:
            return EncoderDecoderTarget(self.network, chooser)
        positions = prompt_length + settings.max_new_tokens
        width = settings.fixed_width
        if width:
            width = self.exact_width(width) or width
        trees = settings.branches > 1 and self.why_no_trees(settings) is None
        return self._target(chooser, positions, width, trees)

    def _target(
        self, chooser: Chooser, positions: int, width: int, trees: bool = False
    ) -> Target:
        if self.fused is not None:
            return self.fused.target(chooser, positions, width)
        if width:
            return StaticTarget(self.network, chooser, width, positions)
        return EagerTarget(self.network, chooser, trees)

    def why_no_trees(self, settings: Settings) -> str | None:
        """What keeps this model from checking trees of drafts with these settings, as the end of
        a sentence; None when nothing does."""
        if settings.fixed_width:
            return "in strict mode a pass has one width"
        if self.encoder_decoder:
            return "a decoder with an encoder reads no trees here"
        return self._why_no_trees

    @cached_property
    def _why_no_trees(self) -> str | None:
        target = self._target(self._greedy, 1, 0, trees=True)
        target.prefill([0])
        if not getattr(target, "trees", False):
            return "not every position stays in the cache of this model"
        if self.fused is not None or reads_trees(
            lambda: EagerTarget(self.network, self._greedy, reads_trees=True), self.close
        ):
            return None
        return "this architecture does not read them"

    def close(self, got: torch.Tensor, wanted: torch.Tensor) -> bool:
        """Whether logits are the same but for rounding. A token too many or too few in a cache
        moves them by a third of their spread, rounding in half precision by a twentieth."""
        rounding = 1e-2 if self.network.dtype == torch.float32 else 0.2
        moved = (got - wanted).square().mean().sqrt()
        return bool(moved <= rounding * wanted.std())

    @property
    def _greedy(self) -> Chooser:
        return Chooser(Settings(), 1, [], self.network.device)

    @property
    def why_not_strict(self) -> str | None:
        """See `why_not_static`."""
        return None if self.fused is not None else why_not_static(self.network)

    def exact_width(self, wanted: int) -> int | None:
        """The width that strict mode runs at, see `exact_width`; tried once per width asked."""
        if wanted not in self._exact_widths:
            chooser = self._greedy
            limit = self.prompt_limit
            room = limit is None or positions_tried(wanted + TRIED) <= limit
            self._exact_widths[wanted] = (
                exact_width(lambda w: self._target(chooser, positions_tried(w), w), wanted)
                if room
                else wanted
            )
        return self._exact_widths[wanted]

    @cached_property
    def _exact_widths(self) -> dict[int, int | None]:
        return {}

    def lane(
        self, start: Start, settings: Settings, parts: bool = False
    ) -> Iterator[Event | Reading]:
        """Runs one lane; see `decode`."""
        reference = start.reference.ids if start.reference else ()
        text = Pieces(decoder(self.tokenizer), control_tokens(self.tokenizer))
        target = self.target(settings, len(start.prompt.ids))
        lookup = drafter(settings, reference)
        return decode(start, target, lookup, text, settings, parts=parts)

    def run(
        self,
        ask: Ask,
        settings: Settings,
        plain: bool = True,
        beside: Mapping[str, Settings] | None = None,
        parts: bool = False,
    ) -> Iterator[Event | Reading]:
        """Runs the lookup lane "pld", racing it the lanes of `beside` (name -> settings) and the
        plain lane "plain"; then compares each with the plain lane, or with "pld" without one.
        parts: see `decode`.

        Raises PromptError or SettingsError at once.
        """
        start = self.start("pld", ask, settings)
        wanted = {
            name: replace(own, pass_seconds=self.pass_seconds) if needs_cost(own) else own
            for name, own in {"pld": settings, **(beside or {})}.items()
        }
        settings = wanted["pld"]
        for name, own in wanted.items():
            if own.branches > 1 and self.why_no_trees(own):
                wanted[name] = replace(own, branches=1)  # what is recorded is what runs
        if plain:
            wanted["plain"] = settings.plain()
        racing = race(
            [
                self.lane(replace(start, lane=name, settings=own.to_json()), own, parts)
                for name, own in wanted.items()
            ]
        )
        return self._compared(racing) if len(wanted) > 1 else racing

    def _compared(self, events: Iterator[Event | Reading]) -> Iterator[Event | Reading]:
        seen: list[Event] = []
        with closing(events):
            for event in events:
                yield event
                if not isinstance(event, Reading):
                    seen.append(event)
        found = lanes(seen)
        against = found.get("plain") or found["pld"]
        for trace in found.values():
            if trace is against:
                continue
            compared = compare(trace, against)
            if compared.verdict != "same":
                rounding = self._rounding(trace, compared.first_difference)
                compared = replace(compared, rounding=rounding)
            yield compared

    def _rounding(self, trace: Trace, tokens: int) -> float | None:
        """See `measure`: over the prompt and the first `tokens` tokens of a lane. At least one
        step of the number format at the size of an ordinary logit, lest 48 lucky positions call
        the next tie a bug."""
        settings = replace(Settings.from_json(trace.start.settings), fixed_width=0)
        prompt = trace.start.prompt.ids
        measured = measure(
            lambda: self.target(settings, len(prompt)),
            prompt,
            trace.ids[:tokens],
            whole=not self.encoder_decoder,
        )
        step = torch.finfo(self.network.dtype).eps * ORDINARY_LOGIT
        return None if measured is None else max(measured, step)
