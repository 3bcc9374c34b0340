"""On transformers models with real tokenizers: however an answer ends, ids, text, reason, counts
and cache of PLD are those of plain decoding, and of transformers' own generate."""

import inspect
import json
import random
from dataclasses import replace
from functools import cache

import pytest
import tiny
import torch
from tiny import PROMPT, Right, generated, run

from pld_core.decoder import PromptError
from pld_core.models.fused import FusedNetwork
from pld_core.models.loading import load
from pld_core.models.model import Model
from pld_core.prompting import Ask
from pld_core.settings import POLICIES, Sampling, Settings

KINDS = [("Llama", "byte level"), ("GPT-2", "byte level"), ("Llama", "metaspace")]
ALL = pytest.mark.parametrize("of", KINDS, ids=" ".join)


@cache
def made(family, kind):
    model = tiny.model(family, 3, kind)
    lane, _ = run(model, PROMPT, Settings(k=0, max_new_tokens=40))
    return model, lane.start.prompt.ids, lane.ids


def cached(target):
    """How many positions the cache holds, whoever's cache it is."""
    cache = target._cache
    return cache.get_seq_length() if hasattr(cache, "get_seq_length") else cache.length


def outcome(lane, target):
    """What is the same for every way to decode."""
    P, T = len(lane.start.prompt.ids), len(lane.ids)
    assert (lane.end.tokens, lane.end.passes) == (T, len(lane.steps))
    assert cached(target) == P + T - 1
    assert target._ids == (lane.start.prompt.ids + lane.ids)[:-1]
    assert all(step.bonus is not None for step in lane.passes[:-1])
    assert all(step.accepted <= len(step.kept) for step in lane.passes)
    return lane.ids, lane.text, lane.end.reason


def all_ways(model, settings, answer, ask=PROMPT):
    """The outcome of plain decoding, which PLD must share with every lookup. `answer`: what
    would be said without an end."""
    plain = outcome(*run(model, ask, settings.plain()))
    ids = model.start("x", Ask(ask, chat=False), settings).prompt.ids
    random_ = random.Random(len(answer))
    rights = [(8, None), (1, lambda: 99), (8, lambda: 99), (8, lambda: random_.randrange(9))]
    for k, right in rights:
        lookup = right and Right(ids + answer, right, len(model.tokenizer))
        got = outcome(*run(model, ask, replace(settings, k=k), lookup))
        assert got == plain, (k, got, plain)
    return plain


@pytest.fixture
def ends_with(monkeypatch):
    """Tells a model by which ids its answers end, in its generation config and its tokenizer."""

    def tell(model, ids, by_tokenizer=None):
        monkeypatch.setattr(model.network.generation_config, "eos_token_id", ids)
        monkeypatch.setattr(model.tokenizer, "_special_tokens_map", {
            **model.tokenizer._special_tokens_map, "eos_token": by_tokenizer,
        })  # fmt: skip

    return tell


# End-of-sequence tokens.


@ALL
def test_an_end_token_anywhere_in_a_draft_ends_the_answer(of, ends_with):
    model, prompt, answer = made(*of)
    places = sorted({answer.index(token) for token in answer})
    for place in places[:7] + places[-1:]:
        token = answer[place]
        ends_with(model, token)
        ids, _, reason = all_ways(model, Settings(max_new_tokens=40), answer)
        assert (ids, reason) == (answer[: place + 1], "eos")
        assert ids == generated(model.network, prompt, 40, token)


@ALL
def test_end_tokens_come_as_none_as_one_or_as_several(of, ends_with):
    model, prompt, answer = made(*of)
    a, b = answer[6], answer[11]
    settings = Settings(max_new_tokens=20)
    for told in (a, b, [a], [b], [a, b], [b, a], [a, a], None, []):
        ends_with(model, told)
        wanted = [] if told is None else [told] if isinstance(told, int) else told
        assert model.eos == wanted
        ids, _, reason = all_ways(model, settings, answer)
        assert ids == generated(model.network, prompt, 20, told or None)
        assert reason == ("eos" if wanted else "length")


