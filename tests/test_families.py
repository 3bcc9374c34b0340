"""Every family of the table beyond greedy search: sampled, strict, hostile drafters; encoder-
decoder models; and the architectures that cannot roll back, refused and nothing between."""

import random
from collections import Counter
from dataclasses import replace

import pytest
import toy
import torch
from families import (
    ENCODER_DECODER,
    FAMILIES,
    LETTERS,
    LIMIT,
    NO_LIMIT,
    NOT_STRICT,
    REFUSED,
    dynamic,
    longrope,
    longrope_in_some_layers,
    model,
    model_of,
    network,
    prompt_of,
    recompute,
    reference,
    stray_window,
)

from pld_core import trace
from pld_core.decoder import decode
from pld_core.events import Match, Pass, Prefill, Prompt, Start
from pld_core.lookup import Draft, build
from pld_core.models.errors import ModelError
from pld_core.models.fused import FusedNetwork
from pld_core.models.loading import _check_rollback
from pld_core.settings import Sampling, Settings, SettingsError

SAMPLED = Sampling(temperature=1.1, top_p=0.95, seed=3)
LONG = 24
ALL = pytest.mark.parametrize("family", FAMILIES)
BOTH = pytest.mark.parametrize("family", ENCODER_DECODER)


def text_of(ids):
    return "".join(chr(97 + i) for i in ids)


def events(model, ids, settings, lookup=None, target=None, extra=()):
    def as_prompt(ids):
        return Prompt(list(ids), list(text_of(ids)), len(ids))

    start = Start(
        lane="pld",
        model=model.name,
        revision="",
        device="cpu",
        dtype="float32",
        versions={},
        settings=settings.to_json(),
        prompt=as_prompt(ids),
        eos=[],
        context_limit=None,
        reference=as_prompt(extra) if extra else None,
    )
    target = target or model.target(settings, len(ids))
    lookup = lookup or build(settings, extra)
    return decode(start, target, lookup, toy.Pieces(text_of, {}), settings)


def lane_of(*arguments, lawful=True, **named):
    (lane,) = trace.lanes(events(*arguments, **named)).values()
    assert not lawful or list(lane.laws()) == []
    return lane


@ALL
def test_one_seed_gives_one_text_with_drafts_and_without(family):
    tiny = model(family, 1)
    accepted = Counter()
    for seed in range(2):
        ids = prompt_of(family, seed + 5)
        settings = Settings(k=4, n_max=2, max_new_tokens=LONG, sampling=replace(SAMPLED, seed=seed))
        lane = lane_of(tiny, ids, settings)
        assert lane.ids == lane_of(tiny, ids, settings.plain()).ids
        accepted.update(step.accepted for step in lane.passes if step.draft)
    assert accepted


@pytest.mark.parametrize("family", [*FAMILIES, *ENCODER_DECODER])
def test_strict_mode_is_exact_or_refused(family):
    tiny, ids = model(family), prompt_of(family, 2)
    settings = Settings(k=4, max_new_tokens=LONG, fixed_width=6)
    if family in NOT_STRICT:
        with pytest.raises(SettingsError) as caught:
            tiny.target(settings, len(ids))
        kind = tiny.network.config.model_type
        reason = f"Strict mode does not run on tiny {family} ({kind}): {NOT_STRICT[family]}."
        assert str(caught.value) == reason
        return
    expected = reference(tiny.network, ids, LONG)
    plain, lane = (lane_of(tiny, ids, each) for each in (settings.plain(), settings))
    assert plain.ids == lane.ids == expected
    assert margins(plain) == margins(lane)
    assert {step.width for step in [*plain.passes, *lane.passes]} == {tiny.exact_width(6)}


def margins(lane):
    return [margin for step in [lane.prefill, *lane.passes] for margin in step.margins]


@pytest.mark.parametrize("family", ["GPT-2", "OPT", "Falcon", "Mistral, window 8", "Phi"])
def test_padding_beyond_the_model_s_positions_changes_nothing(family):
    tiny = model(family)
    ids = prompt_of(family, 3, LIMIT - 5)
    settings = Settings(k=4, max_new_tokens=99, fixed_width=9)
    plain, lane = (lane_of(tiny, ids, each) for each in (settings.plain(), settings))
    free = lane_of(tiny, ids, Settings(k=0, max_new_tokens=99))
    assert plain.ids == lane.ids == free.ids
    assert [one.end.reason for one in (plain, lane, free)] == ["context_full"] * 3
    assert len(lane.ids) == 6


