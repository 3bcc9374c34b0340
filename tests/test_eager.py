"""On tiny transformers models of many families, in float32: the tokens are those of plain
decoding and of transformers' own greedy search, and the cache is right after every pass."""

import random
from collections import Counter

import pytest
import toy
import torch
from families import FAMILIES, LETTERS, LIMIT, NO_LIMIT, network, prompt_of, recompute, reference

from pld_core import trace
from pld_core.decoder import decode
from pld_core.ends import Ends
from pld_core.events import Match, Pass, Prefill, Prompt, Start
from pld_core.lookup import Draft, build
from pld_core.models.eager import EagerTarget
from pld_core.models.sequence import context_limit
from pld_core.sampling import Chooser
from pld_core.settings import Settings

ALL = pytest.mark.parametrize("family", FAMILIES)


def text_of(ids):
    return "".join(chr(97 + i) for i in ids)


def events(model, ids, settings, eos=(), lookup=None, target=None):
    start = Start(
        lane="pld",
        model="tiny",
        revision="",
        device="cpu",
        dtype="float32",
        versions={},
        settings=settings.to_json(),
        prompt=Prompt(ids, list(text_of(ids)), len(ids)),
        eos=list(eos),
        context_limit=LIMIT,
    )
    return decode(
        start,
        target or new_target(model, settings, ids, eos),
        lookup or build(settings),
        toy.Pieces(text_of, {}),
        settings,
    )


def new_target(model, settings, ids, eos=()):
    return EagerTarget(model, Chooser(settings, len(ids), list(eos), torch.device("cpu")))


def lane_of(*arguments, **named):
    (lane,) = trace.lanes(events(*arguments, **named)).values()
    assert list(lane.laws()) == []
    return lane


class Right:
    """Drafts what is right for so many tokens, then one wrong token, then right ones again."""

    def __init__(self, prompt, output, right):
        self.context, self._right = [], right
        self._whole = prompt + output

    def extend(self, tokens):
        self.context += tokens

    def propose(self, k):
        right = next(self._right)
        draft = self._whole[len(self.context) : len(self.context) + k]
        if right < len(draft):
            draft[right] = (draft[right] + 1) % LETTERS
        return Draft(draft, Match(0, 1, "prompt")) if draft else Draft()


@ALL
def test_pld_and_plain_are_the_greedy_search_of_transformers(family):
    accepted = Counter()
    for seed in range(2):
        model = network(family, seed)
        ids = prompt_of(family, seed)
        expected = reference(model, ids, 30)
        for settings in (
            Settings(k=0, max_new_tokens=30),
            Settings(k=4, max_new_tokens=30),
            Settings(k=10, n_max=2, policy="oldest", search="prompt", max_new_tokens=30),
        ):
            lane = lane_of(model, ids, settings)
            assert lane.ids == expected, (seed, settings)
            if settings.k == 4:
                accepted.update(step.accepted for step in lane.passes)
    assert len(accepted) > 1  # something was accepted, something was not


@ALL
def test_every_count_of_accepted_tokens_leaves_the_cache_right(family):
    """After each pass the next token, its probability and its margin are those of a forward
    over the whole context without a cache."""
    model = network(family)
    ids = prompt_of(family, 7)
    settings = Settings(k=6, max_new_tokens=34)
    output = reference(model, ids, 34)
    script = iter([6, 0, 5, 1, 4, 2, 3, *[2] * 34])
    target = new_target(model, settings, ids)
    seen, context = Counter(), list(ids)
    for event in events(model, ids, settings, lookup=Right(ids, output, script), target=target):
        if not isinstance(event, (Prefill, Pass)):
            continue
        before = len(context)
        context += event.kept
        limit = 2**31 + len(context) - 1 if family in NO_LIMIT else LIMIT
        assert target.room == limit - (len(context) - 1)
        logits = recompute(model, context)[before - 1 : len(context) - 1]
        assert logits.argmax(-1).tolist() == event.kept
        best = logits.topk(2).values
        chances = logits.softmax(-1).max(-1).values
        assert torch.allclose(torch.tensor(event.probabilities), chances, atol=1e-3)
        assert torch.allclose(torch.tensor(event.margins), best[:, 0] - best[:, 1], atol=1e-3)
        if isinstance(event, Pass):
            seen[event.accepted] += 1
            if event.wanted:
                wanted = recompute(model, context[: before + event.accepted])[-1].softmax(-1)
                likeliest = wanted.topk(5)
                assert [c.id for c in event.wanted] == likeliest.indices.tolist()
                assert [c.p for c in event.wanted] == pytest.approx(
                    likeliest.values.tolist(), abs=1e-3
                )
    assert context == ids + output
    assert set(seen) == set(range(7))


