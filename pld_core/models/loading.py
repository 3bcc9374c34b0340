"""A model by its name: resolved, loaded, checked, or refused in one sentence."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import Callable, Iterator

import torch
from huggingface_hub.utils import logging as hub_logging
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedModel,
)
from transformers.utils import logging as transformers_logging

from pld_core.models import embedded
from pld_core.models.errors import ModelError
from pld_core.models.fused import FusedNetwork, can_fuse
from pld_core.models.graphed import GraphedNetwork, can_graph
from pld_core.models.model import Model
from pld_core.models.quantization import can_quantize, quantize
from pld_core.settings import Settings

DTYPES = ("float32", "bfloat16", "float16", "int4")

_NO_INT4 = (
    "{name} cannot run in int4 here: that needs a model of the Llama family whose rows come in "
    "groups of 32, and a torch with products of 4 bits for this CPU."
)

log = logging.getLogger(__name__)


def load(
    name: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    report: Callable[[str], None] | None = None,
    eager: bool = False,
) -> Model:
    """Loads the embedded model (no name), a local folder or a hub id.

    device: "cuda" when there is one, else "cpu". dtype: one of DTYPES; float32 on a CPU,
    bfloat16 on a GPU unless given; int4: bfloat16 with weights of few bits, see `quantize`, on a
    CPU. `report` takes a line per stage when the embedded model is
    made. eager: let transformers run every pass, also where this package's own is faster. Code
    that comes with a model is never run. Raises ModelError, one sentence.
    """
    device = _device(device)
    if dtype not in (None, *DTYPES):
        raise ModelError(f"The dtype is one of {', '.join(DTYPES)}, not {dtype!r}.")
    dtype = dtype or ("bfloat16" if device.startswith("cuda") else "float32")
    if name is not None and not name.strip():
        raise ModelError("The model has no name: give a folder or a hub id, or leave it out.")
    quantized = dtype == "int4"
    if quantized and device != "cpu":
        raise ModelError("int4 runs on a CPU alone: take bfloat16 on a GPU.")
    numbers = torch.bfloat16 if quantized else getattr(torch, dtype)
    folder = str(embedded.embedded_model(report)) if name is None else name
    shown = embedded.NAME if name is None else name
    if name is not None and report and not os.path.isdir(name):
        report(f"Looking for {name} in the cache and on the Hugging Face hub.")
    try:
        with _quiet():
            network, tokenizer = _read(shown, folder, device, numbers)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(_sentence(shown, error)) from error
    packaged = embedded.PACKAGE if name is None else "local"
    revision = getattr(network.config, "_commit_hash", None) or packaged
    model = Model(shown, revision, network, tokenizer, quantized=quantized)
    try:
        _check_rollback(model)
        if quantized:
            if not (can_fuse(network) and can_quantize(network)):
                raise ModelError(_NO_INT4.format(name=shown))
            quantize(network)
        if eager or not can_fuse(network):
            return model
        if (fused := _with_own_passes(model)) is not None:
            return fused
    except torch.OutOfMemoryError as error:
        raise ModelError(_sentence(shown, error)) from error
    if quantized:
        raise ModelError(_NO_INT4.format(name=shown))
    del network, model  # what is left of them
    return load(name, device, dtype, report, eager=True)


def _with_own_passes(model: Model) -> Model | None:
    """The model run by our own forward pass, which takes its weights over. None where that gives
    other numbers (a variant of the family that is not what its config says) or fails here."""
    wanted = _probe(model)
    try:
        fused = replace(model, fused=_own(model.network))
        return fused if model.close(_probe(fused), wanted) else None
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        log.warning(
            "%s is run by transformers, and slower: our own forward pass failed here (%s: %s).",
            model.name, type(error).__name__, str(error).partition("\n")[0],
        )  # fmt: skip
        return None


def _own(network: PreTrainedModel) -> FusedNetwork | GraphedNetwork:
    """Our own forward pass, for a GPU that this process has opened or for anything else."""
    on_gpu = network.device.type == "cuda" and torch.cuda.is_initialized()
    graphed = on_gpu and can_graph(network)
    fused = FusedNetwork(network)
    return GraphedNetwork(fused) if graphed else fused


def has_gpu() -> bool:
    """Whether a model is loaded onto a GPU where no device is named."""
    return torch.cuda.is_available()


def _device(device: str | None) -> str:
    cuda = has_gpu()
    if device is None:
        return "cuda" if cuda else "cpu"
    try:
        kind = torch.device(device).type
    except RuntimeError:
        raise ModelError(f"There is no device called {device!r}.") from None
    if kind == "cuda" and not cuda:
        raise ModelError("There is no CUDA device here; leave the device out to use the CPU.")
    try:
        torch.zeros(1, device=device).tolist()
    except Exception:
        raise ModelError(f"The device {device} cannot be used here.") from None
    return device


@contextmanager
def _quiet() -> Iterator[None]:
    """What cannot be loaded is said in one sentence, and the rest needs no bars."""
    bars = transformers_logging.is_progress_bar_enabled()
    logs = (transformers_logging, hub_logging)
    verbosities = [log.get_verbosity() for log in logs]
    transformers_logging.disable_progress_bar()
    for log in logs:
        log.set_verbosity_error()
    try:
        yield
    finally:
        for log, verbosity in zip(logs, verbosities):
            log.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


def _read(name: str, folder: str, device: str, dtype: torch.dtype):
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    if _is_encoder(config):
        raise ModelError(f"{name} is not a causal language model.")
    tokenizer = _read_tokenizer(name, folder)
    family = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    network, found = family.from_pretrained(
        folder, config=config, dtype=dtype, trust_remote_code=False, output_loading_info=True
    )
    if missing := sorted(found["missing_keys"]):
        # transformers makes up what is missing, at random
        raise ModelError(
            f"The weights of {name} are incomplete: {missing[0]}"
            f"{f' and {len(missing) - 1:,} more' if missing[1:] else ''} cannot be found."
        )
    return network.to(device).eval(), tokenizer


def _is_encoder(config) -> bool:
    """Whether a model of the BERT kind was not made to look at the past alone."""
    made_for = getattr(config, "architectures", None) or ()
    return (
        not config.is_encoder_decoder
        and getattr(config, "is_decoder", None) is False
        and not any(architecture.endswith("ForCausalLM") for architecture in made_for)
    )


def _read_tokenizer(name: str, folder: str):
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        if tokenizer("a 1", add_special_tokens=False)["input_ids"]:
            return tokenizer
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"The tokenizer of {name} cannot be read.") from error
    raise ModelError(f"{name} has no tokenizer.")


def _sentence(name: str, error: Exception) -> str:
    text = str(error)
    if isinstance(error, torch.OutOfMemoryError):
        return f"{name} does not fit into the device's memory."
    if isinstance(error, MemoryError):
        return f"{name} does not fit into memory."
    folder = os.path.isdir(name)
    if folder and not os.path.isfile(os.path.join(name, "config.json")):
        return f"The folder {name} holds no model: it has no config.json."
    if "trust_remote_code" in text:
        return f"{name} needs code of its own to run, and such code is never run here."
    if "Should have a `model_type`" in text:
        return f"{name} says no architecture: its config.json has no model_type."
    if "does not recognize this architecture" in text or "Unrecognized model" in text:
        return f"{name} has an architecture that transformers {version('transformers')} does not know."
    if "Unrecognized configuration class" in text:
        return f"{name} is not a causal language model."
    if isinstance(error, ImportError):
        return f"{name} needs a package that is not installed here, as some quantised models do."
    if isinstance(error, SafetensorError):
        return f"The weights of {name} cannot be read: a file is cut short or damaged."
    if "no file named" in text:
        return f"{name} has no weights."
    if "mismatched" in text:
        return f"The weights of {name} are of another shape than its config.json says."
    if folder:
        return f"The folder {name} holds no model that transformers can read."
    if isinstance(error, OSError):
        return (
            f"There is no model {name}: it is no folder here, and the Hugging Face hub has none "
            "of that name, keeps it gated, or is out of reach."
        )
    return f"{name} could not be loaded ({type(error).__name__})."


def _check_rollback(model: Model) -> None:
    """Refuses an architecture that would not be exact here, by trying it: its cache must hold
    what was read, by one position or several, and forget what was rejected."""
    sentence = (
        f"{model.name} ({model.network.config.model_type}) cannot run here: the state of this "
        "architecture cannot roll back, and rejected draft tokens must be forgotten."
    )
    try:
        rolls = model.target(Settings(), prompt_length=2)
        rolls.prefill(_probe_tokens(model)[:2])
        good = rolls.can_roll_back and model.close(_probe(model), _probe(model, at_once=True))
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise ModelError(sentence) from error
    if not good:
        raise ModelError(sentence)


def _probe_tokens(model: Model) -> list[int]:
    size = model.network.config.get_text_config(decoder=True).vocab_size
    places = (5, 6, 7, 8, 6, 9, 5, 11, 10, 7, 9, 6, 8, 5)
    return [place * place * 797 % size for place in places]  # ordinary ones, all over the range


def _probe(model: Model, at_once: bool = False) -> torch.Tensor:
    """The logits [1, V] after a prompt of a few tokens and five more: read in one pass
    (`at_once`), or in several, with wrong ones that are forgotten again."""
    *prompt, a, b, c, d, e = _probe_tokens(model)
    wrong = prompt[3]
    target = model.target(Settings(), prompt_length=len(prompt))
    target.prefill(prompt)
    if at_once:
        return target.forward([a, b, c, d, e]).logits[-1:].float().clone()
    for tokens, right in (([a, b, wrong, wrong, wrong], 2), ([c], 1), ([d, wrong], 1)):
        target.forward(tokens)
        target.commit(right)
    return target.forward([e]).logits.float().clone()
