"""Adaptive drafts: never another text, never dearer than plain, and quick to notice a quote."""

import random
from pathlib import Path

import pytest
import toy
from hypothesis import given
from hypothesis import strategies as st

from pld_core.cost import PassCost
from pld_core.decoder import decode
from pld_core.events import Prompt, Start
from pld_core.lookup import NgramLookup
from pld_core.models.recorded import RecordedTarget
from pld_core.replay import what_if
from pld_core.settings import POLICIES, Settings, SettingsError
from pld_core.trace import lanes, read
from pld_core.width import AdaptiveLookup, drafter

EXAMPLES = sorted((Path(__file__).parents[1] / "static" / "examples").glob("*.ndjson"))
COSTS = PassCost(((1, 10.0), (2, 12.0), (4, 13.0), (8, 15.0), (16, 19.0), (32, 27.0)))
FREE = PassCost(((1, 10.0), (32, 10.0)))


def adaptive(settings, cost=COSTS):
    return AdaptiveLookup(NgramLookup(settings), cost)


def seconds(passes, cost=COSTS):
    return sum(cost.seconds(step.width) for step in passes)


class NoText:
    def push(self, token):
        return ""

    def preview(self, tokens):
        return [""] * len(tokens)

    def flush(self):
        return ""


def passes_of(prompt, output, lookup, k=16):
    """The passes of a run whose answer is `output`, whatever is drafted."""
    settings = Settings(k=k, max_new_tokens=len(output))
    prompt = Prompt(list(prompt), [""] * len(prompt), len(prompt))
    start = Start("pld", "recorded", "", "none", "none", {}, settings.to_json(), prompt)
    target = RecordedTarget(output, None)
    (trace,) = lanes(decode(start, target, lookup, NoText(), settings)).values()
    assert trace.ids == list(output)
    return trace.passes


def test_a_cost_is_what_was_measured_and_grows_evenly_between():
    assert [COSTS.seconds(width) for width in (1, 2, 4, 32)] == [10.0, 12.0, 13.0, 27.0]
    assert COSTS.seconds(3) == 12.5 and COSTS.seconds(6) == 14.0
    assert COSTS.seconds(64) == 27.0 + 32 * (27.0 - 19.0) / 16
    assert FREE.seconds(1000) == 10.0


@pytest.mark.parametrize(
    "pairs", [(), ((1, 1.0),), ((2, 1.0), (4, 2.0)), ((1, 1.0), (1, 2.0)), ((1, 1.0), (2, -1.0))]
)
def test_costs_that_cannot_be_meant_are_refused(pairs):
    with pytest.raises(ValueError):
        PassCost(pairs)
    if pairs:
        with pytest.raises(SettingsError):
            Settings(adaptive=True, pass_seconds=pairs)


@given(st.integers(0, 2**30))
def test_the_text_is_plain_decodings(seed):
    run = toy.random_run(random.Random(seed))
    for cost in (COSTS, FREE):
        trace = run.trace(adaptive(run.settings, cost))
        assert trace.ids == run.trace().ids
        assert not list(trace.laws())


def test_a_text_without_copies_costs_hardly_more_than_plain_decoding():
    """Single tokens recur all the time and nothing that follows them does."""
    random_ = random.Random(5)
    output = [random_.randrange(12) for _ in range(600)]
    prompt = [random_.randrange(12) for _ in range(100)]
    plain = COSTS.seconds(1) * (len(output) - 1)
    settings = Settings(k=16)
    assert seconds(passes_of(prompt, output, NgramLookup(settings))) > 1.1 * plain
    assert seconds(passes_of(prompt, output, adaptive(settings))) < plain / 0.97


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_no_recorded_run_is_slower_than_plain_decoding_by_more_than_3_percent(path, policy):
    """Also the one that writes freely; costs are those of a CPU that is dear from the second
    position on (milliseconds, measured)."""
    pairs = ((1, 30.0), (2, 40.5), (4, 42.0), (8, 46.5), (16, 60.0), (32, 82.1))
    trace = read(path.read_text("utf-8").splitlines())["pld"]
    settings = Settings(policy=policy, k=24, adaptive=True, pass_seconds=pairs)
    plain = 30.0 * (len(trace.ids) - 1)
    assert seconds(what_if(trace, settings).passes, PassCost(pairs)) <= plain / 0.97