def test_the_tokenizer_s_end_token_counts_where_the_model_names_none(ends_with):
    model, _, answer = made("Llama", "byte level")
    token = answer[5]
    ends_with(model, None, model.tokenizer.convert_ids_to_tokens(token))
    assert model.eos == [token]
    assert all_ways(model, Settings(max_new_tokens=20), answer)[2] == "eos"


@ALL
@pytest.mark.parametrize("least", [1, 10])
def test_no_end_token_ends_an_answer_before_its_least_length(of, least, ends_with):
    model, prompt, answer = made(*of)
    for token in (answer[0], answer[2], answer[7]):
        ends_with(model, [token, answer[30]])
        settings = Settings(max_new_tokens=30, sampling=Sampling(min_new_tokens=least))
        ids, _, _ = all_ways(model, settings, answer)
        assert len(ids) > least or len(ids) == 30
        expected = generated(
            model.network, prompt, 30, [token, answer[30]], min_new_tokens=least
        )
        assert ids == expected
        lane, _ = run(model, PROMPT, settings, Right(prompt + expected, lambda: 99))
        assert lane.ids == expected


@ALL
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_answer_is_longer_than_was_asked_however_long_the_draft(of, limit):
    model, prompt, answer = made(*of)
    settings = Settings(max_new_tokens=limit)
    ids, _, reason = all_ways(model, settings, answer)
    assert (ids, reason) == (answer[:limit], "length")
    lane, _ = run(model, PROMPT, replace(settings, k=50), Right(prompt + answer))
    assert lane.ids == ids
    assert all(len(step.draft) < limit for step in lane.passes)


def test_an_end_token_at_the_limit_is_the_reason(ends_with):
    model, _, answer = made("Llama", "byte level")
    place = next(i for i in range(4, 20) if answer.index(answer[i]) == i)
    ends_with(model, answer[place])
    for limit, reason in ((place, "length"), (place + 1, "eos"), (place + 2, "eos")):
        assert all_ways(model, Settings(max_new_tokens=limit), answer)[2] == reason


# Stop strings.


def text_of(model, ids):
    return model.tokenizer.backend_tokenizer.decode(ids, skip_special_tokens=False)


def first_end(model, answer, stops, limit):
    """(tokens kept, reason), from the text of every beginning of the answer."""
    for kept in range(1, limit + 1):
        if any(stop in text_of(model, answer[:kept]) for stop in stops):
            return kept, "stop"
    return limit, "length"


def strings(model, answer, count):
    """Pieces of the answer's text: inside a token, over borders, at its beginning and end."""
    text = text_of(model, answer)
    random_ = random.Random(7)
    yield text[:1]
    yield text[-3:]
    for _ in range(count):
        start = random_.randrange(len(text) - 8)
        yield text[start : start + random_.choice([1, 2, 3, 5, 8])]


@ALL
def test_a_stop_string_ends_the_answer_at_the_token_that_completes_it(of):
    model, prompt, answer = made(*of)
    for stop in strings(model, answer, 8):
        settings = Settings(max_new_tokens=40, stop=(stop,))
        ids, text, reason = all_ways(model, settings, answer)
        kept, why = first_end(model, answer, [stop], 40)
        assert (ids, reason) == (answer[:kept], why)
        assert text == text_of(model, ids)
        assert (stop in text) is (reason == "stop")
        if of[1] == "byte level":
            # transformers finds a string also where it begins in the prompt
            own = generated(
                model.network, prompt, 40, words=model.tokenizer, stop_strings=[stop]
            )
            assert own == ids or stop in (PROMPT[-len(stop) + 1 :] + text_of(model, own))


@ALL
def test_of_two_stop_strings_the_one_completed_first_ends(of):
    model, _, answer = made(*of)
    found = list(strings(model, answer, 6))
    for pair in zip(found, reversed(found)):
        for limit in (40, 12):
            settings = Settings(max_new_tokens=limit, stop=pair)
            ids, _, reason = all_ways(model, settings, answer)
            kept, why = first_end(model, answer, pair, limit)
            assert (ids, reason) == (answer[:kept], why)


