"""Anything at all for the trace reader and for the page's endpoints: one sentence or a result."""

import json
import random
from typing import Any, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pld_core import trace
from pld_core.events import dumps
from pld_core.events import read as read_events
from pld_core.hosting.calls import summary
from pld_core.settings import Settings, SettingsError
from pld_core.trace import TraceError
from tests.browser.scripted import lane, lines, tokens_of
from tests.mutations import ANYTHING, mutated, with_trees
from tests.strangers import ANSWER, Stranger, served

PROMPT = tokens_of("to be or not to be that is ")
OUTPUT = tokens_of("to be or not to be was it")
GOOD = [
    "".join(lines(lane(PROMPT, OUTPUT), lane(PROMPT, OUTPUT, "plain"))),
    "".join(lines(lane(PROMPT, OUTPUT, reference=OUTPUT), lane(PROMPT, OUTPUT, "pld-b", k=2))),
    with_trees(),
]
RUNS = settings(max_examples=150, suppress_health_check=list(HealthCheck))


def reads_or_says_why(text: str) -> None:
    """A stream is read and all that is asked of it works, or TraceError is one sentence."""
    try:
        found = trace.read(text.splitlines())
    except TraceError as error:
        said = str(error)
        assert "\n" not in said and len(said) < 400
        return
    for one in found.values():
        list(one.laws())
        if one.prefill is not None:
            numbers = one.numbers()
            assert numbers.tokens == len(one.ids) >= numbers.passes == len(one.steps)
            assert 0 <= numbers.f <= 1 and 0 <= one.text_copy_rate() <= 1
        try:
            Settings.from_json(one.start.settings)
        except SettingsError as error:
            assert len(str(error)) < 400
    ends = trace.endings(found)
    assert set(trace.read([*text.splitlines(), *map(dumps, ends)])) == set(found)
    again = [dumps(event) for event in read_events(text.splitlines())]
    assert [dumps(event) for event in read_events(again)] == again
    if "pld" in found:
        json.dumps(summary("\n".join([*text.splitlines(), *map(dumps, ends)])), allow_nan=False)


@given(st.sampled_from(GOOD), st.integers(0, 2**32), st.integers(1, 3))
@RUNS
def test_mutated_traces(good: str, seed: int, changes: int) -> None:
    reads_or_says_why(mutated(good, random.Random(seed), changes))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(ANYTHING),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("type"), inner),
    max_leaves=10,
)


@given(st.lists(JSON.map(json.dumps) | st.text() | st.binary().map(lambda b: b.decode("latin-1"))))
@RUNS
def test_lines_that_are_no_events(anything: list[str]) -> None:
    reads_or_says_why("\n".join(anything))


@given(st.sampled_from(GOOD), st.integers(0, 10_000))
def test_a_stream_cut_anywhere(good: str, cut: int) -> None:
    reads_or_says_why(good[: cut % len(good)])


@pytest.mark.parametrize(
    "line",
    ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000,
     "9" * 10_000, '{"v":1,"type":"end","tokens":' + "9" * 10_000 + "}", "\x00" * 1000, "NaN", "-Infinity"],
    ids=range(8),
)  # fmt: skip
def test_deep_and_giant(line: str) -> None:
    reads_or_says_why(line)
    start = GOOD[0].splitlines()[0]
    reads_or_says_why(f"{start}\n{line}")
    deep = start.replace('"settings":{', f'"settings":{{"deep":{line},', 1)
    reads_or_says_why(deep)


# --- the endpoints ---


@pytest.fixture(scope="module")
def stranger() -> Iterator[Stranger]:
    with served() as stranger:
        yield stranger


def sentence(text: str) -> None:
    assert "Traceback" not in text and 'File "' not in text and "site-packages" not in text


VALUES = [*ANYTHING, "recent", "a b c a b", {"path": "/etc/passwd"}, [["x"] * 3] * 3]


def test_every_listener_with_anything(stranger: Stranger) -> None:
    """No call hangs, none shows a traceback, and the next good run works."""
    pick = random.Random(20261130)
    for listener in stranger.listeners:
        if not listener["backend_fn"]:
            continue
        for _ in range(4):
            data: Any = [pick.choice(VALUES) for _ in listener["inputs"]]
            if pick.random() < 0.2:
                data = pick.choice([data[:-1], [*data, 1], [], None, "x", {"0": 1}])
            event_data = pick.choice([None, *VALUES])
            if listener["queue"] is False:
                answer = stranger.send(listener["id"], data, event_data)
                assert answer.status_code in (200, 400, 422, 500)
                sentence(answer.text)
                assert answer.status_code != 500 or answer.json().keys() & {"error", "detail"}
            else:
                messages = stranger.queue(listener["id"], data, event_data)
                assert messages
                sentence(json.dumps(messages))
    assert stranger.run()[-1]["text"] == "".join(ANSWER)


def test_run_trace_with_anything(stranger: Stranger) -> None:
    pick = random.Random(7)
    names = ["prompt", "n_max", "n_min", "k", "policy", "chat", "plain", "temperature", "top_p", "seed",
             "max_new_tokens", "system", "reference", "nonsense"]  # fmt: skip
    for _ in range(16):
        body = {name: pick.choice(VALUES) for name in pick.sample(names, pick.randrange(1, 6))}
        answer = stranger.post("gradio_api/call/v2/run_trace", body)
        sentence(answer.text)
        assert answer.status_code in (200, 400, 422, 500)
        if answer.status_code == 200:
            event = answer.json()["event_id"]
            stream = stranger.http.get(f"gradio_api/call/run_trace/{event}").text
            sentence(stream)
            assert "event: complete" in stream or "event: error" in stream
    assert stranger.run()[-1]["text"] == "".join(ANSWER)


BODIES = [b"", b"{", b"null", b"[]", b"1", b'"x"', b"\xff\xfe\x00", b"{}", b'{"data":{}}', b'{"data":[NaN]}',
          b'{"data":["\\ud800"],"fn_index":0,"session_hash":"s"}', b'{"fn_index":-1,"data":[],"session_hash":"s"}',
          b'{"fn_index":99999,"data":[],"session_hash":"s"}', b'{"fn_index":"x","data":[],"session_hash":"s"}',
          b'{"fn_index":1e400,"data":[],"session_hash":"s"}', b'{"data":[],"session_hash":{}}',
          b"[" * 5000 + b"]" * 5000, b'{"data":[' + b"1," * 100_000 + b"1]}"]  # fmt: skip
DOORS = ["queue/join", "run/predict", "call/run_trace", "call/nothing", "call/v2/run_trace", "call/v2/nothing",
         "cancel", "reset", "mcp/"]  # fmt: skip


def test_every_door_with_any_body(stranger: Stranger) -> None:
    for door in DOORS:
        for body in BODIES:
            answer = stranger.post(f"gradio_api/{door}", body)
            sentence(answer.text)
    for query in ("queue/data?session_hash=none", "queue/data", "call/run_trace/none", "heartbeat/"):
        with stranger.http.stream("GET", f"gradio_api/{query}") as answer:
            sentence(next(answer.iter_text(), ""))
    assert stranger.run()[-1]["text"] == "".join(ANSWER)