def test_a_text_that_starts_free_and_ends_quoting_is_noticed():
    random_ = random.Random(7)
    quote = list(range(100, 400))
    output = [random_.randrange(12) for _ in range(400)] + quote
    prompt = [*quote, *(random_.randrange(12) for _ in range(60))]
    passes = passes_of(prompt, output, adaptive(Settings(k=16)))
    quoting = [step for step in passes if step.kept[0] >= 101]
    assert sum(len(step.kept) for step in quoting) / len(quoting) > 8


def test_free_positions_are_drafted_in_full():
    output = list(range(50)) * 4
    passes = passes_of(range(50), output, adaptive(Settings(k=16), FREE))
    assert all(len(step.draft) == 16 for step in passes[:-1] if step.match)


def test_a_pass_says_what_its_width_was_expected_to_gain():
    run = toy.random_run(random.Random(3))
    for step in run.trace(adaptive(run.settings)).passes:
        assert (step.gain is None) == (step.match is None and not step.gain)
        if step.draft:
            assert step.gain > 1.0
    assert all(step.gain is None for step in run.trace().passes)


@given(st.integers(0, 2**30))
def test_replaying_an_adaptive_run_gives_it_again(seed):
    run = toy.random_run(random.Random(seed))
    pairs = tuple((width, COSTS.seconds(width)) for width in (1, 2, 4, 8, 16, 32))
    run.settings = Settings(
        **{
            **{name: getattr(run.settings, name) for name in ("n_max", "n_min", "k", "policy")},
            "max_new_tokens": run.settings.max_new_tokens,
            "adaptive": True,
            "pass_seconds": pairs,
        }
    )
    recorded = run.trace(drafter(run.settings, run.reference or ()))
    replayed = what_if(recorded, run.settings)
    shown = [(p.match, p.draft, p.accepted, p.gain) for p in recorded.passes]
    assert shown == [(p.match, p.draft, p.accepted, p.gain) for p in replayed.passes]
    assert Settings.from_json(recorded.start.settings) == run.settings


def test_adaptive_drafts_without_known_costs_are_whole_drafts():
    assert isinstance(drafter(Settings(adaptive=True)), NgramLookup)


def drafted(before, behind, k=40):
    """How long a draft is where `before` tokens agree with an earlier place that `behind` follow."""
    lookup = adaptive(Settings(k=k))
    copied = list(range(100, 100 + before))
    lookup.extend([7, *copied, *range(1000, 1000 + behind), 8, *copied])
    return len(lookup.propose(k).tokens)


def test_the_longer_a_copy_has_gone_on_the_longer_is_the_draft():
    lengths = [drafted(before, 40) for before in (1, 2, 3, 8, 16, 32, 64)]
    assert lengths == sorted(set(lengths)) and lengths[0] > 0
    assert drafted(3, 40) == drafted(7, 40)  # of one class


def test_what_agrees_ends_where_a_text_begins():
    copied = list(range(100, 170))
    settings = Settings(k=40, pass_seconds=COSTS.measured)
    whole, behind = drafter(settings, [*copied, *range(1000, 1040)]), drafter(settings, copied[-3:])
    whole.extend(copied)
    behind.extend([*copied, *range(1000, 1040), *copied])
    fresh = drafter(settings, [9, *copied[-3:], *range(1000, 1040)])
    fresh.extend(copied)
    assert len(fresh.propose(40).tokens) == drafted(3, 40)
    assert len(whole.propose(40).tokens) == len(behind.propose(40).tokens) == drafted(64, 40)


@given(st.integers(0, 2**30), st.integers(2, 40), st.integers(1, 3))
def test_a_free_text_is_never_much_slower_than_plain_decoding(seed, letters, n_max):
    """However often its tokens recur: drafts that cost more than they saved must promise more."""
    random_ = random.Random(seed)
    output = [random_.randrange(letters) for _ in range(300)]
    prompt = [random_.randrange(letters) for _ in range(100)]
    plain = COSTS.seconds(1) * (len(output) - 1)
    taken = seconds(passes_of(prompt, output, adaptive(Settings(k=16, n_max=n_max))))
    assert taken < plain / 0.95
