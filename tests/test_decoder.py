"""Prompt lookup decoding is plain decoding in fewer passes, whatever is drafted and however
the answer ends."""

import random
from collections import Counter

import pytest
import toy

from pld_core import trace
from pld_core.decoder import PromptError, Reading, decode
from pld_core.events import End, Match, Pass, Prefill, Start, dumps
from pld_core.lookup import Draft, NgramLookup, NoLookup, build
from pld_core.settings import Settings


def check(run, lookup=None, honest=True):
    """Decodes, looking into the target after every event; the trace, which was right."""
    expected, reason = run.expected()
    target = run.target()
    text = ""
    context = list(run.prompt)
    whole = toy.text_of(expected)
    events = []
    for event in run.events(lookup, target):
        events.append(event)
        dumps(event)
        if isinstance(event, (Prefill, Pass)):
            remaining = run.settings.max_new_tokens - (len(context) - len(run.prompt))
            if isinstance(event, Pass):
                assert len(event.draft) <= min(run.settings.k, remaining - 1)
                assert not set(event.draft[:-1]) & set(run.eos)  # nothing can stand behind one
                assert target.forwards[-1] == event.width == 1 + len(event.draft)
                rejected = event.accepted < len(event.draft) and event.bonus is not None
                assert bool(event.wanted) is rejected
                if rejected:
                    assert event.wanted[0].id == event.bonus != event.draft[event.accepted]
                    # each is shown as the text that it would have added there
                    shown = text + "".join(event.pieces[:-1])
                    stood = [*context[len(run.prompt) :], *event.kept[:-1]]
                    for candidate in event.wanted:
                        name = "<e>" if candidate.id == toy.VOCABULARY - 1 else ""
                        whole_there = toy.text_of([*stood, candidate.id]) + name
                        assert shown + candidate.piece == whole_there
            context += event.kept
            text += "".join(event.pieces)
            assert whole.startswith(text)
        if isinstance(event, (Prefill, Pass, End)):
            assert target.cache == context[:-1]
        if isinstance(event, End):
            text += "".join(event.pieces)
    (lane,) = trace.lanes(events).values()
    assert lane.ids == expected
    assert (lane.end.reason, lane.end.tokens) == (reason, len(expected))
    assert lane.end.passes == len(target.forwards) == len(lane.steps)
    assert lane.text == text == whole
    assert all(step.bonus is not None for step in lane.passes[:-1])
    if "\ufffd" not in whole:
        assert not any("\ufffd" in piece for step in lane.steps for piece in step.pieces)
    if honest:
        assert list(lane.laws()) == []
    return lane


def test_pld_equals_token_by_token_decoding_for_thousands_of_settings():
    accepted, reasons, cut, blocks = Counter(), Counter(), Counter(), Counter()
    for run in toy.runs("decoder", 4000):
        lane = check(run)
        reasons[lane.end.reason] += 1
        for step in lane.passes:
            if run.settings.k == 5 == len(step.draft):
                accepted[step.accepted] += 1
            if step.bonus is None:  # the answer ended inside the accepted tokens
                cut[lane.end.reason] += 1
                blocks[step.accepted, len(step.draft)] += 1
    assert set(accepted) == {0, 1, 2, 3, 4, 5}
    assert set(reasons) == {"eos", "stop", "length", "context_full"}
    assert set(cut) == {"eos", "stop"}
    assert {1, 2, 3} <= {within for within, drafted in blocks if within < drafted}


def test_plain_decoding_is_the_same_loop_without_drafts():
    for run in toy.runs("plain", 500):
        run.settings = run.settings.plain()
        lane = check(run)
        assert all(step.width == 1 and step.match is None for step in lane.passes)
        assert len(lane.steps) == len(lane.ids)


class Scripted:
    """A lookup that is told what to draft; it remembers what it was shown."""

    def __init__(self, draft):
        self.context = []
        self.asked = []
        self._draft = draft

    def extend(self, tokens):
        self.context += tokens

    def propose(self, k):
        self.asked.append(list(self.context))
        return self._draft(self.context, k)


def oracle(run, right=10**9, more=0):
    """Drafts what the target will say, the first `right` tokens of it right."""
    output = toy.token_by_token(run.choose, run.prompt, max_new_tokens=90)[0]

    def draft(context, k):
        done = len(context) - len(run.prompt)
        tokens = output[done : done + k + more]
        if right < len(tokens):
            tokens[right] = (tokens[right] + 1) % toy.VOCABULARY
        return Draft(tokens, Match(0, 1, "prompt"), 1)

    return draft


