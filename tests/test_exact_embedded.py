"""On the real embedded model in float32: our tokens are those of transformers' own greedy
generate(), for every preset and for real prompts."""

import json
import re
from pathlib import Path

import pytest

from pld_core.threads import settle

settle()  # before anything imports torch

import torch
from transformers import AutoModelForCausalLM

from pld_core import trace
from pld_core.models.loading import load
from pld_core.models.quantization import fitted
from pld_core.prompting import Ask
from pld_core.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
PRESETS = json.loads((ROOT / "static" / "presets.json").read_text("utf-8"))
NEW_TOKENS = 40


@pytest.fixture(scope="session")
def model(embedded):
    return load(device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def peer(embedded):
    """The same weights as transformers reads them; ours may rearrange its own."""
    return AutoModelForCausalLM.from_pretrained(embedded, dtype=torch.float32).eval()


def assert_exact(model, peer, ask: Ask, settings: Settings) -> None:
    lane = trace.lanes(model.run(ask, settings, plain=False))["pld"]
    assert list(lane.laws()) == []
    ids = torch.tensor([lane.start.prompt.ids])
    stops = {"stop_strings": list(settings.stop), "tokenizer": model.tokenizer}
    expected = peer.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=settings.max_new_tokens,
        **(stops if settings.stop else {}),
    )
    assert lane.ids == expected[0, ids.shape[1] :].tolist()


def rows(path, every: int) -> list[dict]:
    """A sample that is spread over the file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()][::every]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset["id"])
def test_presets(model, peer, preset):
    ask = Ask(preset["prompt"], preset["answer_prefix"], preset["chat"])
    settings = Settings(
        n_max=preset["n_max"], k=preset["k"], max_new_tokens=preset["max_new_tokens"]
    )
    assert_exact(model, peer, ask, settings)


def test_the_readme_shows_what_its_example_prints(model, monkeypatch, capsys):
    text = (ROOT / "README.md").read_text("utf-8")
    (found,) = re.finditer(r"```python\n(from pld_core.*?)```\n\n(.*?)```\n(.*?)```", text, re.DOTALL)
    example, said, printed = found.groups()
    monkeypatch.setattr("pld_core.models.loading.load", lambda: model)
    exec(example, {})
    assert capsys.readouterr().out.strip() == printed.strip()
    passes = printed.count("|")
    assert f"in {passes} passes" in said


def test_code_edits(model, peer, shared):
    for row in rows(shared / "edit_eval_sample.jsonl", 15):
        ask = Ask(f"{row['instruction']}\n\n```python\n{row['input']}\n```", "```python")
        assert_exact(model, peer, ask, Settings(max_new_tokens=NEW_TOKENS))


def test_questions_with_a_passage(model, peer, shared):
    for row in rows(shared / "nq_oracle_sample.jsonl", 10):
        passage = "\n\n".join(context["text"] for context in row["ctxs"])
        ask = Ask(f"{passage}\n\nQuestion: {row['question']}?")
        assert_exact(model, peer, ask, Settings(max_new_tokens=NEW_TOKENS, n_max=5, k=16))


def test_spec_bench(model, peer, shared):
    for row in rows(shared / "spec_bench_sample.jsonl", 17):
        settings = Settings(max_new_tokens=NEW_TOKENS, n_max=2, k=7)
        assert_exact(model, peer, Ask(row["turns"][0]), settings)


def test_awkward_texts(model, peer, shared):
    for row in rows(shared / "text_cases.jsonl", 1):
        text = row["prompt"]
        if row.get("chat"):
            text = model.tokenizer.apply_chat_template(
                row["chat"], tokenize=False, add_generation_prompt=True
            )
        if text:
            settings = Settings(
                max_new_tokens=row["max_new_tokens"], stop=tuple(row.get("stop") or ())
            )
            assert_exact(model, peer, Ask(text, chat=False), settings)


def test_int4_parts_by_rounding_ties_alone_and_in_strict_mode_never(embedded):
    """And the layers, which were published in 4 bits, lose next to nothing."""
    model = load(device="cpu", dtype="int4")
    (preset,) = (preset for preset in PRESETS if preset["id"] == "rename-in-code")
    ask = Ask(preset["prompt"], preset["answer_prefix"], preset["chat"])
    for settings in (
        Settings(max_new_tokens=NEW_TOKENS),
        Settings(max_new_tokens=NEW_TOKENS, k=6, adaptive=False, fixed_width=7),
        Settings(max_new_tokens=NEW_TOKENS, k=2, adaptive=False, fixed_width=3),
    ):
        *events, compared = model.run(ask, settings)
        lane = trace.lanes(events)["pld"]
        assert lane.start.dtype == "int4" and not lane.start.notices
        assert list(lane.laws()) == []
        assert compared.verdict in (["same"] if settings.fixed_width else ["same", "tie"])
    layer = AutoModelForCausalLM.from_pretrained(embedded, dtype=torch.float32).model.layers[5]
    for weight in (layer.self_attn.q_proj.weight, layer.mlp.down_proj.weight):
        assert (fitted(weight, 4).levels - weight).norm() < 0.004 * weight.norm()