@pytest.mark.parametrize("family", ["Llama", "Mistral, window 8", "GPT-2"])
def test_every_token_may_be_the_one_that_ends_the_answer(family):
    model = network(family, 1)
    ids = prompt_of(family, 1)
    output = reference(model, ids, 24)
    for token in sorted(set(output)):
        expected = reference(model, ids, 24, [token])
        assert expected == output[: output.index(token) + 1]
        for k in (1, 3, 8):
            settings = Settings(k=k, max_new_tokens=24)
            for lookup in (None, Right(ids, output, iter([8] * 24))):
                (lane,) = trace.lanes(
                    events(model, ids, settings, [token], lookup=lookup)
                ).values()
                assert (lane.ids, lane.end.reason) == (expected, "eos")


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 7])
def test_no_answer_is_longer_than_was_asked(limit):
    model = network("Llama")
    ids = prompt_of("Llama", 2)
    assert lane_of(model, ids, Settings(max_new_tokens=limit)).ids == reference(model, ids, limit)


@pytest.mark.parametrize("family", ["Llama", "Mistral, window 8", "GPT-2"])
@pytest.mark.parametrize("room", [0, 1, 2, 5, 11])
def test_the_context_of_the_model_is_filled_and_never_overrun(family, room):
    model = network(family)
    ids = prompt_of(family, 3, 160 - room)
    plain = lane_of(model, ids, Settings(k=0))
    assert (len(plain.ids), plain.end.reason) == (room + 1, "context_full")
    output = plain.ids + [0] * 40
    for lookup in (None, Right(ids, output, iter([99] * 40))):
        (lane,) = trace.lanes(events(model, ids, Settings(k=12), lookup=lookup)).values()
        assert (lane.ids, lane.end.reason) == (plain.ids, "context_full")


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 10])
def test_a_sliding_window_is_crossed_while_decoding(length):
    # prompts shorter than the window, as long, and longer
    model = network("Mistral, window 8")
    ids = prompt_of("window", length, length)
    output = reference(model, ids, 40)
    random_ = random.Random(length)
    for k in (1, 3, 7, 8, 9, 12):
        script = iter([random_.randint(0, k) for _ in range(60)])
        lookup = Right(ids, output, script)
        settings = Settings(k=k, max_new_tokens=40)
        (lane,) = trace.lanes(events(model, ids, settings, lookup=lookup)).values()
        assert lane.ids == output
        assert lane_of(model, ids, settings).ids == output


def test_two_targets_on_one_model_take_turns_without_touching_each_other():
    model = network("Llama", 2)
    prompts = [prompt_of("Llama", seed) for seed in (4, 5)]
    settings = Settings(max_new_tokens=30)
    turns = [events(model, ids, settings) for ids in prompts]
    kept = [[], []]
    for _ in range(40):
        for place, lane in enumerate(turns):
            event = next(lane, None)
            kept[place] += getattr(event, "kept", [])
    assert kept == [reference(model, ids, 30) for ids in prompts]


@ALL
def test_the_context_limit_is_found_under_each_family_s_name(family):
    expected = None if family in NO_LIMIT else LIMIT
    assert context_limit(network(family).config) == expected


def test_ends_are_those_of_the_start_event():
    # the ids that end an answer come with the start event, not from the model's own config
    model = network("Llama", 1)
    ids = prompt_of("Llama", 1)
    output = reference(model, ids, 24)
    assert Ends([output[2]], (), 24).after(output[2], "") == "eos"
    lane = trace.lanes(events(model, ids, Settings(max_new_tokens=24), [output[2]]))["pld"]
    assert lane.ids == output[: output.index(output[2]) + 1]