def hostile(run, random_):
    far = 2**40
    yield "empty", lambda context, k: Draft()
    yield "match without a draft", lambda context, k: Draft([], Match(0, 1, "prompt"), 3)
    yield "constant", lambda context, k: Draft([1] * k)
    yield "too long", lambda context, k: Draft([random_.randrange(3) for _ in range(k + 50)])
    yield "random", lambda context, k: Draft([random_.randrange(toy.VOCABULARY) for _ in range(k)])
    yield "negative", lambda context, k: Draft([-1] * k)
    yield "outside", lambda context, k: Draft([toy.VOCABULARY] * k)
    yield "mixed", lambda context, k: Draft([random_.randint(-2, 14) for _ in range(k)])
    yield "huge", lambda context, k: Draft([random_.choice([0, far, -far]) for _ in range(k)])
    yield "oracle", oracle(run)
    yield "oracle, too long", oracle(run, more=30)
    for right in range(4):
        yield f"oracle, wrong after {right}", oracle(run, right)
    yield "a lie about its source", lambda context, k: Draft([0] * k, Match(999, 7, "reference"))


def test_no_lookup_can_change_the_text():
    random_ = random.Random("hostile")
    seen = Counter()
    for run in toy.runs("hostile", 150):
        for name, draft in hostile(run, random_):
            lane = check(run, Scripted(draft), honest=False)
            seen[name] += sum(step.accepted for step in lane.passes)
    assert seen["oracle"] > 5 * seen["random"] > 0
    assert seen["negative"] == seen["outside"] == seen["empty"] == 0


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
def test_every_count_of_right_tokens_is_accepted_exactly(k):
    for right in range(k + 1):
        run = toy.Run(3, [1, 2, 3], Settings(k=k, max_new_tokens=60))
        lane = check(run, Scripted(oracle(run, right)), honest=False)
        full = [step for step in lane.passes if len(step.draft) == k]
        assert len(full) > 3
        assert {step.accepted for step in full} == {right}


def test_a_perfect_lookup_takes_the_fewest_passes():
    run = toy.Run(4, [1, 2, 3], Settings(k=7, max_new_tokens=65))
    assert len(check(run, Scripted(oracle(run)), honest=False).steps) == 1 + 64 // 8


def test_the_lookup_is_shown_exactly_the_context_with_its_newest_token():
    for run in toy.runs("spy", 100):
        output, _ = run.expected()
        lookup = Scripted(oracle(run, 2))
        check(run, lookup, honest=False)
        whole = run.prompt + output
        for asked in lookup.asked:
            assert len(asked) > len(run.prompt)
            assert asked == whole[: len(asked)]


@pytest.mark.parametrize("place", range(1, 25))
def test_any_token_may_be_the_one_that_ends_the_answer(place):
    # the same text, with each of its tokens in turn declared an end
    base = toy.Run(11, [0, 1, 2, 3, 0, 1, 2], Settings(k=6, max_new_tokens=40), copying=0.95)
    output, _ = base.expected()
    token = output[place]
    for eos in ([token], [token, 99], [99, token, output[-1]]):
        run = toy.Run(11, base.prompt, base.settings, eos, copying=0.95)
        lane = check(run)
        assert not set(eos) & set(lane.ids[:-1])
        for right in range(7):
            lane = check(run, Scripted(oracle(run, right)), honest=False)
        # all six right: passes are blocks of seven, the end stands somewhere in one
        block, inside = divmod(len(run.expected()[0]) - 2, 7)
        assert len(lane.passes) == block + 1
        assert [step.bonus is None for step in lane.passes[-1:]] in ([], [inside < 6])


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7, 11])
@pytest.mark.parametrize("k", [0, 1, 4, 10])
def test_no_draft_reaches_past_the_length_limit(limit, k):
    run = toy.Run(5, [1, 2, 1, 2, 1], Settings(k=k, max_new_tokens=limit), copying=1.0)
    lane = check(run)
    assert (len(lane.ids), lane.end.reason) == (limit, "length")


@pytest.mark.parametrize("room", range(12))
def test_no_position_past_the_context_is_forwarded(room):
    prompt = [1, 2, 3, 1, 2, 3, 1]
    for k in (0, 1, 3, 20):
        run = toy.Run(6, prompt, Settings(k=k), context_limit=len(prompt) + room, copying=1.0)
        lane = check(run)  # the target itself refuses a position past its limit
        assert (lane.end.reason, len(lane.ids)) == ("context_full", room + 1)
        check(run, Scripted(oracle(run, more=30)), honest=False)


def spell(text):
    """Tokens that write `text`, one letter each."""
    return [{"a": 0, "b": 1, "#": 2, " ": 4}[letter] for letter in text]