@ALL
def test_a_stop_string_at_the_length_limit_is_the_reason(of):
    model, _, answer = made(*of)
    stop = text_of(model, answer)[14:17]
    kept, _ = first_end(model, answer, [stop], 40)
    for limit, reason in ((kept - 1, "length"), (kept, "stop"), (kept + 1, "stop")):
        settings = Settings(max_new_tokens=limit, stop=(stop,))
        ids, _, why = all_ways(model, settings, answer)
        assert (len(ids), why) == (min(limit, kept), reason)


def test_the_prompt_s_own_stop_string_ends_nothing():
    model, _, answer = made("Llama", "byte level")
    for stop in ("###END###", "fox", "\n", "ok\n"):
        assert stop in PROMPT
        ids, text, reason = all_ways(model, Settings(max_new_tokens=30, stop=(stop,)), answer)
        kept, why = first_end(model, answer, [stop], 30)
        assert (len(ids), reason) == (kept, why)
    # nor does one that begins in the prompt and ends in the answer
    first = text_of(model, answer)[:2]
    settings = Settings(max_new_tokens=8, stop=(PROMPT[-3:] + first,))
    assert all_ways(model, settings, answer)[2] == "length"


def test_an_end_token_and_a_stop_string_race_by_tokens(ends_with):
    model, _, answer = made("Llama", "byte level")
    places = [i for i in range(6, 30) if answer.index(answer[i]) == i]
    for place in places[:4]:
        ends_with(model, answer[place])
        for other in (place - 2, place, place + 2):
            stop = text_of(model, answer[: other + 1])[-4:]
            kept, _ = first_end(model, answer, [stop], 40)
            ids, _, reason = all_ways(model, Settings(max_new_tokens=40, stop=(stop,)), answer)
            assert len(ids) == min(kept, place + 1)
            assert reason == ("eos" if place < kept else "stop")


# The end of the context.


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("fixed", [0, 13])
@pytest.mark.parametrize("room", [0, 1, 2, 7, 12, 13, 25])
def test_the_context_is_filled_to_its_end_and_never_overrun(family, fixed, room, monkeypatch):
    limit = 64
    model = tiny.model(family, 5, limit=limit)
    tokens = model.tokenizer(PROMPT)["input_ids"][: limit - room]
    ask = text_of(model, tokens)
    tokens = model.tokenizer(ask)["input_ids"]
    room = limit - len(tokens)
    seen = []
    forward = type(model.network).forward

    def watched(self, *args, **inputs):
        positions = inputs.get("position_ids")
        past = inputs["cache"].get_seq_length() if inputs.get("cache") is not None else 0
        last = past + inputs["input_ids"].shape[1] - 1 if positions is None else int(positions.max())
        seen.append(last)
        return forward(self, *args, **inputs)

    watched.__signature__ = inspect.signature(forward)
    monkeypatch.setattr(type(model.network), "forward", watched)
    settings = Settings(max_new_tokens=400, fixed_width=fixed, k=min(12, (fixed or 13) - 1))
    plain, target = run(model, ask, settings.plain())
    assert (len(plain.ids), plain.end.reason) == (room + 1, "context_full")
    for lookup in (None, Right(tokens + plain.ids + [0] * 50)):
        lane, target = run(model, ask, settings, lookup)
        assert (lane.ids, lane.text, lane.end.reason) == (plain.ids, plain.text, "context_full")
        assert len(target._ids) == limit
    assert max(seen) == limit - 1


def test_a_limit_beyond_the_context_reserves_no_more_than_the_context():
    model = tiny.model("Llama", 5, limit=64)
    settings = Settings(max_new_tokens=1_000_000, k=15, fixed_width=16)
    lane, target = run(model, "the red fox", settings)
    assert lane.end.reason == "context_full"
    keys = target._cache.layers[0].keys
    assert keys.shape[2] <= 64 + 64


