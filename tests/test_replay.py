"""A replay under a run's own settings is the run; under others it is what they would have
given."""

import itertools
import random
from dataclasses import replace

import pytest
import toy

from pld_core import trace
from pld_core.events import End, Pass, Prefill, Prompt, Seconds, dumps, loads
from pld_core.lookup import Draft
from pld_core.replay import replay, what_if
from pld_core.settings import Settings
from pld_core.trace import Trace


def counted(lane):
    """All that a replay must reproduce; it measures no time and knows no other logits."""
    return [
        (s.match, s.draft, s.accepted, s.bonus, s.kept, s.pieces, s.width, s.index, s.alternatives)
        for s in lane.passes
    ]


def same(replayed, lane):
    assert (replayed.prefill.kept, replayed.prefill.pieces) == (
        lane.prefill.kept,
        lane.prefill.pieces,
    )
    assert counted(replayed) == counted(lane)
    assert replayed.text == lane.text
    assert list(replayed.laws()) == []


def read_back(lane):
    """The lane as it is after a trip through a file."""
    events = [lane.start, *lane.steps, *([lane.end] if lane.end else [])]
    return trace.read([dumps(event) for event in events])[lane.start.lane]


def test_own_settings_give_the_run_again_for_every_way_to_end():
    reasons = set()
    for run in toy.runs("replay", 1500):
        lane = run.trace()
        again = what_if(read_back(lane), run.settings)
        same(again, lane)
        assert again.end == lane.end
        reasons.add(lane.end.reason)
        # and a replay is a trace like any other
        same(what_if(again, run.settings), lane)
    assert reasons == {"eos", "stop", "length", "context_full"}


def test_own_settings_give_a_run_again_that_was_cut_anywhere():
    for run in toy.runs("cut", 150):
        lane = run.trace()
        for passes in range(len(lane.passes) + 1):
            cut = Trace(lane.start, lane.prefill, lane.passes[:passes], None)
            again = what_if(read_back(cut), run.settings)
            assert counted(again) == counted(cut)
            assert again.end.reason == "cancelled"
            assert (again.end.tokens, again.end.passes) == (len(cut.ids), passes + 1)
            assert list(again.laws()) == []


@pytest.mark.parametrize("fails_at", [2, 3, 5, 8])
def test_own_settings_give_a_run_again_that_failed(fails_at):
    run = toy.Run(8, [1, 2, 1, 2, 1], Settings(max_new_tokens=40))
    events = []
    with pytest.raises(RuntimeError):
        for event in run.events(target=run.target(fails_at=fails_at)):
            events.append(event)
    lane = trace.lanes(events)["pld"]
    again = what_if(lane, run.settings)
    same(again, lane)
    assert (again.end.reason, again.end.tokens, again.end.passes) == (
        "error",
        lane.end.tokens,
        lane.end.passes,
    )


def test_other_settings_give_what_decoding_with_them_gives():
    random_ = random.Random("other")
    different = 0
    for run in toy.runs("other settings", 1500):
        lane = run.trace()
        other = toy.random_settings(random_)
        replayed = what_if(lane, other)
        # of the other settings only those of the lookup are taken
        kept = {"max_new_tokens": run.settings.max_new_tokens, "stop": run.settings.stop}
        asked = replace(run, settings=replace(other, **kept))
        decoded = asked.trace()
        same(replayed, decoded)
        assert replayed.end == decoded.end
        assert replayed.start.settings == asked.settings.to_json()
        different += counted(decoded) != counted(lane)
    assert different > 500


def test_a_plain_replay_takes_one_pass_per_token():
    for run in toy.runs("plain", 200):
        lane = run.trace()
        plain = what_if(lane, run.settings.plain())
        assert len(plain.steps) == len(plain.ids) == len(lane.ids)
        assert plain.ids == lane.ids
        assert plain.end.reason == lane.end.reason
        assert what_if(plain, run.settings).ids == lane.ids