def scripted_run(says, prompt, **settings):
    """A target that says just this, and then spaces."""

    def choose(context):
        place = len(context) - len(prompt)
        return says[place] if 0 <= place < len(says) else 4

    run = toy.Run(0, prompt, Settings(**settings))
    run.__class__ = type("Scripted", (toy.Run,), {"choose": property(lambda self: choose)})
    return run


@pytest.mark.parametrize(
    ("says", "stop", "ids", "text"),
    [
        ([0, 2, 3, 0, 0], ["###"], [0, 2, 3], "a###"),  # over two tokens
        ([0, 3, 3, 0, 0], ["###"], [0, 3, 3], "a####"),  # ends in the middle of a token
        ([0, 8, 2, 0, 0], ["b#"], [0, 8, 2], "aab#"),  # begins in the middle of a token
        ([0, 5, 6, 7, 1], ["€"], [0, 5, 6, 7], "a€"),  # a character in three tokens
        ([0, 5, 9, 1, 1], ["€#"], [0, 5, 9], "a€#"),  # its end and more in one token
        ([0, 10, 10, 1, 2], ["ab"], [0, 10, 10, 1], "ab"),  # tokens without text between
        ([0, 1, 2, 0], ["2", "b", "ab"], [0, 1], "ab"),  # two at once
        ([0, 11, 1, 0], ["ab"], [0, 11, 1], "ab"),  # a control token has no text
    ],
)
def test_a_stop_string_ends_the_answer_at_the_token_that_completes_it(says, stop, ids, text):
    for k in (0, 1, 2, 3, 6):
        for right in range(k + 1):
            run = scripted_run(says, [4, 4], k=k, stop=tuple(stop), max_new_tokens=20)
            lane = check(run, Scripted(oracle(run, right)) if k else None, honest=not k)
            assert (lane.ids, lane.text, lane.end.reason) == (ids, text, "stop")


def test_the_prompt_s_own_copy_of_a_stop_string_does_not_end_the_answer():
    run = scripted_run(spell("ab ab ###"), spell("ab ### ab #"), stop=("###",), max_new_tokens=20)
    assert toy.text_of(check(run).ids) == "ab ab ###"
    # nor does one that begins in the prompt and ends in the answer
    run = scripted_run(spell("# ab"), spell("ab ##"), stop=("###",), max_new_tokens=4)
    assert check(run).end.reason == "length"


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 8])
def test_a_stop_string_inside_the_budget_wins_over_the_budget(k):
    prompt = spell("ab #ab #")
    for budget, reason in ((2, "length"), (3, "stop"), (4, "stop"), (9, "stop")):
        run = scripted_run(spell("ab #ab #"), prompt, k=k, stop=("b ",), max_new_tokens=budget)
        assert check(run).end.reason == reason


@pytest.mark.parametrize("fails_at", [1, 2, 3, 7])
def test_an_error_of_the_target_ends_the_stream_and_then_is_raised(fails_at):
    run = toy.Run(8, [1, 2, 1, 2, 1], Settings(max_new_tokens=40), copying=0.9)
    events = []
    with pytest.raises(RuntimeError, match="out of memory"):
        for event in run.events(target=run.target(fails_at=fails_at)):
            events.append(event)
    (lane,) = trace.lanes(events).values()
    assert isinstance(events[-1], End)
    assert (lane.end.reason, lane.end.passes) == ("error", fails_at - 1)
    assert lane.end.message
    assert "out of memory" not in lane.end.message
    assert lane.ids == run.expected()[0][: len(lane.ids)]
    assert list(lane.laws()) == []
    assert [dumps(event) for event in events]


def test_an_error_of_the_lookup_ends_the_stream_and_then_is_raised():
    def draft(context, k):
        if len(context) > 8:
            raise ZeroDivisionError
        return Draft([1])

    run = toy.Run(8, [1, 2, 1, 2, 1], Settings(max_new_tokens=40))
    events = []
    with pytest.raises(ZeroDivisionError):
        for event in run.events(Scripted(draft)):
            events.append(event)
    assert (events[-1].type, events[-1].reason) == ("end", "error")
    assert list(trace.lanes(events)["pld"].laws()) == []


def test_closing_the_stream_stops_the_target_within_the_pass():
    for passes in range(6):
        run = toy.Run(9, [1, 2, 1], Settings(max_new_tokens=99))
        target = run.target()
        events = run.events(target=target)
        seen = [next(events) for _ in range(1 + passes)]
        events.close()
        assert len(target.forwards) == passes
        assert list(events) == []
        assert not any(isinstance(event, End) for event in seen)
    check(run)  # the next run is not touched by it


def test_nothing_runs_before_it_is_asked_for():
    run = toy.Run(9, [1, 2, 1])
    target = run.target()
    events = run.events(target=target)
    assert isinstance(next(events), Start)
    assert target.forwards == []