@pytest.mark.parametrize("fixed", [0, 9])
@pytest.mark.parametrize("room", [0, 1, 7, 8, 9, 25])
def test_our_own_forward_pass_fills_the_context_to_the_same_end(fixed, room):
    ours, theirs = fused(64), tiny.model("Llama", 5, limit=64)
    tokens = theirs.tokenizer(PROMPT)["input_ids"][: 64 - room]
    ask = text_of(theirs, tokens)
    settings = Settings(max_new_tokens=1_000_000, fixed_width=fixed, k=8)
    expected, _ = run(theirs, ask, settings.plain())
    for k, lookup in ((0, None), (8, None), (8, Right(tokens + expected.ids + [0] * 50))):
        lane, target = run(ours, ask, replace(settings, k=k), lookup)
        assert outcome(lane, target) == (expected.ids, expected.text, "context_full")
        assert target._cache.layers[0].shape[1] <= 64 + 64


def fused(limit):
    network = tiny.network.__wrapped__("Llama", 5, len(tiny.tokenizer()), limit)  # a fresh one
    return Model("fused", "test", network, tiny.tokenizer(), FusedNetwork(network))


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_a_prompt_beyond_the_context_is_refused_with_both_numbers(family):
    model = tiny.model(family, 5, limit=64)
    ask = Ask(PROMPT * 3, chat=False)
    count = len(model.tokenizer(PROMPT * 3)["input_ids"])
    with pytest.raises(PromptError, match=f"{count} of 64 tokens"):
        model.start("pld", ask, Settings())
    # and the next one runs
    assert len(run(model, "the red fox", Settings(max_new_tokens=3))[0].ids) == 3


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_end_is_the_same_in_strict_mode(family, dtype, ends_with):
    words = tiny.tokenizer()
    network = tiny.network.__wrapped__(family, 6, len(words), 128).to(dtype)
    model = replace(tiny.model(family, 6, limit=128), network=network)
    strict = Settings(max_new_tokens=30, k=7, fixed_width=8)
    base, _ = run(model, PROMPT, strict.plain())
    answer, prompt = base.ids, base.start.prompt.ids
    cases = [strict, replace(strict, max_new_tokens=2), replace(strict, max_new_tokens=200)]
    cases += [replace(strict, stop=(stop,)) for stop in list(strings(model, answer, 4))]
    cases += [replace(strict, sampling=Sampling(temperature=0.9, top_p=0.9, seed=4))]
    for settings in cases:
        plain, _ = run(model, PROMPT, settings.plain())
        for lookup in (None, Right(prompt + plain.ids), Right(prompt + plain.ids, lambda: 2)):
            lane, target = run(model, PROMPT, settings, lookup)
            assert (lane.ids, lane.text, lane.end.reason) == (
                plain.ids, plain.text, plain.end.reason,
            )  # fmt: skip
            assert cached(target) == len(prompt) + len(lane.ids) - 1
            # not a single bit apart
            assert lane.margins == plain.margins


# Everything at once.


def anything(random_, model, k):
    """Settings that no one would choose together."""
    pick, V = random_.choice, len(model.tokenizer)
    half = model.dtype != "float32"
    return Settings(
        k=k,
        n_max=pick([1, 3]),
        policy=pick(POLICIES),
        max_new_tokens=pick([1, 2, 5, 30, 90]),
        stop=tuple(random_.sample(["e", " ", "th", "##", "\n", "fox"], pick([0, 0, 1, 2]))),
        fixed_width=k + 1 if half or random_.random() < 0.3 else 0,
        sampling=Sampling(
            temperature=pick([0, 0, 0.5, 1, 1.5, 1e-8]),
            top_k=pick([0, 0, 5, 40]),
            top_p=pick([1, 0.9, 0.5]),
            min_p=pick([0, 0, 0.05]),
            repetition_penalty=pick([1, 1, 1.3, 0.8]),
            presence_penalty=pick([0, 0, 1.0]),
            frequency_penalty=pick([0, 0, 0.5, -0.5]),
            no_repeat_ngram=pick([0, 0, 1, 2, 4]),
            min_new_tokens=pick([0, 0, 3, 20]),
            banned=tuple(
                tuple(random_.randrange(V) for _ in range(random_.randint(1, 3)))
                for _ in range(pick([0, 0, 3]))
            ),
            forced_first=pick([None, None, 5]),
            forced_last=pick([None, None, 7]),
            seed=random_.randrange(2**63),
        ),
    )


