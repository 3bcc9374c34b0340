"""A loaded model: from a prompt to the lanes that run it."""

from __future__ import annotations

import platform
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Iterator

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pld_core.decoder import check_prompt, decode
from pld_core.events import Event, Start
from pld_core.lookup import build
from pld_core.models.eager import EagerTarget, context_limit
from pld_core.models.encdec import EncoderDecoderTarget
from pld_core.models.fused import FusedNetwork, FusedTarget
from pld_core.models.rounding import measure
from pld_core.models.static import StaticTarget
from pld_core.prompting import Ask, control_tokens, decoder, encode, encode_reference
from pld_core.race import race
from pld_core.sampling import Chooser
from pld_core.settings import Settings
from pld_core.text import Pieces
from pld_core.trace import Trace, compare, lanes


@dataclass(frozen=True)
class Model:
    """A network with its tokenizer, ready to run any number of lanes. With `fused` its passes
    are ours, and `network` has given its weights away; without, they are transformers'."""

    name: str
    revision: str
    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    fused: FusedNetwork | None = None

    @property
    def device(self) -> str:
        return self.network.device.type

    @property
    def dtype(self) -> str:
        return str(self.network.dtype).removeprefix("torch.")

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

    @property
    def prompt_limit(self) -> int | None:
        """The longest prompt in tokens, None when there is no limit."""
        return context_limit(self.network.config.get_text_config(decoder=True))

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
        limit = self.prompt_limit
        check_prompt(len(prompt.ids), limit)
        if limit is not None and self.encoder_decoder:
            limit += len(prompt.ids) - 1  # the decoder has positions of its own
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

    def target(self, settings: Settings, prompt_length: int) -> EagerTarget | FusedTarget:
        """A fresh target for one lane; prompt_length in tokens."""
        own = 1 if self.encoder_decoder else prompt_length
        chooser = Chooser(settings, own, self.eos, self.network.device)
        if self.encoder_decoder:
            return EncoderDecoderTarget(self.network, chooser)
        positions = prompt_length + settings.max_new_tokens
        if self.fused is not None:
            return FusedTarget(self.fused, chooser, positions, settings.fixed_width)
        if settings.fixed_width:
            return StaticTarget(self.network, chooser, settings.fixed_width, positions)
        return EagerTarget(self.network, chooser)

    def lane(self, start: Start, settings: Settings) -> Iterator[Event]:
        """Runs one lane; see `decode`."""
        reference = start.reference.ids if start.reference else ()
        text = Pieces(decoder(self.tokenizer), control_tokens(self.tokenizer))
        target = self.target(settings, len(start.prompt.ids))
        return decode(start, target, build(settings, reference), text, settings)

    def run(self, ask: Ask, settings: Settings, plain: bool = True) -> Iterator[Event]:
        """Runs the lookup lane "pld" and, racing it, the plain lane "plain"; then compares.

        Raises PromptError or SettingsError at once.
        """
        start = self.start("pld", ask, settings)
        running = [self.lane(start, settings)]
        if plain:
            own = settings.plain()
            running.append(self.lane(replace(start, lane="plain", settings=own.to_json()), own))
        return self._compared(race(running)) if plain else race(running)

    def _compared(self, events: Iterator[Event]) -> Iterator[Event]:
        seen: list[Event] = []
        with closing(events):
            for event in events:
                seen.append(event)
                yield event
        found = lanes(seen)
        pld = found["pld"]
        compared = compare(pld, found["plain"])
        if compared.verdict != "same":
            compared = replace(compared, rounding=self._rounding(pld, compared.first_difference))
        yield compared

    def _rounding(self, trace: Trace, tokens: int) -> float | None:
        """See `measure`: over the prompt and the first `tokens` tokens of a lane."""
        settings = replace(Settings.from_json(trace.start.settings), fixed_width=0)
        prompt = trace.start.prompt.ids
        return measure(
            lambda: self.target(settings, len(prompt)),
            prompt,
            trace.ids[:tokens],
            whole=not self.encoder_decoder,
        )
