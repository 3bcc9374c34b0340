"""Choosing tokens: the processors are transformers', the distribution is exact, the noise is a
function of seed, position and token alone, and what is shown is the target's own."""

import itertools
import json
import math
import random
from collections import Counter

import numpy as np
import pytest
import tiny
import toy
import torch
import transformers

from pld_core import sampling, trace
from pld_core.decoder import decode
from pld_core.events import Match, Pass, Prefill, Prompt, Start, dumps
from pld_core.lookup import Draft, build
from pld_core.models.eager import EagerTarget
from pld_core.models.encdec import EncoderDecoderTarget
from pld_core.sampling import Chooser, gumbel
from pld_core.settings import Sampling, Settings, SettingsError

CPU = torch.device("cpu")


# The rules, written once more, for one position.


def oracle_scores(logits, context, P, settings, eos=()):
    """Scores [V] that the next token after `context` maximises, before noise. P: prompt tokens."""
    s = settings.sampling
    scores = np.array(logits, dtype=np.float64)
    seen = set(context)
    for token in seen if s.repetition_penalty != 1 else ():
        by = s.repetition_penalty
        scores[token] = scores[token] * by if scores[token] < 0 else scores[token] / by
    for token, count in Counter(context[P:]).items():
        scores[token] -= count * s.frequency_penalty + s.presence_penalty
    n = s.no_repeat_ngram
    if n and len(context) >= n:
        head = list(context[len(context) - n + 1 :])
        for i in range(len(context) - n + 1):
            if list(context[i : i + n - 1]) == head:
                scores[context[i + n - 1]] = -math.inf
    for sequence in s.banned:
        *head, last = sequence
        if list(sequence) not in [[e] for e in eos]:  # transformers lets an answer end
            if list(context[len(context) - len(head) :]) == head:
                scores[last] = -math.inf
    if len(context) - P < s.min_new_tokens:
        scores[list(eos)] = -math.inf
    for token, place in ((s.forced_first, 0), (s.forced_last, settings.max_new_tokens - 1)):
        if token is not None and len(context) - P == place:
            scores[:] = -math.inf
            scores[token] = 0
    return scores if s.greedy else warped(scores, s)


def warped(scores, s):
    scores = scores / s.temperature
    if s.top_k:
        kth = np.sort(scores)[::-1][min(s.top_k, len(scores)) - 1]
        scores = np.where(scores < kth, -math.inf, scores)
    if s.top_p < 1:
        order = np.argsort(-scores)
        before = np.cumsum(softmax(scores)[order]) - softmax(scores)[order]
        scores[order[before >= s.top_p]] = -math.inf
    if s.min_p:
        p = softmax(scores)
        scores = np.where(p < s.min_p * p.max(), -math.inf, scores)
    return scores


def softmax(scores):
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


# The distribution.

START = [0.4, 1.1, -0.3, 0.9, -math.inf, 0.0, -1.2]
TABLE = [
    [0.1, 1.5, 0.3, -0.8, -math.inf, 0.7, -2.0],
    [2.0, 0.0, 0.4, 0.2, -math.inf, -1.0, 1.1],
    [0.0, 0.1, 0.2, 0.3, -math.inf, 0.4, 0.5],
    [-1.0, 0.9, 0.8, -0.5, -math.inf, 1.0, 0.2],
    [0.0] * 7,
    [1.2, -0.7, 0.6, 0.5, -math.inf, -0.1, 0.3],
    [0.6, 0.5, -1.5, 1.4, -math.inf, 0.2, 0.0],
]


class TableTarget:
    """Logits by the previous token alone; every second token begins anew, so that a run of 2 N
    tokens is N independent draws of two tokens."""

    vocabulary = 7
    context_limit = None
    room = 2**31

    def __init__(self, chooser):
        self._chooser, self._ids = chooser, []

    def prefill(self, ids):
        self._ids = list(ids)
        return self._chooser.scores(torch.tensor([START]), self._ids)

    def forward(self, tokens):
        first = len(self._ids)
        self._ids += tokens
        rows = [TABLE[t] if (first + i) % 2 else START for i, t in enumerate(tokens)]
        self._before = first
        return self._chooser.scores(torch.tensor(rows), self._ids)

    def commit(self, positions):
        del self._ids[self._before + positions :]