@pytest.mark.parametrize("of", ["Llama", "GPT-2", "fused", "Llama in bfloat16, strict"])
def test_any_settings_together_end_where_plain_decoding_ends(of, ends_with):
    if of == "fused":
        model = fused(128)
    else:
        model = tiny.model(of.split(" in ")[0], 5, limit=128)
        if "bfloat16" in of:
            network = tiny.network.__wrapped__("Llama", 5, len(model.tokenizer), 128)
            model = replace(model, network=network.to(torch.bfloat16))
    random_, reasons = random.Random(of), set()
    for _ in range(16):
        settings = anything(random_, model, random_.choice([1, 3, 8]))
        ends_with(model, random_.sample(range(len(model.tokenizer)), random_.choice([0, 1, 5])))
        ask = PROMPT[: random_.choice([1, 5, 40, 150])]
        plain = outcome(*run(model, ask, settings.plain()))
        whole = model.tokenizer(ask)["input_ids"] + plain[0]
        for lookup in (None, Right(whole, lambda: random_.randrange(10), len(model.tokenizer))):
            assert outcome(*run(model, ask, settings, lookup)) == plain, (ask, settings)
        reasons.add(plain[2])
    assert reasons >= {"length", "stop"}


# On the embedded model.


@pytest.fixture(scope="module")
def smol(embedded):
    return load(dtype="float32")


def case(shared, name):
    rows = (shared / "text_cases.jsonl").read_text(encoding="utf-8").split("\n")
    return next(row for row in map(json.loads, filter(None, rows)) if row["id"].startswith(name))


def test_a_stop_string_inside_an_accepted_block_ends_the_embedded_model_s_answer(smol, shared):
    row = case(shared, "T06")
    settings = Settings(max_new_tokens=row["max_new_tokens"], stop=tuple(row["stop"]), k=12)
    plain = outcome(*run(smol, row["prompt"], settings.plain()))
    lane, target = run(smol, row["prompt"], settings)
    assert outcome(lane, target) == plain
    assert plain[2] == "stop"
    assert row["stop"][0] in plain[1]
    assert row["stop"][0] not in text_of(smol, plain[0][:-1])
    assert lane.passes[-1].accepted > 1
    assert len(lane.passes[-1].draft) > len(lane.passes[-1].kept)  # the draft ran on


def test_a_draft_that_runs_into_the_end_of_a_turn_ends_there(smol, shared):
    row = case(shared, "T08")
    rendered = smol.tokenizer.apply_chat_template(
        row["chat"], tokenize=False, add_generation_prompt=True
    )
    settings = Settings(max_new_tokens=row["max_new_tokens"])
    plain = outcome(*run(smol, rendered, settings.plain()))
    lane, target = run(smol, rendered, settings)
    assert outcome(lane, target) == plain
    assert plain[2] == "eos"
    assert plain[0][-1] == smol.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert "<|im" not in plain[1]
    copied = [step for step in lane.passes if plain[0][-1] in step.draft]
    assert copied
    # whoever knows the prompt's template text drafts it, and it never reaches the answer
    ids = lane.start.prompt.ids
    turn = smol.tokenizer("<|im_end|>\n<|im_start|>user\nSay it again:")["input_ids"]
    lane, target = run(smol, rendered, settings, Right(ids + plain[0][:-1] + turn))
    assert outcome(lane, target) == plain
    assert lane.passes[-1].bonus is None
    assert lane.passes[-1].draft[lane.passes[-1].accepted - 1 :] == turn[:1]
