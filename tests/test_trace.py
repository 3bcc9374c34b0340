"""The numbers of a trace are those counted by hand, and its laws fire on what breaks them."""

import random
from collections import Counter
from dataclasses import replace

import pytest
import toy
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pld_core import theory, trace
from pld_core.events import End, Match, Pass, Prefill, Prompt, Seconds, Start, dumps
from pld_core.settings import Settings
from pld_core.trace import Trace, TraceError, compare, speedups, text_copy_rate


def scripted():
    """Prompt a b c d a b; the answer c d a b, x y, and c: 7 tokens in 5 passes.

    Pass 2 drafts d a b c and keeps d a b and, of its own, x; pass 3 finds nothing; pass 4
    drafts c d and keeps c, where the answer ends. Times are powers of two, exact in binary.
    """
    a, b, c, d, x, y = range(1, 7)
    names = " abcdxy"

    def start():
        prompt = [a, b, c, d, a, b]
        return Start(
            "pld", "toy", "", "cpu", "float32", {}, Settings().to_json(),
            Prompt(prompt, [names[i] for i in prompt], 6), [c], 64,
        )  # fmt: skip

    def step(index, match, draft, accepted, bonus, total):
        kept = draft[:accepted] + ([bonus] if bonus else [])
        return Pass(
            "pld", index, match, draft, [names[i] for i in draft], accepted, bonus, kept,
            [names[i] for i in kept], 1 + len(draft), Seconds(total / 4, total / 2, total / 4, 99),
            1 if match else 0, [0.5] * len(kept), [float(index)] * len(kept),
        )  # fmt: skip

    return Trace(
        start(),
        Prefill("pld", 8.0, [c], ["c"], [0.5], [1.0]),
        [
            step(2, Match(0, 3, "prompt"), [d, a, b, c], 3, x, 4.0),
            step(3, None, [], 0, a, 1.0),
            step(4, Match(8, 1, "output"), [b, x], 1, y, 2.0),
            step(5, None, [], 0, c, 1.0),
        ],
        End("pld", "eos", 9, 5),
    )


def test_numbers_counted_by_hand():
    lane = scripted()
    assert "".join("abcdxy"[i - 1] for i in lane.ids) == lane.text == "cdabxabyc"
    numbers = lane.numbers()
    assert (numbers.tokens, numbers.passes) == (9, 5)
    assert numbers.tokens_per_pass == 9 / 5
    assert (numbers.copy_passes, numbers.undrafted_passes) == (2, 2)
    assert (numbers.drafted, numbers.accepted) == (6, 4)
    assert numbers.acceptance == 4 / 6
    assert numbers.f == 6 / 9  # 4 + 2 of the 9 tokens
    assert numbers.L == 3  # (4 + 2) / 2
    assert numbers.prefill_seconds == 8
    assert numbers.decode_seconds == 8  # 4 + 1 + 2 + 1, what recording costs left out
    assert numbers.lookup_seconds == numbers.accept_seconds == 2
    assert numbers.forward_seconds == 4
    assert numbers.tokens_per_second == 1  # the 8 tokens after the prefill's
    assert lane.margins == [1, 2, 2, 2, 2, 3, 4, 4, 5]


def test_the_scripted_lane_is_a_good_one():
    assert list(scripted().laws()) == []


def test_a_lane_of_its_prefill_alone_has_numbers():
    lane = scripted()
    numbers = Trace(lane.start, lane.prefill, [], End("pld", "length", 1, 1)).numbers()
    assert (numbers.tokens, numbers.passes, numbers.f, numbers.L) == (1, 1, 0, 1)
    assert numbers.acceptance == 0
    assert numbers.tokens_per_second is None


def test_a_lane_without_a_token_has_none():
    with pytest.raises(ValueError):
        Trace(scripted().start, None, [], None).numbers()


def test_counting_gives_the_governing_equation_on_every_lane():
    for run in toy.runs("numbers", 400):
        lane = run.trace()
        numbers = lane.numbers()
        expected = theory.tokens_per_pass(numbers.f, numbers.L)
        assert numbers.tokens_per_pass == pytest.approx(expected)
        assert numbers.tokens == sum(len(step.kept) for step in lane.steps)
        assert numbers.tokens - numbers.passes == sum(len(s.kept) - 1 for s in lane.passes)
        own = sum(step.bonus is not None for step in lane.passes)
        assert numbers.tokens == 1 + numbers.accepted + own


