"""Configuration strings of other engines: their own option names, their own values."""

import ast
import json
import re
import shlex
from pathlib import Path

import pytest
import torch

from pld_core.cli import main
from pld_core.configuration import configurations
from pld_core.settings import POLICIES, Settings
from tests import tiny

# What each engine's own source lists, with the version it was read from: the engines themselves
# are too heavy to be installed for a test.
KNOWN = json.loads((Path(__file__).parent / "data" / "engine_options.json").read_text("utf-8"))
SETTINGS = [
    Settings(),
    Settings(n_max=5, n_min=2, k=16),
    Settings(n_max=4, n_min=4, k=1, policy="oldest", periodic=False),
    *(Settings(policy=policy) for policy in POLICIES),
    Settings(branches=4),
]


def text(engine: str, settings: Settings) -> str:
    return next(c.text for c in configurations(settings) if c.engine == engine)


def flags(command: str) -> dict[str, str]:
    words = shlex.split(command.replace("\\\n", " "))
    return {word: value for word, value in zip(words, words[1:]) if word.startswith("--")}


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_option_is_one_of_the_engines_own(settings: Settings) -> None:
    vllm = json.loads(flags(text("vLLM", settings))["--speculative-config"])
    assert set(vllm) <= set(KNOWN["vLLM"]["options"])
    for engine in ("SGLang", "llama.cpp"):
        used = flags(text(engine, settings))
        assert used and set(used) <= set(KNOWN[engine]["options"])
    used = re.findall(r"^ *(\w+):", text("TensorRT-LLM", settings), re.MULTILINE)
    assert used and set(used) <= set(KNOWN["TensorRT-LLM"]["options"])


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_values_are_those_of_the_settings(settings: Settings) -> None:
    n, k = str(settings.n_max), str(settings.k)
    vllm = json.loads(flags(text("vLLM", settings))["--speculative-config"])
    assert vllm == {
        "method": "ngram",
        "num_speculative_tokens": settings.k,
        "prompt_lookup_max": settings.n_max,
        "prompt_lookup_min": settings.n_min,
    }
    llama = flags(text("llama.cpp", settings))
    assert llama["--spec-ngram-simple-size-n"] == n
    assert llama["--spec-ngram-simple-size-m"] == k
    sglang = flags(text("SGLang", settings))
    assert sglang["--speculative-num-draft-tokens"] == str(settings.k + 1)
    assert f"max_draft_len: {k}\n" in text("TensorRT-LLM", settings)


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_note_is_a_sentence(settings: Settings) -> None:
    for made in configurations(settings):
        assert made.note[0].isupper() and made.note.endswith(".") and ";;" not in made.note


def test_a_tie_rule_that_an_engine_lacks_is_said() -> None:
    for policy, at_oldest, at_recent in [
        ("recent", "oldest, not the most recent", ""),
        ("oldest", "", "most recent, not the oldest"),
        ("nearest", "oldest, not the one nearest", "most recent, not the one nearest"),
        ("vote", "oldest, not the most common", "most recent, not the most common"),
        ("longest", "o match is longer than 3", "o match is longer than 3"),
    ]:
        notes = {made.engine: made.note for made in configurations(Settings(policy=policy))}
        for engine in ("transformers", "vLLM"):
            assert at_oldest in notes[engine]
        assert at_recent in notes["llama.cpp"] and at_recent in notes["SGLang"]
        if policy in ("recent", "oldest"):  # it has both
            assert "equal" not in notes["TensorRT-LLM"]
        else:
            assert at_recent in notes["TensorRT-LLM"]


def test_plain_decoding_has_no_configuration() -> None:
    with pytest.raises(ValueError, match="drafts nothing"):
        configurations(Settings(k=0))


def arguments(settings: Settings) -> dict[str, int]:
    call = ast.parse(text("transformers", settings), mode="eval").body
    return {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}


def test_transformers_accepts_it_and_drafts_by_it() -> None:
    from transformers import GenerationConfig

    settings = Settings(n_max=3, k=4)
    given = arguments(settings)
    config = GenerationConfig(**given)
    assert config.validate(strict=True) is None
    assert {name: getattr(config, name) for name in given} == given

    network, words = tiny.network("Llama", 0, len(tiny.tokenizer())), tiny.tokenizer()
    ids = words(tiny.PROMPT)["input_ids"]
    widths: list[int] = []
    hook = network.register_forward_pre_hook(
        lambda module, args, kwargs: widths.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    try:
        with torch.no_grad():
            plain = tiny.generated(network, ids, 40)
            passes = len(widths)
            widths.clear()
            copied = tiny.generated(network, ids, 40, **given)
    finally:
        hook.remove()
    assert copied == plain
    assert passes == 40 and max(widths[1:]) == settings.k + 1


def test_the_command_line_prints_them_all(capsys) -> None:
    assert main(["config", "-n", "4", "-k", "8"]) == 0
    said = capsys.readouterr().out
    for made in configurations(Settings(n_max=4, k=8)):
        assert f"# {made.engine}. {made.note}\n{made.text}" in said
    assert main(["config", "-k", "0"]) == 1
    assert capsys.readouterr().err.startswith("pld_core: Plain decoding drafts nothing")


def test_branches_are_written_where_an_engine_has_them_and_said_where_not() -> None:
    assert flags(text("SGLang", Settings(branches=4)))["--speculative-ngram-max-bfs-breadth"] == "4"
    for made in configurations(Settings(branches=4)):
        assert ("branches" if made.engine == "SGLang" else "one continuation, not 4") in made.note
    assert not any("continuation, not" in made.note for made in configurations(Settings()))