def test_two_runs_share_nothing():
    one = toy.Run(21, [1, 2, 3, 1, 2], Settings(max_new_tokens=30))
    two = toy.Run(22, [4, 5, 6, 4, 5], Settings(max_new_tokens=30))
    alone = [check(one), check(two)]
    turns = [one.events(), two.events()]
    mixed = [[], []]
    for _ in range(40):
        for place, events in enumerate(turns):
            mixed[place] += [event for event in [next(events, None)] if event]
    for lane, events in zip(alone, mixed):
        assert [step.kept for step in trace.lanes(events)["pld"].steps] == [
            step.kept for step in lane.steps
        ]


@pytest.mark.parametrize(
    ("prompt", "limit", "said"),
    [([], 10, "empty"), ([], None, "empty"), ([1] * 1001, 1000, "1,001 of 1,000")],
)
def test_a_prompt_that_cannot_run_is_refused_before_the_first_event(prompt, limit, said):
    run = toy.Run(1, prompt, context_limit=limit)
    target = run.target()
    with pytest.raises(PromptError, match=said):
        next(run.events(target=target))
    assert target.forwards == []


def test_a_pass_is_timed_apart_from_its_reader():
    # a clock that the reader of the stream turns forward by an hour between events
    now = [0.0]

    def clock():
        now[0] += 1
        return now[0]

    run = toy.Run(12, [1, 2, 1, 2], Settings(max_new_tokens=30))
    for event in run.events(clock=clock):
        now[0] += 3600
        if isinstance(event, Prefill):
            assert 0 < event.seconds < 10
        elif isinstance(event, Pass):
            assert event.seconds.total + event.seconds.record < 10
            assert min(event.seconds.lookup, event.seconds.forward, event.seconds.accept) > 0


def test_the_parts_of_a_prompt_are_timed_as_its_prefill():
    class InParts(toy.ToyTarget):
        def read(self, ids):
            yield from (2, 4)

    run = toy.Run(12, [1, 2, 1, 2, 3], Settings(max_new_tokens=3))
    seconds = []
    for parts in (False, True):
        found = list(run.events(target=InParts(run.choose), parts=parts))
        read = [event.tokens for event in found if isinstance(event, Reading)]
        assert read == ([2, 4] if parts else [])
        seconds += [event.seconds for event in found if isinstance(event, Prefill)]
    # one tick for what is left, one for each part, one for there being no other
    assert seconds == [1, 4]


@pytest.mark.parametrize("late", [False, True])
def test_what_is_told_while_a_device_works_is_part_of_the_forward_pass(late, monkeypatch):
    monkeypatch.setattr(toy.ToyScores, "late", late, raising=False)
    ticks = iter(range(10**6))
    run = toy.Run(12, [1, 2, 1, 2], Settings(max_new_tokens=30))
    events = run.events(clock=lambda: float(next(ticks)))
    passes = [event for event in events if isinstance(event, Pass)]
    # one tick for the forward pass, one for the draft's text, one for the wait
    assert {step.seconds.forward for step in passes} == {3.0 if late else 2.0}
    assert {step.seconds.total + step.seconds.record for step in passes} == {8.0}


def test_ends_of_the_caller_are_asked():
    class Never:
        remaining = 4

        def after(self, token, piece):
            self.remaining -= 1
            return "cancelled" if self.remaining == 0 else None

    run = toy.Run(1, [1, 2, 1], Settings(k=3))
    lookup = build(run.settings)
    events = decode(run.start(), run.target(), lookup, toy.pieces(), run.settings, Never())
    lane = trace.lanes(events)["pld"]
    assert (lane.end.reason, lane.end.tokens) == ("cancelled", 4)


def test_settings_reach_the_lookup():
    prompt = [1, 2, 3, 7, 1, 2, 3, 8, 1, 2]
    run = toy.Run(1, prompt, Settings(max_new_tokens=2))

    def first(**changes):
        run = scripted_run([3, 5, 5, 5], prompt, **{"max_new_tokens": 9, **changes})
        return run.trace().passes[0]

    assert first(k=4).draft == [8, 1, 2, 3]
    assert first(k=2).draft == [8, 1]
    assert first(k=0).draft == []
    assert first(policy="oldest").draft[0] == 7
    assert first(n_max=2).match.n == 2
    assert first(n_min=3, n_max=3).match.n == 3
    assert first(n_min=4, n_max=5).match is None
    assert len(first(k=20, periodic=False, max_new_tokens=40).draft) == 4
    assert len(first(k=20, periodic=True, max_new_tokens=40).draft) == 20
    assert isinstance(build(run.settings.plain()), NoLookup)
    assert isinstance(build(run.settings), NgramLookup)