def test_a_plain_run_shows_what_the_lookup_would_have_saved():
    for run in toy.runs("from plain", 300):
        plain = replace(run, settings=run.settings.plain()).trace()
        same(what_if(plain, run.settings), run.trace())


class Far:
    """A lookup of one's own: always the same drafts, right or wrong."""

    def extend(self, tokens):
        pass

    def propose(self, k):
        return Draft([0, 1, 2, 3, 0, 1, 2, 3][:k])


def test_a_lookup_of_one_s_own_can_be_asked():
    for run in toy.runs("own lookup", 150):
        lane = run.trace()
        settings = replace(run.settings, k=8)
        decoded = replace(run, settings=settings).trace(Far())
        replayed = what_if(lane, settings, Far())
        assert counted(replayed) == counted(decoded)


def test_a_replay_streams_and_survives_its_file():
    run = toy.Run(3, [1, 2, 1], Settings(max_new_tokens=20))
    events = list(replay(run.trace(), Settings(k=2)))
    assert [loads(dumps(event)) for event in events] == events
    assert len(list(itertools.islice(replay(run.trace(), Settings()), 3))) == 3


def test_a_lane_without_a_token_is_refused():
    run = toy.Run(3, [1, 2, 1])
    start = run.start()
    for end in (None, End("pld", "error", 0, 0)):
        with pytest.raises(ValueError):
            what_if(Trace(start, None, [], end), Settings())


@pytest.mark.parametrize(
    "settings",
    [
        {"k": -1},
        {"k": True},
        {"k": "x"},
        {"k": None},
        {"n_max": 10**30},
        {"policy": []},
        {"policy": {}},
        {"policy": "web"},
        {"search": ["context"]},
        {"periodic": "yes"},
        {"stop": "###"},
        {"stop": [1]},
        {"stop": [[]]},
        {"stop": [""]},
        {"stop": {"a": 1}},
        {"max_new_tokens": 0},
        {"max_new_tokens": 1.5},
        {"n_max": 1, "n_min": 2},
    ],
    ids=str,
)
def test_recorded_settings_that_cannot_be_meant_are_refused(settings):
    lane = toy.Run(3, [1, 2, 1]).trace()
    broken = Trace(
        replace(lane.start, settings={**lane.start.settings, **settings}),
        lane.prefill,
        lane.passes,
        lane.end,
    )
    with pytest.raises(ValueError) as refused:
        what_if(broken, Settings())
    assert str(refused.value).endswith(".") and "\n" not in str(refused.value)


def test_recorded_settings_of_other_versions_are_ignored():
    lane = toy.Run(3, [1, 2, 1]).trace()
    newer = {**lane.start.settings, "tree": 4}
    same(what_if(replace_start(lane, settings=newer), Settings()), lane)
    assert what_if(replace_start(lane, settings={}), Settings()).ids == lane.ids


def replace_start(lane, **changes):
    return Trace(replace(lane.start, **changes), lane.prefill, lane.passes, lane.end)


def test_odd_ids_in_a_recorded_run_do_no_harm():
    # -1 stands for "unknown" inside the replay, and ids beyond 32 bits exceed the index
    for odd in (-1, -7, 2**31, 2**32 + 1, 10**40):
        prompt = Prompt([1, odd, 1, odd, 1], ["x"] * 5, 5)
        start = replace(toy.Run(3, [1]).start(), prompt=prompt)
        ids = [odd, 1, odd, 1, odd, 1, 5]
        steps = [
            Pass("pld", i, None, [], [], 0, token, [token], ["x"], 1, Seconds(0.0, 0.0, 0.0))
            for i, token in enumerate(ids[1:], 2)
        ]
        run = Trace(start, Prefill("pld", 0.0, ids[:1], ["x"]), steps, None)
        again = what_if(run, Settings())
        assert again.ids == ids

