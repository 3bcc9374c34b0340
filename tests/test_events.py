"""A stream survives its lines; anything else than a stream is refused in one sentence."""

import copy
import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pld_core import events, trace
from pld_core.events import (
    Candidate,
    End,
    EventError,
    Match,
    Pass,
    Prefill,
    Prompt,
    Seconds,
    Start,
    dumps,
    loads,
)

# A lone half of a surrogate pair survives; two halves side by side would join, as in any JSON.
texts = st.one_of(
    st.text(max_size=8),
    st.text("\u2028\u2029\x85\n\r\x00\"\\</script>$`{}\ufffd🦊\u202e", max_size=8),
    st.sampled_from(["\ud83e", "\udd8a", "a\udd8ab", "\ud800 \udfff"]),
)
ids = st.one_of(st.integers(0, 50), st.integers(0, 10**60))
floats = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(texts, json_values, max_size=4)


def sized(elements, size):
    return st.lists(elements, min_size=size, max_size=size)


def some_or_none(size):
    return st.one_of(st.just([]), sized(floats, size))


@st.composite
def prompts(draw):
    tokens = draw(st.lists(ids, max_size=6))
    return Prompt(
        tokens, draw(sized(texts, len(tokens))), draw(st.integers(0, len(tokens)))
    )


starts = st.builds(
    Start,
    lane=texts,
    model=texts,
    revision=texts,
    device=texts,
    dtype=texts,
    versions=json_objects,
    settings=json_objects,
    prompt=prompts(),
    eos=st.lists(ids, max_size=3),
    context_limit=st.none() | ids,
    reference=st.none() | prompts(),
    created=texts,
)
seconds = st.builds(Seconds, lookup=floats, forward=floats, accept=floats, record=floats)


@st.composite
def prefills(draw):
    return Prefill(
        draw(texts),
        draw(floats),
        [draw(ids)],
        [draw(texts)],
        draw(some_or_none(1)),
        draw(some_or_none(1)),
    )


@st.composite
def passes(draw):
    drafted = draw(st.lists(ids, max_size=5))
    accepted = draw(st.integers(0, len(drafted)))
    bonus = draw(ids if accepted == 0 else st.none() | ids)
    kept = drafted[:accepted] + ([] if bonus is None else [bonus])
    matches = st.builds(
        Match, start=ids, n=st.integers(1, 9), region=st.sampled_from(events.REGIONS)
    )
    return Pass(
        lane=draw(texts),
        index=draw(ids),
        match=draw(matches | st.none()) if drafted else None,
        draft=drafted,
        draft_pieces=draw(sized(texts, len(drafted))),
        accepted=accepted,
        bonus=bonus,
        kept=kept,
        pieces=draw(sized(texts, len(kept))),
        width=1 + len(drafted) + draw(st.integers(0, 9)),
        seconds=draw(seconds),
        alternatives=draw(ids),
        probabilities=draw(some_or_none(len(kept))),
        margins=draw(some_or_none(len(kept))),
        wanted=draw(st.lists(st.builds(Candidate, id=ids, piece=texts, p=floats), max_size=3)),
    )


ends = st.builds(
    End,
    lane=texts,
    reason=st.sampled_from(events.REASONS),
    tokens=ids,
    passes=ids,
    pieces=st.lists(texts, max_size=2),
    message=texts,
)
any_event = st.one_of(starts, prefills(), passes(), ends)


@hypothesis_settings(max_examples=400)
@given(any_event)
def test_an_event_survives_its_line(event):
    line = dumps(event)
    assert loads(line) == event
    assert line.isascii()
    assert line.splitlines() == [line]
    assert dumps(loads(line)) == line


@hypothesis_settings(max_examples=50)
@given(st.lists(any_event, max_size=6))
def test_a_stream_survives_its_file(stream):
    file = "".join(dumps(event) + "\n" for event in stream)
    assert list(events.read(file.splitlines())) == stream
    assert list(events.read(file.replace("\n", "\r\n\n").splitlines(keepends=True))) == stream


@hypothesis_settings(max_examples=100)
@given(any_event, st.dictionaries(st.text("xyz", min_size=3), json_values))
def test_unknown_fields_are_ignored(event, more):
    line = json.dumps({**more, **json.loads(dumps(event))})
    assert loads(line) == event


def start(**changes):
    fields = dict(
        lane="pld",
        model="toy",
        revision="",
        device="cpu",
        dtype="float32",
        versions={},
        settings={"k": 4},
        prompt=Prompt([5, 6], ["a", "b"], 2),
        eos=[1],
        context_limit=64,
    )
    return Start(**{**fields, **changes})


