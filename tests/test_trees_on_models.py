"""On tiny transformers models of every family, in float32: with trees of drafts the tokens are
those of plain decoding, and after every pass the cache is one that read the answer alone."""

import random
from collections import Counter
from copy import deepcopy
from dataclasses import replace

import pytest
import tiny
import toy
import torch
from families import ENCODER_DECODER, FAMILIES, LETTERS, model, network, prompt_of, reference

from pld_core import trace
from pld_core.decoder import decode
from pld_core.events import Branch, Prompt, Start
from pld_core.lookup import Draft
from pld_core.models.fused import FusedNetwork, FusedTarget
from pld_core.prompting import Ask
from pld_core.replay import what_if
from pld_core.sampling import Chooser
from pld_core.settings import Sampling, Settings

LONG = 16
OURS = ["Llama", "Qwen2", "Qwen3"]
WINDOWS = {name for name in FAMILIES if "window" in name or "chunks" in name}
NO_TREES = {*WINDOWS, *ENCODER_DECODER, "Falcon, ALiBi", "Bloom", "MPT", "LFM2"}
EVERY = pytest.mark.parametrize(
    "family", [*FAMILIES, *ENCODER_DECODER, *(f"{name}, ours" for name in OURS)]
)


def network_of(family):
    return network(family.removesuffix(", ours"), 1)


def target_of(family, settings, length):
    if family.endswith(", ours"):
        chooser = Chooser(settings, length, [], torch.device("cpu"))
        return FusedTarget(FusedNetwork(deepcopy(network_of(family))), chooser, 1)
    return model(family, 1).target(settings, length)


def events(family, ids, settings, lookup, target):
    prompt = Prompt(ids, [""] * len(ids), len(ids))
    start = Start("pld", family, "", "cpu", "float32", {}, settings.to_json(), prompt)
    text = toy.Pieces(lambda ids: "".join(chr(97 + i) for i in ids), {})
    return decode(start, target, lookup, text, settings)


@EVERY
def test_a_tree_is_read_or_its_first_branch_is(family):
    settings = Settings(k=4, branches=4, max_new_tokens=LONG)
    ids = prompt_of(family, 5)
    expected = reference(network_of(family), ids, LONG)
    random_ = random.Random(family)
    target = target_of(family, settings, len(ids))
    assert (family in NO_TREES) is (
        not family.endswith(", ours") and model(family, 1).why_no_trees(settings) is not None
    )
    around = toy.Trees(
        ids + expected, lambda k: [random_.randint(0, k) for _ in range(4)], LETTERS
    )
    accepted, context = Counter(), list(ids)
    for event in events(family, ids, settings, around, target):
        context += getattr(event, "kept", [])
        if event.type == "pass":
            accepted[bool(event.parents), event.accepted] += 1
    assert context == ids + expected
    assert {with_tree for with_tree, _ in accepted} >= {family not in NO_TREES}
    assert family not in NO_TREES or not any(with_tree for with_tree, _ in accepted)


@pytest.mark.parametrize("family", ["Llama", "Llama, ours", "Qwen3, ours", "GPT-2", "Mixtral"])
def test_every_count_along_every_branch_leaves_the_cache_right(family):
    ids = prompt_of(family, 7)
    settings = Settings(k=4, branches=3, max_new_tokens=99)
    plain = network_of(family)
    expected = reference(plain, ids, 99)
    script = [(branch, right) for branch in range(3) for right in range(5)]
    turns = iter(script)

    def right(k):
        branch, right = next(turns, (0, 0))
        return [min(right, k) if own == branch else 0 for own in range(3)]

    target = target_of(family, settings, len(ids))
    seen, context = [], list(ids)
    for event in events(family, ids, settings, toy.Trees(ids + expected, right, LETTERS), target):
        if event.type in ("prefill", "pass"):
            before = len(context)
            context += event.kept
            with torch.inference_mode():
                logits = plain(torch.tensor([context]), use_cache=False).logits[0]
            logits = logits[before - 1 : len(context) - 1]
            assert logits.argmax(-1).tolist() == event.kept
            best, chances = logits.topk(2).values, logits.softmax(-1).max(-1).values
            assert torch.allclose(torch.tensor(event.probabilities), chances, atol=1e-3)
            assert torch.allclose(torch.tensor(event.margins), best[:, 0] - best[:, 1], atol=1e-3)
            assert target.room == 160 - (len(context) - 1)
        if event.type == "pass":
            seen.append(event.accepted)
        if len(seen) == len(script):
            break
    assert all(got >= wanted for got, (_, wanted) in zip(seen, script))
    assert set(seen) == set(range(5))