def test_padding_beyond_the_model_s_positions_turns_no_other():
    tiny = model_of(dynamic())
    fused = replace(tiny, fused=FusedNetwork(dynamic()))
    ids = prompt_of("dynamic", 3, LIMIT - 9)
    settings = Settings(k=4, max_new_tokens=99, fixed_width=9)
    free = lane_of(tiny, ids, Settings(k=0, max_new_tokens=99))
    for one in (tiny, fused):
        for lane in (lane_of(one, ids, settings.plain()), lane_of(one, ids, settings)):
            assert (lane.ids, lane.end.reason) == (free.ids, "context_full")
            assert margins(lane) == pytest.approx(margins(free), abs=1e-3)


class Hostile:
    """Proposes what `make(context, k)` says, whatever was asked for."""

    def __init__(self, make):
        self.context, self._make = [], make

    def extend(self, tokens):
        self.context += tokens

    def propose(self, k):
        draft = self._make(self.context, k)
        return Draft(draft, Match(0, 1, "prompt")) if draft else Draft()


def hostile(ids, output):
    random_ = random.Random(5)
    whole = ids + output

    def oracle(context, k):
        return whole[len(context) : len(context) + k]

    def one_wrong(context, k):
        draft = oracle(context, k)
        place = random_.randrange(k)
        return [(t + (i == place)) % LETTERS for i, t in enumerate(draft)]

    return {
        "random": lambda context, k: [random_.randrange(LETTERS) for _ in range(k)],
        "out of vocabulary": lambda context, k: [whole[len(context)], LETTERS, 0][:k],
        "negative": lambda context, k: [-1] * k,
        "too long": lambda context, k: oracle(context, k) + [3] * 50,
        "constant": lambda context, k: [7] * k,
        "oracle": oracle,
        "oracle with one wrong token": one_wrong,
    }


@pytest.mark.parametrize("family", ["Llama", "Mistral, window 8", "Mixtral", "LFM2", "T5"])
def test_no_drafter_can_change_the_output(family):
    tiny, ids = model(family), prompt_of(family, 4)
    output = reference(tiny.network, ids, LONG)
    settings = Settings(k=5, max_new_tokens=LONG)
    for name, make in hostile(ids, output + [0] * 60).items():
        lane = lane_of(tiny, ids, settings, Hostile(make), lawful=False)
        assert lane.ids == output, name
        if name == "oracle":
            assert max(step.accepted for step in lane.passes) == 5


@pytest.mark.parametrize("kind", ["mixed", "window", "prompt"])
def test_a_window_is_crossed_in_the_prompt_and_in_the_output(kind):
    family = {"mixed": "Gemma3, window 8"}.get(kind, "Mistral, window 8")
    tiny = model(family, 1)
    for length in (1, 7, 8, 9) if kind != "prompt" else (40,):
        ids = prompt_of(family, length, length)
        output = reference(tiny.network, ids, LONG)
        for settings in (Settings(k=9), Settings(k=9, fixed_width=10)):
            settings = replace(settings, max_new_tokens=LONG)
            draft = iter([3, 9, 0, 8, 1, 7] * 9)

            def right(context, k, whole=ids + output, draft=draft):
                tokens, count = whole[len(context) :][:k], next(draft)
                return tokens[:count] + [(t + 1) % LETTERS for t in tokens[count : count + 1]]

            assert lane_of(tiny, ids, settings, Hostile(right), lawful=False).ids == output
            assert lane_of(tiny, ids, settings).ids == output


@BOTH
def test_an_encoder_decoder_copies_from_the_encoder_s_text(family):
    tiny = model(family)
    accepted, copied = Counter(), 0
    greedy = Settings(k=5, n_max=2, max_new_tokens=LONG)
    sampled = replace(greedy, search="prompt", sampling=SAMPLED)
    for seed in range(6):
        ids = prompt_of(family, seed, 60)
        expected = reference(tiny.network, ids, LONG)
        other = lane_of(tiny, ids, sampled.plain()).ids
        for settings in (greedy.plain(), greedy, replace(greedy, search="prompt"), sampled):
            lane = lane_of(tiny, ids, settings)
            assert lane.ids == (other if settings is sampled else expected)
            accepted.update(step.accepted for step in lane.passes)
            matched = [p for p in lane.passes if p.match and p.match.region == "prompt"]
            copied += sum(step.accepted for step in matched)
    assert copied > 0
    assert len(accepted) > 2