GOOD = [
    start(),
    start(reference=Prompt([1], ["x"], 0)),
    Prefill("pld", 0.5, [5], ["a"], [0.5], [1.0]),
    Pass(
        "pld", 2, Match(0, 1, "prompt"), [6, 5], ["b", "a"], 1, 7, [6, 7], ["b", "c"], 3,
        Seconds(0.1, 0.2, 0.3), 1, [0.9, 0.8], [2.0, 3.0], [Candidate(7, "c", 0.8)],
    ),
    Pass("pld", 3, None, [], [], 0, 8, [8], ["d"], 1, Seconds(0.1, 0.2, 0.3)),
    End("pld", "eos", 4, 3),
]  # fmt: skip


def refused(line):
    """The one sentence with which a line is refused; None when it is an event."""
    try:
        event = loads(line)
    except EventError as error:
        sentence = str(error)
        assert sentence.endswith(".") and len(sentence.splitlines()) == 1, sentence
        assert len(sentence) < 300, len(sentence)
        return sentence
    assert isinstance(event, (Start, Prefill, Pass, End))
    assert loads(dumps(event)) == event  # what is read can be written
    return None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_neither_written_nor_read(bad):
    with pytest.raises(ValueError):
        dumps(Prefill("pld", bad, [1], ["x"]))
    line = json.dumps({**json.loads(dumps(GOOD[2])), "seconds": bad})
    assert refused(line)
    assert refused(dumps(GOOD[2]).replace("0.5", "1e999", 1))


@pytest.mark.parametrize("event", GOOD, ids=lambda event: event.type)
@pytest.mark.parametrize(
    "wrong",
    [None, True, False, 1, -1, 1.5, 10**400, -(10**400), "x", "", [], [[]], [None], [True], {},
     {"v": 1}, [1.0], ["\ud800"], {"x": {"x": 1}}],
    ids=repr,
)  # fmt: skip
def test_any_value_in_any_place_is_an_event_or_refused(event, wrong):
    data = json.loads(dumps(event))

    def places(node, path=()):
        yield path
        if isinstance(node, dict):
            for name in node:
                yield from places(node[name], (*path, name))
        elif isinstance(node, list):
            for place, entry in enumerate(node):
                yield from places(entry, (*path, place))

    for path in places(data):
        changed = copy.deepcopy(data)
        if not path:
            changed = wrong
        else:
            node = changed
            for name in path[:-1]:
                node = node[name]
            node[path[-1]] = wrong
        refused(json.dumps(changed))


@pytest.mark.parametrize("event", GOOD, ids=lambda event: event.type)
def test_true_is_not_a_number(event):
    data = json.loads(dumps(event))
    for name, value in data.items():
        if type(value) in (int, float):
            assert refused(json.dumps({**data, name: True})), name
        if isinstance(value, list) and value and type(value[0]) in (int, float):
            assert refused(json.dumps({**data, name: [True, *value[1:]]})), name


@pytest.mark.parametrize("event", GOOD, ids=lambda event: event.type)
def test_a_missing_field_is_refused_or_has_a_default(event):
    data = json.loads(dumps(event))
    for name in data:
        rest = {key: value for key, value in data.items() if key != name}
        sentence = refused(json.dumps(rest))
        if name in ("lane", "type", "v"):
            assert sentence


@pytest.mark.parametrize("version", [0, 2, "1", 1.0, None, [], {"a": 1}, "x" * 10_000, 10**4000])
def test_another_version_is_refused(version):
    assert refused(json.dumps({**json.loads(dumps(GOOD[5])), "v": version}))


@hypothesis_settings(max_examples=300)
@given(json_values)
def test_random_json_is_refused(value):
    assert refused(json.dumps(value))
    assert refused(json.dumps({"v": 1, "type": value}))


@hypothesis_settings(max_examples=300)
@given(st.sampled_from(["start", "prefill", "pass", "end"]), st.data())
def test_random_fields_are_refused(kind, data):
    names = {name for event in GOOD for name in json.loads(dumps(event))} - {"v", "type"}
    fields = data.draw(st.dictionaries(st.sampled_from(sorted(names)), json_values))
    refused(json.dumps({"v": 1, "type": kind, **fields}))


@hypothesis_settings(max_examples=200)
@given(st.text(max_size=60))
def test_random_text_is_refused(text):
    assert refused(text)