def changed(lane, place=None, **changes):
    """The lane with one field of one event changed (None: of its end)."""
    if place is None:
        return Trace(lane.start, lane.prefill, lane.passes, replace(lane.end, **changes))
    passes = list(lane.passes)
    passes[place] = replace(passes[place], **changes)
    return Trace(lane.start, lane.prefill, passes, lane.end)


BROKEN = {
    "no end": (lambda t: Trace(t.start, t.prefill, t.passes, None), "end"),
    "no prefill": (lambda t: Trace(t.start, None, t.passes, t.end), "prefill"),
    "no pass at all": (lambda t: Trace(t.start, None, [], t.end), "prefill"),
    "a pass is missing": (
        lambda t: Trace(t.start, t.prefill, t.passes[:1] + t.passes[2:], t.end),
        "numbered",
    ),
    "passes out of order": (
        lambda t: Trace(t.start, t.prefill, t.passes[::-1], t.end),
        "numbered",
    ),
    "too many tokens": (lambda t: changed(t, tokens=10), "counts 10 tokens"),
    "too few passes": (lambda t: changed(t, passes=4), "counts 4 passes"),
    "a match past the end": (
        lambda t: changed(t, 0, match=Match(5, 3, "prompt")),
        "outside its prompt",
    ),
    "a match with itself": (
        lambda t: changed(t, 0, match=Match(4, 3, "prompt")),
        "outside its prompt",
    ),
    "a match far away": (
        lambda t: changed(t, 0, match=Match(10**30, 1, "output")),
        "outside its output",
    ),
    "a match longer than the text": (
        lambda t: changed(t, 0, match=Match(0, 10**30, "prompt")),
        "outside its prompt",
    ),
    "a match that is none": (
        lambda t: changed(t, 0, match=Match(1, 3, "prompt")),
        "not the context's suffix",
    ),
    "a wrong region": (lambda t: changed(t, 0, match=Match(0, 3, "output")), "region"),
    "the other wrong region": (lambda t: changed(t, 2, match=Match(8, 1, "prompt")), "region"),
    "no reference to match in": (
        lambda t: changed(t, 0, match=Match(0, 3, "reference")),
        "outside its reference",
    ),
    "a draft from elsewhere": (
        lambda t: changed(t, 0, draft=[4, 1, 2, 6]),
        "something else than what follows",
    ),
    "an answer goes on behind its end": (
        lambda t: changed(t, 2, bonus=None, kept=[2], pieces=["b"], probabilities=[], margins=[]),
        "goes on",
    ),
    "a right token was rejected": (
        lambda t: changed(t, 2, bonus=5, kept=[2, 5]),
        "was right",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_law_fires_on_what_breaks_it(name):
    breaks, said = BROKEN[name]
    broken = list(breaks(scripted()).laws())
    assert broken, name
    assert any(said in sentence for sentence in broken), broken
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in broken)


def with_reference(match, draft):
    lane = scripted()
    start = replace(lane.start, reference=Prompt([2, 3, 4, 1], list("bcda"), 4))
    step = replace(
        lane.passes[0], match=match, draft=draft, draft_pieces=[""] * len(draft), width=9,
        accepted=0, bonus=5, kept=[5], pieces=["x"], probabilities=[], margins=[],
    )  # fmt: skip
    return Trace(start, lane.prefill, [step], End("pld", "length", 2, 2))


def test_matches_in_a_reference_obey_the_laws_too():
    good = with_reference(Match(0, 2, "reference"), [4, 1])
    assert list(good.laws()) == []
    for match, draft in (
        (Match(1, 2, "reference"), [1]),  # not the suffix
        (Match(0, 2, "reference"), [4, 1, 2]),  # beyond its end
        (Match(0, 2, "reference"), [1]),  # not what follows
        (Match(3, 2, "reference"), [1]),  # outside
        (Match(0, 2, "prompt"), [4]),  # not there
    ):
        assert list(with_reference(match, draft).laws()) != []


def test_a_periodic_draft_reads_on_into_itself():
    lane = scripted()
    start = replace(lane.start, prompt=Prompt([1, 1], ["a", "a"], 2))
    step = replace(
        lane.passes[0], match=Match(1, 1, "prompt"), draft=[1, 1, 1, 1], kept=[1, 1, 1, 5]
    )
    good = Trace(start, Prefill("pld", 1.0, [1], ["a"]), [step], End("pld", "length", 5, 2))
    assert list(good.laws()) == []
    assert list(changed(good, 0, draft=[1, 1, 1, 2]).laws()) != []


def test_a_change_of_any_number_in_any_pass_breaks_a_law_or_is_refused():
    random_ = random.Random(4)
    kinds = Counter()
    for run in toy.runs("mutants", 300):
        lane = run.trace()
        if not lane.passes:
            continue
        place = random_.randrange(len(lane.passes))
        step = lane.passes[place]
        options = {"index": {"index": step.index + random_.choice([-1, 1])}}
        if step.match:
            moved = step.match.start + random_.choice([-1, 1])
            if moved >= 0:
                options["start"] = {"match": replace(step.match, start=moved)}
            options["n"] = {"match": replace(step.match, n=step.match.n + 40)}
        name = random_.choice(sorted(options))
        broken = list(changed(lane, place, **options[name]).laws())
        # a match may truly stand one token further on, in a row of equal ones
        if not broken:
            assert name == "start"
            assert len(set(step.draft)) == 1 or step.match.n == 1
        kinds[name, bool(broken)] += 1
    assert {name for name, _ in kinds} == {"index", "start", "n"}
    assert kinds["start", True] > 5 * kinds["start", False]


def brute_copy_rate(prompt, output, n):
    """By definition: every span of the output that stands verbatim at an earlier place."""
    context = prompt + output
    covered = set()
    for begin in range(len(prompt), len(context)):
        for end in range(begin + n + 1, len(context) + 1):
            span = context[begin:end]
            if any(context[p : p + len(span)] == span for p in range(begin)):
                covered.update(range(begin, end))
    return len(covered) / len(output) if output else 0.0


tokens = st.lists(st.integers(0, 2), max_size=14)


@hypothesis_settings(max_examples=400)
@given(tokens, tokens, st.integers(1, 5))
def test_text_copy_rate_is_the_share_of_copied_spans(prompt, output, n):
    assert text_copy_rate(prompt, output, n) == pytest.approx(brute_copy_rate(prompt, output, n))


def test_text_copy_rate_of_a_copy_and_of_something_new():
    text = list(range(20))
    assert text_copy_rate(text, text, 3) == 1
    assert text_copy_rate(text, [x + 100 for x in text], 3) == 0
    assert text_copy_rate(text, [], 3) == 0
    assert scripted().text_copy_rate() == text_copy_rate([1, 2, 3, 4, 1, 2], scripted().ids, 3)
    assert scripted().text_copy_rate(1) > scripted().text_copy_rate(3)


@pytest.mark.parametrize("n_max", [None, "x", [], -3, 0, True, 1.5, 10**30])
def test_text_copy_rate_of_a_run_with_odd_settings(n_max):
    lane = scripted()
    odd = Trace(
        replace(lane.start, settings={"n_max": n_max}), lane.prefill, lane.passes, lane.end
    )
    try:
        assert 0 <= odd.text_copy_rate() <= 1
    except ValueError as error:
        assert str(error).endswith(".")


def plain_lane(ids, margins=None, seconds=1.0):
    start = replace(scripted().start, lane="plain")
    margins = [1.0] * len(ids) if margins is None else margins
    return Trace(
        start,
        Prefill("plain", 1.0, ids[:1], ["x"], [], margins[:1]),
        [
            Pass(
                "plain", i, None, [], [], 0, token, [token], ["x"], 1,
                Seconds(0.0, seconds, 0.0), 0, [], margins[i - 1 : i],
            )
            for i, token in enumerate(ids[1:], 2)
        ],
        End("plain", "length", len(ids), len(ids)),
    )  # fmt: skip


def test_compare_names_the_first_difference_and_the_smaller_margin():
    a = plain_lane([1, 2, 3, 4], [4.0, 3.0, 0.25, 2.0])
    b = plain_lane([1, 2, 9, 4], [4.0, 3.0, 0.125, 2.0])
    assert compare(a, a).verdict == "same" and compare(a, a).first_difference is None
    assert (compare(a, b).first_difference, compare(a, b).margin) == (2, 0.125)
    assert compare(b, a) == compare(a, b)
    assert compare(a, b).verdict != "same"


def test_compare_of_a_lane_that_is_shorter():
    a = plain_lane([1, 2, 3], [4.0, 3.0, 2.0])
    assert compare(a, plain_lane([1, 2])).first_difference == 2
    assert compare(a, plain_lane([1, 2], [])).margin == 2.0
    assert compare(plain_lane([1, 2], []), plain_lane([1, 3], [])).margin is None


@given(tokens, tokens)
def test_compare_finds_the_first_difference(left, right):
    a, b = plain_lane([0, *left]), plain_lane([0, *right])
    differences = [
        place
        for place in range(max(len(left), len(right)))
        if left[place : place + 1] != right[place : place + 1]
    ]
    assert compare(a, b).first_difference == (differences[0] + 1 if differences else None)
    assert (compare(a, b).verdict == "same") is (left == right)


def test_speedups_by_hand():
    # 8 passes of 1 second against 4 + 1 + 2 + 1 seconds for the same 9 tokens
    ratios = speedups(scripted(), plain_lane(scripted().ids))
    assert ratios["passes"] == 9 / 5
    assert ratios["time"] == 1
    # f 2/3, L 3, r_c (4 + 2) / 2 = 3, r_m 1
    assert ratios["predicted"] == pytest.approx(1 / (2 / 9 * 3 + 1 / 3))


def test_a_speedup_below_one_stays_below_one():
    assert speedups(scripted(), plain_lane(scripted().ids, seconds=0.5))["time"] == 0.5


def test_predicted_speedup_is_the_ratio_of_times_when_the_prefill_s_token_is_counted_as_a_pass():
    for run in toy.runs("speed", 200):
        lane = run.trace()
        plain = plain_lane(lane.ids, seconds=3.0)
        ratios = speedups(lane, plain)
        numbers = lane.numbers()
        assert ratios["passes"] == pytest.approx(numbers.tokens_per_pass)
        if ratios["time"] is None:
            assert len(lane.ids) == 1 or not lane.passes
            continue
        copies = [s.seconds.total for s in lane.passes if s.accepted]
        others = [s.seconds.total for s in lane.passes if not s.accepted]
        other = sum(others) / len(others) if others else 3.0
        assert ratios["predicted"] == pytest.approx(
            numbers.tokens * 3.0 / (sum(copies) + other * (numbers.passes - len(copies)))
        )
        assert ratios["time"] == pytest.approx(
            3.0 * (numbers.tokens - 1) / numbers.decode_seconds
        )


def test_a_lane_too_short_to_tell_has_no_speedup_in_time():
    one = plain_lane([1])
    assert speedups(one, one) == {"passes": 1, "time": None, "predicted": None}


def stream(*lanes):
    return [e for t in lanes for e in (t.start, *t.steps, *([t.end] if t.end else []))]


def test_lanes_come_apart_again():
    a, b = scripted(), plain_lane([1, 2, 3])
    events = stream(a, b)
    random_ = random.Random(1)
    for _ in range(20):
        mixed, queues = [], [stream(a), stream(b)]
        while any(queues):
            queue = random_.choice([queue for queue in queues if queue])
            mixed.append(queue.pop(0))
        assert trace.lanes(mixed) == {"pld": a, "plain": b}
        assert trace.read([dumps(event) for event in mixed]) == {"pld": a, "plain": b}
    assert list(trace.lanes(events)) == ["pld", "plain"]
    assert list(trace.lanes(stream(b, a))) == ["plain", "pld"]


def test_events_out_of_order_are_refused():
    start, prefill, *passes, end = stream(scripted())
    for events in (
        [start, start],
        [prefill],
        [start, passes[0]],
        [start, prefill, prefill],
        [start, prefill, end, passes[0]],
        [start, prefill, end, end],
        [start, prefill, end, start],
        [start, prefill, replace(end, lane="other")],
    ):
        with pytest.raises(TraceError):
            trace.lanes(events)
        with pytest.raises(TraceError):
            trace.read([dumps(event) for event in events])


@pytest.mark.parametrize("lines", [[], ["", "  "], ["\n"]])
def test_an_empty_file_is_no_trace(lines):
    with pytest.raises(TraceError, match="no trace"):
        trace.read(lines)