class ByRank:
    """Drafts the likeliest token, the least likely one, or one that cannot be."""

    def __init__(self, kind, first, second):
        self._kind, self._first, self._second, self._context = kind, first, second, []

    def extend(self, tokens):
        self._context += tokens

    def propose(self, k):
        drafted = []
        for place in range(len(self._context), len(self._context) + k):
            last = (self._context + drafted)[-1]
            p = self._second[last] if place % 2 == 0 else self._first
            possible = np.where(p > 0, p, 9)
            drafted.append(
                {"likely": int(p.argmax()), "unlikely": int(possible.argmin()), "impossible": 4}[
                    self._kind
                ]
            )
        return Draft(drafted, Match(0, 1, "prompt"))


def table_run(settings, seed, lookup):
    prompt = Prompt([0], ["a"], 1)
    start = Start("pld", "table", "", "cpu", "float32", {}, {}, prompt)
    target = TableTarget(Chooser(settings, 1, [], CPU))
    events = decode(start, target, lookup, toy.Pieces(lambda ids: "a" * len(ids), {}), settings)
    return trace.lanes(events)["pld"]


def p_value(observed, expected):
    """Of Pearson's chi-square; cells that expect less than 5 are one."""
    small = expected < 5
    observed = np.append(observed[~small], observed[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    used = expected > 0
    statistic = ((observed[used] - expected[used]) ** 2 / expected[used]).sum()
    half = torch.tensor([(used.sum() - 1) / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


GRID = list(itertools.product((0.3, 1.0, 1.7), (1.0, 0.9), (0, 3)))
EACH = 1700  # draws of two tokens per setting: 20,400 in all for every kind of draft
ROUNDS = 4


@pytest.fixture
def pure(monkeypatch):
    """The cut-offs are pure functions of their row, so each row is cut off once."""
    process, made = Chooser._processed, {}

    def once(self, logits, prefix):
        key = (self._sampling.temperature, self._sampling.top_p, self._sampling.top_k)
        key += tuple(logits.tolist())
        if key not in made:
            made[key] = process(self, logits, prefix)
        return made[key]

    monkeypatch.setattr(Chooser, "_processed", once)


@pytest.mark.parametrize("kind", ["likely", "unlikely", "impossible"])
def test_pld_draws_from_the_target_s_own_distribution(kind, pure):
    together, accepted = [], Counter()
    for number, (temperature, top_p, top_k) in enumerate(GRID):
        s = Sampling(temperature=temperature, top_p=top_p, top_k=top_k)
        first = softmax(warped(np.array(START), s))
        second = np.array([softmax(warped(np.array(row), s)) for row in TABLE])
        counts = np.zeros((7, 7))
        for round_ in range(ROUNDS):
            seed = 1000 * number + round_ + 77
            settings = Settings(
                k=3,
                max_new_tokens=2 * EACH // ROUNDS,
                sampling=Sampling(temperature=temperature, top_p=top_p, top_k=top_k, seed=seed),
            )
            lane = table_run(settings, seed, ByRank(kind, first, second))
            np.add.at(counts, (lane.ids[::2], lane.ids[1::2]), 1)
            accepted.update(step.accepted for step in lane.passes)
        joint = first[:, None] * second
        assert counts.sum() == EACH
        assert counts[joint == 0].sum() == 0  # nothing outside the nucleus
        assert (counts[joint > 0.01] > 0).all()  # everything inside it
        together.append((counts.ravel(), joint.ravel() * EACH))
        assert p_value(*together[-1]) > 0.001, (temperature, top_p, top_k)
    assert p_value(*(np.concatenate(side) for side in zip(*together))) > 0.001
    assert set(accepted) == ({0} if kind == "impossible" else {0, 1, 2, 3})


def test_the_last_token_of_a_nucleus_is_drawn():
    # 0.5 + 0.4 reach 0.9 only with the second token; the third is outside
    logits = torch.tensor([[0.55, 0.4, 0.05]]).log()
    settings = [Settings(sampling=Sampling(temperature=1, top_p=0.9, seed=s)) for s in range(300)]
    drawn = Counter(Chooser(s, 1, [], CPU).scores(logits, [0]).choices[0] for s in settings)
    assert set(drawn) == {0, 1}
    assert drawn[1] / 300 == pytest.approx(0.4 / 0.95, abs=0.12)


# The noise.

N = 40_000


def uniforms(noise):
    return np.exp(-np.exp(-noise.double().numpy()))


def axes():
    tokens = torch.arange(N)
    yield "tokens", gumbel(3, 5, tokens)
    yield "positions", torch.cat([gumbel(3, p, torch.tensor([5])) for p in range(N // 10)])
    yield "seeds", torch.cat([gumbel(s, 3, torch.tensor([5])) for s in range(N // 10)])
    far = torch.tensor(random.Random(1).sample(range(2**31), N))
    yield "far tokens", gumbel(2**63 - 1, 2**40, far)


@pytest.mark.parametrize(("name", "noise"), list(axes()))
def test_the_noise_is_standard_gumbel_along_every_axis(name, noise):
    u = np.sort(uniforms(noise))
    n = len(u)
    grid = np.arange(1, n + 1) / n
    distance = max((grid - u).max(), (u - grid + 1 / n).max())  # Kolmogorov-Smirnov
    assert distance * math.sqrt(n) < 1.95  # p > 0.001
    cells = np.histogram(u, bins=100, range=(0, 1))[0].astype(float)
    assert p_value(cells, np.full(100, n / 100)) > 0.001


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("next position", gumbel(3, 5, torch.arange(N)), gumbel(3, 6, torch.arange(N))),
        ("next seed", gumbel(3, 5, torch.arange(N)), gumbel(4, 5, torch.arange(N))),
        ("next token", gumbel(3, 5, torch.arange(N)), gumbel(3, 5, torch.arange(N) + 1)),
        ("both moved", gumbel(3, 5, torch.arange(N)), gumbel(4, 4, torch.arange(N))),
        ("swapped", gumbel(3, 5, torch.arange(N)), gumbel(5, 3, torch.arange(N))),
        ("seed 0", gumbel(0, 0, torch.arange(N)), gumbel(0, 1, torch.arange(N))),
        ("one high bit", gumbel(0, 7, torch.arange(N)), gumbel(2**62, 7, torch.arange(N))),
    ],
)
def test_noise_at_neighbouring_keys_is_independent(name, a, b):
    u, v = uniforms(a), uniforms(b)
    assert abs(np.corrcoef(u, v)[0, 1]) < 4 / math.sqrt(N)
    cells = np.histogram2d(u, v, bins=10, range=((0, 1), (0, 1)))[0]
    assert p_value(cells.ravel(), np.full(100, N / 100)) > 0.001


def test_noise_depends_on_nothing_but_seed_position_and_token():
    every = gumbel(11, 42, torch.arange(5000))
    torch.manual_seed(0)
    for some in (torch.tensor([4999, 3, 77, 3]), torch.randperm(5000)[:100], torch.arange(1)):
        assert gumbel(11, 42, some).equal(every[some])
    torch.rand(10)
    assert gumbel(11, 42, torch.arange(5000)).equal(every)


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**53 + 1, 2**63 - 1])
@pytest.mark.parametrize("position", [0, 1, 2**31, 2**40])
def test_noise_is_finite_and_within_its_range_for_extreme_keys(seed, position):
    noise = gumbel(seed, position, torch.tensor([0, 1, 2**31 - 1, 150_000]))
    assert noise.isfinite().all()
    assert (noise.max() - noise.min()) < sampling.NOISE_RANGE


def test_noise_is_finite_for_all_bits_that_a_key_can_give(monkeypatch):
    for bits in (0, -1, 1, 2**63 - 1, -(2**63), -(2**11), 2**11 - 1):
        monkeypatch.setattr(sampling, "_mix", lambda x, bits=bits: torch.full_like(x, bits))
        (noise,) = gumbel(0, 0, torch.tensor([0])).tolist()
        assert -3.7 < noise < 37.5


def test_leaving_out_what_cannot_win_changes_no_choice():
    random_ = torch.Generator().manual_seed(5)
    for position in range(150):
        spread = [0.1, 3.0, 30.0, 300.0][position % 4]
        logits = torch.randn(1, 3000, generator=random_) * spread
        settings = Settings(sampling=Sampling(temperature=1, seed=position))
        scores = Chooser(settings, 1, [], CPU).scores(logits, [0] * position)
        whole = logits[0] + gumbel(position, position, torch.arange(3000))
        assert scores.choices[0] == int(whole.argmax())
        best = whole.topk(2).values
        assert scores.kept(1)[1] == pytest.approx([float(best[0] - best[1])], abs=1e-4)


def test_a_padded_vocabulary_draws_the_same_tokens():
    logits = torch.randn(1, 50, generator=torch.Generator().manual_seed(1))
    padded = torch.cat([logits, torch.full((1, 14), -math.inf)], 1)
    for seed in range(100):
        chooser = Chooser(Settings(sampling=Sampling(temperature=1.3, seed=seed)), 1, [], CPU)
        assert chooser.scores(logits, [0]).choices[0] == chooser.scores(padded, [0]).choices[0]


# On models: one seed, one text.

VOCABULARY = 24
PROMPT = [5, 6, 7, 8, 5, 6, 7, 9, 2, 3, 5, 6, 7, 8]

PROCESSED = {
    "repetition_penalty": dict(repetition_penalty=1.3),
    "repetition_penalty below 1": dict(repetition_penalty=0.8),
    "presence": dict(presence_penalty=1.5),
    "frequency": dict(frequency_penalty=0.7),
    "negative frequency": dict(frequency_penalty=-0.6, presence_penalty=-0.5),
    "no_repeat_ngram 1": dict(no_repeat_ngram=1),
    "no_repeat_ngram 2": dict(no_repeat_ngram=2),
    "min_new_tokens": dict(min_new_tokens=9),
    "banned": dict(banned=((7,), (5, 6), (1, 2, 3), (8, 8))),
    "forced first": dict(forced_first=6),
    "forced last": dict(forced_last=4, min_new_tokens=24),
    "all": dict(
        repetition_penalty=1.1, presence_penalty=0.4, frequency_penalty=0.3, no_repeat_ngram=4,
        min_new_tokens=6, banned=((7,), (5, 6)), forced_first=3, forced_last=2,
    ),
}  # fmt: skip
ADDED = ("presence", "frequency", "negative frequency")  # rules that transformers lacks
WARPED = {
    "temperature": dict(temperature=0.8),
    "hot": dict(temperature=1.9),
    "top_k": dict(temperature=1, top_k=4),
    "top_k beyond the vocabulary": dict(temperature=1, top_k=1000),
    "top_p": dict(temperature=1.2, top_p=0.8),
    "min_p": dict(temperature=1.2, min_p=0.1),
    "all cut-offs": dict(temperature=0.9, top_k=8, top_p=0.9, min_p=0.02),
}


def settings_of(more, max_new_tokens=24, k=6, **sampling_):
    return Settings(
        k=k, max_new_tokens=max_new_tokens, sampling=Sampling(**{**more, **sampling_})
    )


def stream(network, settings, ids=PROMPT, eos=(), lookup=None, target=None):
    start = Start(
        "pld", "tiny", "", "cpu", "float32", {}, settings.to_json(),
        Prompt(list(ids), [""] * len(ids), len(ids)), list(eos),
    )  # fmt: skip
    target = target or EagerTarget(network, Chooser(settings, len(ids), list(eos), CPU))
    text = toy.Pieces(lambda tokens: "".join(chr(97 + t) for t in tokens), {})
    return decode(start, target, lookup or build(settings), text, settings)


def lane(*args, **more):
    return trace.lanes(stream(*args, **more))["pld"]


def mixed(whole, seed):
    """Drafts with 0 to all tokens right."""
    random_ = random.Random(seed)
    return tiny.Right(whole, lambda: random_.randrange(8), VOCABULARY)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_with_one_seed_plain_decoding_and_pld_give_the_same_tokens(family):
    network, eos = tiny.network(family, vocabulary=VOCABULARY), [11, 12]
    accepted = Counter()
    cases = list(WARPED.values()) + [
        {**warp, **processed}
        for warp, processed in zip(itertools.cycle(WARPED.values()), PROCESSED.values())
    ]
    for seed, more in enumerate(cases):
        settings = settings_of(more, seed=seed * 999_983)
        plain = lane(network, settings.plain(), eos=eos)
        other = lane(network, settings_of(more, seed=seed * 999_983 + 1, k=0), eos=eos)
        assert plain.ids != other.ids or len(plain.ids) == 1  # the seed matters
        for lookup in (None, mixed(PROMPT + plain.ids, seed)):
            pld = lane(network, settings, eos=eos, lookup=lookup)
            assert (pld.ids, pld.end.reason) == (plain.ids, plain.end.reason), more
            assert pld.text == plain.text
            accepted.update(step.accepted for step in pld.passes)
    assert set(accepted) >= {0, 1, 2, 3, 4, 5, 6}


def test_another_run_between_two_changes_neither():
    network = tiny.network("Llama", vocabulary=VOCABULARY)
    settings = settings_of(WARPED["all cut-offs"], seed=5)
    alone = lane(network, settings).ids
    turns = [stream(network, settings), stream(network, settings_of(WARPED["hot"], seed=6))]
    kept = []
    for _ in range(30):
        for place, events in enumerate(turns):
            event = next(events, None)
            kept += getattr(event, "kept", []) if place == 0 else []
    assert kept == alone == lane(network, settings).ids


def generate_arguments(s):
    """The same processors by transformers' names."""
    return dict(
        repetition_penalty=s.repetition_penalty,
        no_repeat_ngram_size=s.no_repeat_ngram,
        min_new_tokens=s.min_new_tokens or None,
        bad_words_ids=[list(b) for b in s.banned] or None,
        forced_bos_token_id=s.forced_first,
        forced_eos_token_id=s.forced_last,
    )


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("name", [n for n in PROCESSED if n not in ADDED])
def test_greedy_pld_with_processors_is_transformers_own_generate(family, name):
    s = Sampling(**{**PROCESSED[name], "presence_penalty": 0, "frequency_penalty": 0})
    # transformers forces the first token only of a context of one
    ids = PROMPT[:1] if s.forced_first is not None else PROMPT
    network = tiny.network(family, seed=1, vocabulary=VOCABULARY)
    free = lane(network, Settings(k=0, max_new_tokens=24), ids=ids).ids
    eos = [free[2], free[9]] if s.min_new_tokens else [max(set(free), key=free.index)]
    expected = tiny.generated(network, ids, 24, eos, **generate_arguments(s))
    for k, lookup in ((0, None), (6, None), (6, mixed(ids + expected, name))):
        one = Settings(k=k, max_new_tokens=24, sampling=s)
        assert lane(network, one, ids=ids, eos=eos, lookup=lookup).ids == expected
    assert expected != lane(network, Settings(max_new_tokens=24), ids=ids, eos=eos).ids


def encoder_decoder(family):
    torch.manual_seed(1)
    sizes = dict(d_model=32, vocab_size=VOCABULARY, decoder_start_token_id=0, pad_token_id=0)
    if family == "T5":
        config = transformers.T5Config(
            **sizes, d_kv=8, d_ff=48, num_layers=2, num_heads=4, eos_token_id=None
        )
        network = transformers.T5ForConditionalGeneration(config)
    else:
        config = transformers.BartConfig(
            **sizes, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, bos_token_id=None,
            max_position_embeddings=64, eos_token_id=None, forced_eos_token_id=None,
        )  # fmt: skip
        network = transformers.BartForConditionalGeneration(config)
    with torch.no_grad():
        for weights in network.parameters():
            if weights.dim() == 2:
                weights.normal_(0, 0.4)
    return network.eval()


@pytest.mark.parametrize("family", ["T5", "BART"])
def test_the_processors_of_an_encoder_decoder_see_its_decoder_s_tokens(family):
    network, eos, outputs = encoder_decoder(family), [11, 12], []

    def decoded(settings):
        target = EncoderDecoderTarget(network, Chooser(settings, 1, eos, CPU))
        return trace.lanes(stream(network, settings, eos=eos, target=target))["pld"].ids

    for name in [n for n in PROCESSED if n not in (*ADDED, "all")]:
        s = Sampling(**PROCESSED[name])
        own = generate_arguments(s)
        prompt = torch.tensor([PROMPT])
        expected = network.generate(
            prompt, attention_mask=torch.ones_like(prompt),
            generation_config=transformers.GenerationConfig(
                max_new_tokens=24, do_sample=False, eos_token_id=eos, pad_token_id=0,
                decoder_start_token_id=0, **own,
            ),
        )[0, 1:].tolist()  # fmt: skip
        outputs.append(expected)
        for k in (0, 6):
            assert decoded(Settings(k=k, max_new_tokens=24, sampling=s)) == expected, name
    assert len(set(map(tuple, outputs))) > 3
    for seed, more in enumerate(WARPED.values()):
        settings = settings_of({**more, "repetition_penalty": 1.1}, seed=seed)
        assert decoded(settings) == decoded(settings.plain())


class Recount:
    """One lane after the other event, each choice made again from a forward over its whole
    context without a cache."""

    def __init__(self, network, settings, ids, eos):
        self.network, self.settings, self.P, self.eos = network, settings, len(ids), eos
        self.context = list(ids)

    @torch.inference_mode()
    def logits(self, context):
        return self.network(input_ids=torch.tensor([context])).logits[0].double().numpy()

    def check(self, event):
        before = len(self.context)
        rows = self.logits(self.context + event.kept)
        for place, token in enumerate(event.kept):
            prefix = self.context + event.kept[:place]
            scores = oracle_scores(
                rows[before + place - 1], prefix, self.P, self.settings, self.eos
            )
            p = softmax(scores)
            maximised = scores
            if not self.settings.sampling.greedy:
                noise = gumbel(
                    self.settings.sampling.seed, before + place, torch.arange(len(scores))
                )
                maximised = scores + noise.double().numpy()
            second, best = np.sort(maximised)[-2:]
            assert token == int(maximised.argmax())
            assert event.probabilities[place] == pytest.approx(p[token], abs=1e-3)
            assert event.margins[place] == pytest.approx(min(best - second, 1e4), abs=1e-3)
            if place == getattr(event, "accepted", None) and event.wanted:
                order = np.argsort(-p, kind="stable")[:5]
                shown = [(c.id, c.p) for c in event.wanted]
                assert [c.p for c in event.wanted] == pytest.approx(
                    [x for x in p[order] if x > 0], abs=1e-3
                )
                assert all(p[i] == pytest.approx(x, abs=1e-3) for i, x in shown)
        self.context += event.kept


SHOWN = {
    "greedy": {},
    **PROCESSED,
    **WARPED,
    "everything": {**PROCESSED["all"], **WARPED["all cut-offs"]},
}


@pytest.mark.parametrize("name", SHOWN)
def test_shown_probabilities_and_margins_are_those_of_a_full_recompute(name):
    network, eos = tiny.network("Llama", seed=2, vocabulary=VOCABULARY), [11, 12]
    settings = settings_of(SHOWN[name], seed=31)
    whole = PROMPT + lane(network, settings.plain(), eos=eos).ids
    recount, rejected = Recount(network, settings, PROMPT, eos), 0
    for event in stream(network, settings, eos=eos, lookup=mixed(whole, name)):
        if isinstance(event, (Prefill, Pass)):
            recount.check(event)
            dumps(event)
            rejected += bool(getattr(event, "wanted", None))
    assert recount.context == whole
    assert rejected or SHOWN[name].get("no_repeat_ngram") == 1


# What it costs.


@pytest.mark.parametrize("name", ["repetition_penalty", "all", "all cut-offs"])
def test_processors_run_once_for_each_position_that_decides_something(name, monkeypatch):
    calls = []
    made = sampling._processors

    def spied(*args):
        for number, processor in enumerate(made(*args)):
            yield lambda ids, scores, p=processor, n=number: calls.append(n) or p(ids, scores)

    network = tiny.network("Llama", vocabulary=VOCABULARY)
    settings = settings_of(SHOWN[name], seed=8)
    whole = PROMPT + lane(network, settings.plain()).ids
    monkeypatch.setattr(sampling, "_processors", spied)
    seen = Counter()
    for event in stream(network, settings, lookup=mixed(whole, 4)):
        if isinstance(event, (Prefill, Pass)):
            rows = 1 + getattr(event, "accepted", 0)
            count = Counter(calls)
            assert set(count.values()) == {rows}
            seen[rows, 1 + len(getattr(event, "draft", []))] += 1
            calls.clear()
    assert any(rows < width for rows, width in seen)


def test_plain_greedy_decoding_runs_no_processor_and_makes_no_noise(monkeypatch):
    def never(*args):
        raise AssertionError

    for name in ("_processed", "_noisy"):
        monkeypatch.setattr(Chooser, name, never)
    settings = Settings(max_new_tokens=20, sampling=Sampling(seed=5, top_k=3, top_p=0.5, min_p=0.2))
    network = tiny.network("Llama", vocabulary=VOCABULARY)
    assert lane(network, settings).ids == tiny.generated(network, PROMPT, 20)


# Corners.


def test_temperature_0_is_greedy_and_1e_8_is_finite():
    network = tiny.network("GPT-2", vocabulary=VOCABULARY)
    greedy = tiny.generated(network, PROMPT, 20)
    for temperature in (0, 0.0, -0.0, 1e-9, 1e-8, 1e-4):
        run = lane(network, settings_of(dict(temperature=temperature), max_new_tokens=20))
        assert run.ids == greedy
        assert all(0.99 < p <= 1 for s in run.steps for p in s.probabilities) or not temperature
        assert all(math.isfinite(m) for m in run.margins)


@pytest.mark.parametrize("temperature", [1e-9, 1e-8, 1e-4, 1e-2])
@pytest.mark.parametrize("scale", [0.1, 30.0, 1000.0, -1000.0])
def test_a_tiny_temperature_chooses_the_best_token_whatever_the_size_of_the_logits(
    temperature, scale
):
    logits = torch.linspace(0.5, 1, 50)[torch.randperm(50)][None] * scale
    settings = Settings(sampling=Sampling(temperature=temperature, top_p=0.99, top_k=9))
    scores = Chooser(settings, 1, [], CPU).scores(logits, [0])
    if abs(scale) > 1 or temperature < 1e-2:
        assert scores.choices[0] == int(logits.argmax())
    assert all(map(math.isfinite, [*scores.kept(1)[0], *scores.kept(1)[1]]))


@pytest.mark.parametrize("temperature", [0, 1e-8, 1e-5, 1e-3, 0.01, 1.0, 100.0])
def test_the_favourites_have_the_probabilities_of_the_softmax(temperature):
    logits = torch.tensor([[20.0, 20.0, 3.0, 1.0, -math.inf]])
    scores = Chooser(settings_of(dict(temperature=temperature)), 1, [], CPU).scores(logits, [0])
    shown = dict(scores.favourites(0, 5))
    right = (logits[0] / (temperature or 1)).softmax(-1).tolist()
    assert shown == pytest.approx({token: p for token, p in enumerate(right) if p > 0}, abs=1e-6)
    assert shown[scores.choices[0]] == pytest.approx(scores.kept(1)[0][0], abs=1e-6)


def test_temperature_100_draws_evenly():
    logits = torch.tensor([[3.0, 0.0, -3.0]])
    drawn = Counter(
        Chooser(settings_of(dict(temperature=100), seed=s), 1, [], CPU)
        .scores(logits, [0])
        .choices[0]
        for s in range(900)
    )
    assert all(230 < drawn[token] < 370 for token in range(3))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"temperature": v} for v in (-1, -1e-9, math.nan, math.inf, -math.inf, 101, "x", None, True)),
        *({"top_p": v} for v in (0, -0.1, 1.1, math.nan, "0.9")),
        *({"min_p": v} for v in (-0.1, 1.5, math.nan, None)),
        *({"top_k": v} for v in (-1, 2.0, "3", True)),
        *({"repetition_penalty": v} for v in (0, -1.3, math.nan, math.inf, "1")),
        *({"presence_penalty": v} for v in (math.nan, math.inf, 101)),
        *({"frequency_penalty": v} for v in (math.nan, -101, "x")),
        *({"no_repeat_ngram": v} for v in (-1, 1.5)),
        *({"min_new_tokens": v} for v in (-1, None)),
        *({"seed": v} for v in (-1, 2**63, 1.0)),
        *({"forced_first": v} for v in (-1, "a", 2**31)),
        *({"banned": v} for v in (((),), ((-1,),), ((1.0,),), ((1,), ("a",)))),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_in_one_sentence(wrong):
    with pytest.raises(SettingsError) as refused:
        Sampling(**wrong)
    said = str(refused.value)
    assert said.endswith(".")
    assert len(said.splitlines()) == 1
    (name,) = wrong
    assert name in said or name.replace("_first", "").split("_")[0] in said.lower()


def test_sampling_survives_its_json():
    for more in SHOWN.values():
        settings = settings_of(more, seed=2**63 - 1)
        assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


def test_where_every_token_is_forbidden_the_stream_still_has_numbers_alone():
    network = tiny.network("Llama", vocabulary=VOCABULARY)
    for more in (dict(), dict(temperature=1, top_p=0.9)):
        settings = settings_of(dict(no_repeat_ngram=1, **more), max_new_tokens=30)
        run = lane(network, settings)
        assert run.ids == lane(network, settings.plain()).ids
        assert sorted(set(PROMPT + run.ids)) == list(range(VOCABULARY))
        assert all(dumps(step) for step in run.steps)


def test_logits_that_are_no_numbers_are_shown_as_probability_0():
    for more in (dict(), dict(temperature=1), dict(repetition_penalty=1.2)):
        scores = Chooser(settings_of(more), 1, [], CPU).scores(torch.full((1, 5), math.nan), [0])
        assert 0 <= scores.choices[0] < 5
        assert scores.kept(1) == ([0.0], [0.0])
        assert scores.favourites(0, 5) == []


def test_a_ban_of_nothing_but_an_end_token_lets_the_answer_end():
    network = tiny.network("Llama", vocabulary=VOCABULARY)
    free = lane(network, Settings(max_new_tokens=12)).ids
    eos = free[5]
    settings = settings_of(dict(banned=((eos,),)))
    assert lane(network, settings, eos=[eos]).ids == free[: free.index(eos) + 1]