SAMPLED = Sampling(temperature=1.1, top_p=0.95, seed=3)
PENALISED = Sampling(repetition_penalty=1.3, no_repeat_ngram=5, frequency_penalty=0.2)


@pytest.mark.parametrize("family", ["Llama, ours", "GPT-NeoX"])
@pytest.mark.parametrize("sampling", [SAMPLED, PENALISED, replace(SAMPLED, no_repeat_ngram=4)])
def test_each_node_s_choice_knows_the_way_to_it(family, sampling):
    """Noise and processors see a node's own depth and the tokens above it."""
    ids = prompt_of(family, 8)
    settings = Settings(k=5, branches=3, max_new_tokens=40, sampling=sampling)

    def run(lookup, settings):
        target = target_of(family, settings, len(ids))
        (lane,) = trace.lanes(events(family, ids, settings, lookup, target)).values()
        return lane

    plain = run(toy.Trees([], lambda k: []), settings.plain()).ids
    random_ = random.Random(1)
    around = toy.Trees(ids + plain, lambda k: random_.sample(range(k + 1), min(3, k)), LETTERS)
    lane = run(around, settings)
    assert lane.ids == plain
    assert sum(step.accepted for step in lane.passes if step.parents and 0 not in step.path) > 0


@pytest.mark.parametrize("family", ["Llama, ours", "Phi"])
def test_hostile_trees_change_nothing(family):
    random_ = random.Random(2)
    ids = prompt_of(family, 9)
    expected = reference(network_of(family), ids, LONG)

    class Hostile:
        def extend(self, tokens):
            pass

        def propose(self, k):
            size = random_.randint(1, 30)
            return Draft(
                [random_.choice([*range(LETTERS), -1, LETTERS, 2**40]) for _ in range(size)],
                parents=[random_.randint(-1, max(0, node)) for node in range(size)],
                branches=[Branch(random_.randint(-1, size), toy.NOWHERE) for _ in range(5)],
            )

    for _ in range(5):
        settings = Settings(k=6, branches=8, max_new_tokens=LONG)
        target = target_of(family, settings, len(ids))
        found = events(family, ids, settings, Hostile(), target)
        (lane,) = trace.lanes(found).values()
        assert lane.ids == expected
        assert any(step.parents for step in lane.passes)


@pytest.mark.parametrize("family", ["Llama, ours", "GPT-2"])
@pytest.mark.parametrize("room", [0, 1, 2, 5, 11])
def test_trees_fill_the_context_and_never_overrun_it(family, room):
    ids = prompt_of(family, 3, 160 - room)
    expected = reference(network_of(family), ids, room) if room else []
    settings = Settings(k=9, branches=4)
    target = target_of(family, settings, len(ids))
    around = toy.Trees(ids + expected, lambda k: [0, k, k // 2], LETTERS)
    (lane,) = trace.lanes(events(family, ids, settings, around, target)).values()
    assert lane.ids[:-1] == expected
    assert lane.end.reason == "context_full"


def test_strict_mode_drafts_chains_and_says_so():
    tiny = model("Llama", 1)
    settings = Settings(k=4, branches=4, fixed_width=6)
    assert "strict" in tiny.why_no_trees(settings)
    ids = prompt_of("Llama", 1)
    target = tiny.target(settings, len(ids))
    around = toy.Trees(ids + reference(tiny.network, ids, 30), lambda k: [k, 0], LETTERS)
    settings = replace(settings, max_new_tokens=LONG)
    (lane,) = trace.lanes(events("Llama", ids, settings, around, target)).values()
    assert not any(step.parents for step in lane.passes)
    assert {step.width for step in lane.passes} == {tiny.exact_width(6)}


def test_a_run_records_the_branches_that_it_drafted_and_says_why_they_are_fewer():
    speaks = tiny.model("Llama", 1)
    for settings, branches in (
        (Settings(k=4, branches=4, adaptive=False, max_new_tokens=40), 4),
        (Settings(k=4, branches=4, fixed_width=6, max_new_tokens=9), 1),
    ):
        found = trace.lanes(speaks.run(Ask(tiny.PROMPT, chat=False), settings))
        assert found["pld"].ids == found["plain"].ids
        start = found["pld"].start
        assert start.settings["branches"] == branches
        assert any("one branch" in notice for notice in start.notices) is (branches == 1)
        assert any(step.parents for step in found["pld"].passes) is (branches == 4)
        again = what_if(found["pld"], Settings.from_json(start.settings))
        assert [s.draft for s in again.passes] == [s.draft for s in found["pld"].passes]
