"""The presets and their recorded runs: what the page offers and shows before a model is there."""

import json
from pathlib import Path

import pytest

from pld_core import trace

STATIC = Path(__file__).resolve().parent.parent / "static"
PRESETS = json.loads((STATIC / "presets.json").read_text("utf-8"))
EXAMPLES = STATIC / "examples"
COPY_HEAVY = {
    "retell-a-story",
    "rename-in-code",
    "repeat-a-letter",
    "quote-the-text",
    "make-a-checklist",
    "summarise-a-notice",
    "correct-grammar",
}
FREE = "write-freely"
EACH = pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset["id"])


def example(preset: dict) -> dict[str, trace.Trace]:
    return trace.read((EXAMPLES / f"{preset['id']}.ndjson").read_text("utf-8").splitlines())


def test_ids_and_titles_are_unique():
    for name in ("id", "title"):
        assert len({preset[name] for preset in PRESETS}) == len(PRESETS)


def test_every_preset_has_a_recorded_run_and_every_run_a_preset():
    recorded = {path.stem for path in EXAMPLES.glob("*.ndjson")}
    assert recorded == {preset["id"] for preset in PRESETS}


@EACH
def test_a_preset_is_whole(preset):
    kinds = dict(
        id=str, title=str, prompt=str, answer_prefix=str, chat=bool, n_max=int, k=int,
        max_new_tokens=int, about=str,
    )
    assert {name: type(value) for name, value in preset.items()} == kinds
    assert preset["title"] and preset["prompt"] and preset["about"]
    assert preset["answer_prefix"] == preset["answer_prefix"].rstrip()


@EACH
def test_a_recorded_run_obeys_every_law_and_its_lanes_agree(preset):
    found = example(preset)
    assert set(found) == {"pld", "plain"}
    for lane in found.values():
        assert list(lane.laws()) == []
        assert lane.end.reason == "eos"
    assert found["pld"].ids == found["plain"].ids
    assert found["pld"].text == found["plain"].text
    assert found["pld"].compared.verdict == "same"
    assert found["plain"].numbers().passes == found["plain"].numbers().tokens


@EACH
def test_a_recorded_run_is_the_run_of_its_preset(preset):
    for name, lane in example(preset).items():
        start = lane.start
        begun = start.prompt.answer_start
        assert preset["prompt"] in "".join(start.prompt.pieces[:begun])
        assert "".join(start.prompt.pieces[begun:]) == preset["answer_prefix"]
        assert start.settings["n_max"] == preset["n_max"]
        assert start.settings["k"] == (preset["k"] if name == "pld" else 0)
        assert start.settings["max_new_tokens"] == preset["max_new_tokens"]
        assert start.model and start.revision and start.device and start.hardware
        assert start.created and start.dtype == "float32"


@EACH
def test_the_prompt_is_still_read_the_same_and_ends_where_a_token_does(preset, embedded):
    from transformers import AutoTokenizer

    from pld_core.prompting import Ask, encode

    tokenizer = AutoTokenizer.from_pretrained(embedded)
    ask = Ask(preset["prompt"], preset["answer_prefix"], preset["chat"])
    prompt, notices = encode(tokenizer, ask)
    recorded = example(preset)["pld"]
    assert not notices
    assert prompt == recorded.start.prompt
    whole = "".join(prompt.pieces) + recorded.text
    ids = tokenizer(whole, add_special_tokens=False)["input_ids"]
    assert ids[: len(prompt.ids)] == prompt.ids


def test_copy_heavy_presets_save_two_passes_in_three():
    numbers = {p["id"]: example(p)["pld"].numbers() for p in PRESETS if p["id"] in COPY_HEAVY}
    assert numbers.keys() == COPY_HEAVY
    for n in numbers.values():
        assert n.tokens_per_pass >= 3


def test_free_writing_is_there_and_wins_little():
    (free,) = (preset for preset in PRESETS if preset["id"] == FREE)
    numbers = example(free)["pld"].numbers()
    assert numbers.f < 0.25
    assert numbers.tokens_per_pass < 1.25
