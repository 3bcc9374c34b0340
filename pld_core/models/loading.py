"""A model by its name: resolved, loaded, checked, or refused in one sentence."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Callable, Iterator

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers import PreTrainedTokenizerBase

from pld_core.decoder import check_prompt, decode
from pld_core.events import Event, Start
from pld_core.lookup import build
from pld_core.models import embedded
from pld_core.models.eager import EagerTarget, context_limit
from pld_core.models.errors import ModelError
from pld_core.prompting import Ask, control_tokens, decoder, encode
from pld_core.settings import Settings
from pld_core.text import Pieces

DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Model:
    """A loaded model with its tokenizer, ready to run any number of lanes, one at a time."""

    name: str
    revision: str
    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase

    @property
    def device(self) -> str:
        return self.network.device.type

    @property
    def dtype(self) -> str:
        return str(self.network.dtype).removeprefix("torch.")

    @property
    def hardware(self) -> str:
        return _hardware(self.network.device)

    @property
    def context_limit(self) -> int | None:
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
        check_prompt(len(prompt.ids), self.context_limit)
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
            context_limit=self.context_limit,
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            hardware=self.hardware,
            notices=notices,
        )

    def lane(self, start: Start, settings: Settings) -> Iterator[Event]:
        """Runs one lane; see `decode`."""
        reference = start.reference.ids if start.reference else ()
        text = Pieces(decoder(self.tokenizer), control_tokens(self.tokenizer))
        target = EagerTarget(self.network)
        return decode(start, target, build(settings, reference), text, settings)

    def both(self, ask: Ask, settings: Settings) -> list[Iterator[Event]]:
        """The lookup lane "pld" and the plain lane "plain" of one prompt."""
        start = self.start("pld", ask, settings)
        plain = settings.plain()
        return [
            self.lane(start, settings),
            self.lane(replace(start, lane="plain", settings=plain.to_json()), plain),
        ]


def load(
    name: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    report: Callable[[str], None] | None = None,
) -> Model:
    """Loads the embedded model (no name), a local folder or a hub id.

    device: "cuda" when there is one, else "cpu". dtype: one of DTYPES; float32 on a CPU,
    bfloat16 on a GPU unless given. `report` takes a line per stage when the embedded model is
    made. Code that comes with a model is never run. Raises ModelError, one sentence.
    """
    device = _device(device)
    if dtype not in (None, *DTYPES):
        raise ModelError(f"The dtype is one of {', '.join(DTYPES)}, not {dtype!r}.")
    dtype = dtype or ("bfloat16" if device.startswith("cuda") else "float32")
    folder = str(embedded.embedded_model(report)) if name is None else name
    shown = embedded.NAME if name is None else name
    try:
        network, tokenizer = _read(folder, device, getattr(torch, dtype))
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(_sentence(shown, error)) from error
    _check_rollback(shown, network)
    packaged = embedded.PACKAGE if name is None else "local"
    revision = getattr(network.config, "_commit_hash", None) or packaged
    return Model(shown, revision, network, tokenizer)


def _hardware(device: torch.device) -> str:
    """What a reader of a trace wants to know of the machine."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].partition(":")[2].strip() if names else cpu
    return f"{cpu}, {torch.get_num_threads()} threads"


def _device(device: str | None) -> str:
    cuda = torch.cuda.is_available()
    if device is None:
        return "cuda" if cuda else "cpu"
    try:
        kind = torch.device(device).type
    except RuntimeError:
        raise ModelError(f"There is no device called {device!r}.") from None
    if kind == "cuda" and not cuda:
        raise ModelError("There is no CUDA device here; leave the device out to use the CPU.")
    return device


def _read(folder: str, device: str, dtype: torch.dtype):
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    network = AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=dtype, trust_remote_code=False
    )
    return network.to(device).eval(), tokenizer


def _sentence(name: str, error: Exception) -> str:
    text = str(error)
    if isinstance(error, torch.OutOfMemoryError):
        return f"{name} does not fit into the device's memory."
    if isinstance(error, MemoryError):
        return f"{name} does not fit into memory."
    if "trust_remote_code" in text:
        return f"{name} needs code of its own to run, and such code is never run here."
    if "does not recognize this architecture" in text or "Unrecognized model" in text:
        return f"{name} has an architecture that transformers {version('transformers')} does not know."
    if "Unrecognized configuration class" in text:
        return f"{name} is not a causal language model."
    if Path(name).is_dir():
        return f"The folder {name} holds no model that transformers can read."
    if isinstance(error, OSError):
        return (
            f"There is no model {name}: it is no folder here, and the Hugging Face hub has none "
            "of that name, keeps it gated, or is out of reach."
        )
    return f"{name} could not be loaded ({type(error).__name__})."


def _check_rollback(name: str, network: PreTrainedModel) -> None:
    """Refuses an architecture whose cache cannot forget rejected tokens, by trying it."""
    sentence = (
        f"{name} ({network.config.model_type}) cannot run here: the state of this architecture "
        "cannot roll back, and rejected draft tokens must be forgotten."
    )
    one, two, three, wrong = (i % network.config.get_text_config(decoder=True).vocab_size
                              for i in (5, 6, 7, 8))
    try:
        tried = EagerTarget(network)
        tried.prefill([one, two])
        if not tried.can_roll_back:
            raise ModelError(sentence)
        tried.forward([three, wrong, wrong])
        tried.commit(1)
        rolled = tried.forward([two])
        fresh = EagerTarget(network)
        fresh.prefill([one, two])
        fresh.forward([three])
        fresh.commit(1)
        straight = fresh.forward([two])
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(sentence) from error
    if not rolled.close_to(straight):
        raise ModelError(sentence)