@BOTH
def test_every_count_of_accepted_tokens_leaves_an_encoder_decoder_s_cache_right(family):
    tiny, ids = model(family), prompt_of(family, 7)
    output = reference(tiny.network, ids, 34)
    script = iter([6, 0, 5, 1, 4, 2, 3, *[2] * 34])

    def draft(context, k):
        tokens, right = (ids + output)[len(context) :][:k], next(script)
        return tokens[:right] + [(t + 1) % LETTERS for t in tokens[right:]]

    settings = Settings(k=6, max_new_tokens=34)
    seen, written = Counter(), []
    first = tiny.network.generation_config.decoder_start_token_id
    for event in events(tiny, ids, settings, Hostile(draft)):
        if not isinstance(event, (Prefill, Pass)):
            continue
        before = len(written)
        written += event.kept
        with torch.inference_mode():
            logits = tiny.network(
                input_ids=torch.tensor([ids]),
                decoder_input_ids=torch.tensor([[first, *written[:-1]]]),
                use_cache=False,
            ).logits[0, before:]
        assert logits.argmax(-1).tolist() == event.kept
        if isinstance(event, Pass):
            seen[event.accepted] += 1
    assert written == output
    assert set(seen) == set(range(7))


@BOTH
def test_an_encoder_decoder_s_answer_ends_where_its_positions_do(family):
    tiny, ids = model(family), prompt_of(family, 1, 30)
    settings = Settings(k=5, max_new_tokens=LIMIT + 20)
    lane = lane_of(tiny, ids, settings)
    expected = LIMIT + 20 if family in NO_LIMIT else LIMIT
    assert len(lane.ids) == expected
    assert lane.end.reason == ("length" if family in NO_LIMIT else "context_full")
    assert lane.ids[:60] == reference(tiny.network, ids, 60)


@pytest.mark.parametrize("family", ["Llama", "T5"])
def test_a_reference_text_is_copied_from_and_never_read(family):
    tiny, ids = model(family, 1), prompt_of(family, 9)
    settings = Settings(k=6, max_new_tokens=LONG)
    output = reference(tiny.network, ids, LONG)
    lane = lane_of(tiny, ids, settings, extra=[*output[:12], 15, *output[12:]])
    assert lane.ids == lane_of(tiny, ids, settings).ids == output
    assert lane.start.prompt.ids == ids
    copied = [p for p in lane.passes if p.match and p.match.region == "reference"]
    assert sum(step.accepted for step in copied) > 3


@pytest.mark.parametrize("family", [*FAMILIES, *ENCODER_DECODER])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_good_family_is_refused(family, dtype):
    for seed in range(2):
        tiny = network.__wrapped__(family, seed).to(dtype)
        _check_rollback(replace(model(family), network=tiny))


@pytest.mark.parametrize("family", REFUSED)
def test_an_architecture_that_cannot_roll_back_is_refused_by_name(family):
    for seed in range(2):
        tiny = model(family, seed)
        with pytest.raises(ModelError) as caught:
            _check_rollback(tiny)
        kind = tiny.network.config.model_type
        assert str(caught.value).startswith(f"tiny {family} ({kind}) cannot run here: ")
        assert str(caught.value).count(".") - str(caught.value).split(")")[0].count(".") == 1


def test_a_window_that_the_architecture_does_not_know_is_none():
    tiny, ids = model_of(stray_window()), prompt_of("Llama", 1)
    output = recomputed(tiny.network, ids, LONG)
    for settings in (Settings(k=0), Settings(k=6), Settings(k=6, fixed_width=7)):
        assert lane_of(tiny, ids, replace(settings, max_new_tokens=LONG)).ids == output


@pytest.mark.parametrize("length", [20, 40, 41, 60])
@pytest.mark.parametrize("width", [0, 7])
@pytest.mark.parametrize("made", [longrope, longrope_in_some_layers])
def test_the_angles_of_longrope_never_change_within_an_answer(made, length, width):
    tiny, ids = model_of(made(border=40)), prompt_of("Phi3", 1, length)
    expected = recomputed(tiny.network, ids, min(30, (40 if length <= 40 else LIMIT) - length + 1))
    for k in (0, 6):
        lane = lane_of(tiny, ids, Settings(k=k, max_new_tokens=30, fixed_width=width))
        assert lane.ids == expected
        assert lane.end.reason == ("context_full" if length <= 40 else "length")


def recomputed(network, ids, limit):
    """The greedy output without any cache."""
    output = []
    for _ in range(limit):
        output.append(int(recompute(network, ids + output)[-1].argmax()))
    return output
