"""A long prompt is read in parts: every engine computes from them what one forward over the whole
gives, the same to the bit whether or not somebody asks for the parts."""

from dataclasses import replace

import pytest
import torch
from families import (
    ENCODER_DECODER,
    FAMILIES,
    NOT_STRICT,
    longrope,
    longrope_in_some_layers,
    model,
    model_of,
    network,
    prompt_of,
    recompute,
    stray_window,
)

from pld_core.models.fused import FusedNetwork
from pld_core.models.graphed import GraphedNetwork
from pld_core.models.sequence import SequenceTarget
from pld_core.settings import Settings

FREE, STRICT = Settings(k=5), Settings(k=5, fixed_width=6)
OURS = ["Llama", "Mistral", "Qwen2", "Qwen3"]
STRICTLY = [family for family in FAMILIES if family not in NOT_STRICT]
MORE = prompt_of("more", 0, 6)


@pytest.fixture
def part(request, monkeypatch):
    monkeypatch.setattr(SequenceTarget, "part", request.param)
    return request.param


def parts_of(*sizes):
    return pytest.mark.parametrize("part", sizes, indirect=True)


def holds(make, part, ids, wanted, reads_parts=True):
    """wanted [len(ids + MORE), V]: what the logits of the prompt and of MORE are."""
    asked = make()
    read = list(asked.read(ids))
    assert read == (list(range(part, len(ids), part)) if reads_parts else [])
    logits = asked.prefill(ids).logits.clone()
    close(logits, wanted[len(ids) - 1 : len(ids)])
    close(asked.forward(MORE).logits, wanted[len(ids) :])
    asked.commit(2)  # also back over a window's edge
    close(asked.forward(MORE[2:]).logits, wanted[len(ids) + 2 :])
    left = make()
    next(left.read(ids), None)
    assert torch.equal(left.prefill(ids).logits, logits)
    assert torch.equal(make().prefill(ids).logits, logits)


def close(got, wanted):
    assert got.shape == wanted.shape
    assert (got - wanted).abs().max() <= 1e-4 * wanted.std()


def every_length(model, settings, part):
    for length in (part, part + 1, 2 * part, 40):
        ids = prompt_of(model.name, length, length)
        wanted = recompute(model.network, ids + MORE)
        holds(lambda: model.target(settings, length), part, ids, wanted)


def graphed(network):
    return GraphedNetwork(FusedNetwork(network), shortest=16)


@parts_of(5, 9)  # shorter than a window of 8, and longer
@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_that_transformers_reads(family, part):
    every_length(model(family), FREE, part)


@parts_of(5, 9)
@pytest.mark.parametrize("family", STRICTLY)
def test_a_prompt_that_transformers_reads_in_strict_mode(family, part):
    every_length(model(family), STRICT, part)


@parts_of(5, 9)
@pytest.mark.parametrize("family", OURS)
@pytest.mark.parametrize("engine", [FusedNetwork, graphed])
def test_a_prompt_that_our_own_passes_read(family, engine, part, monkeypatch):
    whole = "MistralConfig", "MistralForCausalLM", {"sliding_window": None}
    monkeypatch.setitem(FAMILIES, "Mistral", whole)
    own = replace(model(family), fused=engine(network.__wrapped__(family)))  # takes its weights
    for settings in (FREE, STRICT):
        every_length(own, settings, part)


@parts_of(5, 9)
@pytest.mark.parametrize("settings", [FREE, STRICT])
def test_a_window_that_the_architecture_does_not_know(settings, part):
    every_length(model_of(stray_window()), settings, part)


@parts_of(9)
def test_a_window_keeps_no_more_than_it_sees_between_the_parts(part):
    tiny, ids = model("Mistral, window 8"), prompt_of("window", 1, 40)
    target = tiny.target(FREE, len(ids))
    for _ in target.read(ids):
        assert {layer.keys.shape[2] for layer in target._cache.layers} == {8 - 1}


@parts_of(7, 50)
@pytest.mark.parametrize("length", [20, 42, 49, 60, 110])
@pytest.mark.parametrize("settings", [FREE, STRICT])
@pytest.mark.parametrize("made", [longrope, longrope_in_some_layers])
def test_no_part_is_turned_by_other_angles_than_its_prompt(made, settings, length, part):
    """Beyond its border "longrope" has other angles, and a first part that ends before it would
    not know."""
    tiny, ids = model_of(made(border=48)), prompt_of("Phi3", 1, length)
    wanted = recompute(tiny.network, ids + MORE)
    in_parts = length <= 48 or part > 48
    holds(lambda: tiny.target(settings, length), part, ids, wanted, in_parts)


@parts_of(5)
@pytest.mark.parametrize("family", ENCODER_DECODER)
def test_an_encoder_reads_its_text_in_one_go(family, part):
    tiny, ids, seen = model(family), prompt_of(family, 1, 40), []

    def see(encoder, args, named):
        seen.append(named["input_ids"].tolist())

    with tiny.network.get_encoder().register_forward_pre_hook(see, with_kwargs=True):
        target = tiny.target(FREE, len(ids))
        assert list(target.read(ids)) == []
        target.prefill(ids)
    assert seen == [[ids]]