def test_mutated_lines_are_events_or_refused():
    random_ = random.Random(8)
    lines = [dumps(event) for event in GOOD]
    outcomes = set()
    for _ in range(6000):
        line = list(random_.choice(lines))
        for _ in range(random_.randint(1, 4)):
            place = random_.randrange(len(line))
            change = random_.randrange(4)
            if change == 0:
                del line[place]
            elif change == 1:
                line[place] = random_.choice('0123456789eE-+.,:[]{}"\\nulltrue\ud800\u2028 ')
            elif change == 2:
                line[place:place] = random_.choice(["[", "]", "{}", "null", "1e9", "-", "true", ","])
            else:
                end = min(len(line), place + random_.randint(1, 12))
                line[place:place] = line[place:end]
            if not line:
                line = ["{"]
        outcomes.add(refused("".join(line)) is None)
    assert outcomes == {True, False}


@pytest.mark.parametrize("depth", [10, 50, 90, 200, 300, 450, 600, 900, 990, 5000, 200_000])
@pytest.mark.parametrize("opened", ["[", '{"a":'])
def test_deep_nesting_is_an_event_or_refused(depth, opened):
    deep = opened * depth + "1" + {"[": "]"}.get(opened, "}") * depth
    good = dumps(GOOD[0])
    assert refused(deep)
    assert refused(opened * depth)
    for name in ("v", "type", "lane", "eos", "prompt"):
        data = json.loads(good)
        data[name] = "HERE"
        assert refused(json.dumps(data).replace('"HERE"', deep))
    for name in ("settings", "versions", "unknown"):
        data = {**json.loads(good), name: {"x": "HERE"}}
        refused(json.dumps(data).replace('"HERE"', deep))


def test_a_number_with_too_many_digits_is_refused():
    assert refused(dumps(GOOD[5]).replace('"tokens":4', '"tokens":' + "9" * 5000))


@pytest.mark.parametrize(
    "changes",
    [
        {"kept": []},
        {"kept": [6, 8], "pieces": ["b", "c"]},
        {"kept": [7, 6]},
        {"accepted": 3},
        {"accepted": -1},
        {"accepted": 0},
        {"accepted": 2},
        {"bonus": None},
        {"bonus": 6},
        {"pieces": ["b"]},
        {"draft_pieces": ["b"]},
        {"draft": [], "draft_pieces": [], "accepted": 0, "kept": [7], "pieces": ["c"],
         "probabilities": [], "margins": []},
        {"width": 2},
        {"probabilities": [0.9]},
        {"margins": [0.9, 0.9, 0.9]},
        {"match": {"start": -1, "n": 1, "region": "prompt"}},
        {"match": {"start": 0, "n": 0, "region": "prompt"}},
        {"match": {"start": 0, "n": 1, "region": "web"}},
        {"match": {"start": 0, "n": 1}},
    ],
    ids=lambda changes: ",".join(f"{name}={value}" for name, value in changes.items())[:60],
)  # fmt: skip
def test_a_pass_that_contradicts_itself_is_refused(changes):
    assert refused(json.dumps({**json.loads(dumps(GOOD[3])), **changes}))


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        (0, {"prompt": {"ids": [1], "pieces": [], "answer_start": 0}}),
        (0, {"prompt": {"ids": [1], "pieces": ["x"], "answer_start": 2}}),
        (0, {"prompt": {"ids": [1], "pieces": ["x"], "answer_start": -1}}),
        (2, {"kept": [5, 6], "pieces": ["a", "b"], "probabilities": [], "margins": []}),
        (5, {"reason": "bored"}),
    ],
)
def test_an_event_that_contradicts_itself_is_refused(event, changes):
    assert refused(json.dumps({**json.loads(dumps(GOOD[event])), **changes}))


@hypothesis_settings(max_examples=50)
@given(st.integers(0, 4), st.sampled_from(["", "  ", "\t\r"]))
def test_reading_names_the_line(place, blank):
    lines = [blank] + [dumps(event) for event in GOOD[1:]]
    lines.insert(place + 1, "{broken")
    with pytest.raises(EventError, match=f"^Line {place + 2}: "):
        list(events.read(lines))
    with pytest.raises(trace.TraceError, match=f"^Line {place + 2}: "):
        trace.read(lines)


def test_shuffled_cut_and_doubled_streams_are_traces_or_refused():
    random_ = random.Random(9)
    other = [dumps(event).replace('"lane":"pld"', '"lane":"plain"') for event in GOOD]
    lines = [dumps(event) for event in GOOD] + other
    outcomes = set()
    for _ in range(3000):
        stream = random_.choices(lines, k=random_.randint(0, 9))
        if random_.random() < 0.5:
            stream.sort(key=lambda line: lines.index(line))
        try:
            for lane in trace.read(stream).values():
                list(lane.laws())
            outcomes.add("read")
        except trace.TraceError as error:
            sentence = str(error)
            assert sentence.endswith(".") and len(sentence.splitlines()) == 1
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
