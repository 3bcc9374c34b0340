"""The page for programs: run_trace by client and by MCP, /health, /metrics."""

import json
import re
import threading
from dataclasses import fields
from pathlib import Path
from typing import Iterator

import pytest
from gradio_client.exceptions import AppError

from pld_core import __version__, trace
from pld_core.events import End, dumps, loads
from pld_core.hosting.calls import records, summary
from pld_core.hosting.line import Outlook
from pld_core.hosting.metrics import BUCKETS, Metrics
from pld_core.hosting.service import TimeUp
from pld_core.page.site import routes
from pld_core.serving import Request, RequestError, Status
from pld_core.settings import POLICIES
from tests.browser.scripted import lane, lines, tokens_of
from tests.strangers import ANSWER, PROMPT, Stranger, awaited, served

README = Path(__file__).resolve().parent.parent / "README.md"
STREAM = "".join(
    lines(lane(tokens_of(PROMPT), ANSWER), lane(tokens_of(PROMPT), ANSWER, "plain"))
)


@pytest.fixture(scope="module")
def server() -> Iterator[Stranger]:
    with served() as stranger:
        yield stranger


@pytest.fixture
def stranger(server: Stranger) -> Stranger:
    server.slot.reset()
    server.slot.answer = ANSWER
    return server


def growing(stream: str = STREAM, step: int = 3) -> Iterator[str]:
    parts = stream.splitlines(keepends=True)
    for end in range(step, len(parts) + step, step):
        yield "".join(parts[:end])


# --- run_trace ---


def test_a_record_is_an_event_and_the_last_one_sums_up(stranger: Stranger) -> None:
    *events, last = stranger.run()
    read = [loads(json.dumps(event)) for event in events]
    found = trace.lanes(read)
    assert list(found) == ["pld", "plain"] and not list(found["pld"].laws())
    assert [event["type"] for event in events if event["lane"] == "pld"] == [
        "start", "prefill", "pass", "pass", "end"
    ]  # fmt: skip
    assert (last["type"], last["text"], last["same_text"]) == ("summary", "".join(ANSWER), True)
    assert (last["tokens"], last["passes"]) == (6, 3)
    assert last["copies"] == [
        {"pass": 2, "text": " c d e", "from": "prompt", "start": 2, "drafted": 10, "accepted": 3}
    ]


def test_every_setting_arrives_by_its_name(stranger: Stranger) -> None:
    settings = {
        "answer_prefix": "so", "system": "brief", "reference": "ref", "chat": False, "plain": False,
        "n_max": 5, "n_min": 2, "k": 7, "branches": 3, "policy": "oldest", "adaptive": True,
        "strict": True, "max_new_tokens": 9, "temperature": 0.5, "top_k": 3, "top_p": 0.5, "seed": 4,
    }  # fmt: skip
    stranger.run(**settings)
    request = stranger.slot.requests[-1]
    assert request.prompt == PROMPT
    assert {name: getattr(request, name) for name in settings} == settings


def test_what_is_not_said_is_as_in_every_other_run(stranger: Stranger) -> None:
    stranger.run()
    assert stranger.slot.requests[-1] == Request(PROMPT)
    info = stranger.http.get("gradio_api/info").json()["named_endpoints"]["/run_trace"]
    assert {field["parameter_name"] for field in info["parameters"]} | {"rival"} == {
        field.name for field in fields(Request)
    }


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"prompt": ""}, "The prompt is empty: there is nothing to read."),
        ({"prompt": 3}, "prompt is a text, not 3."),
        ({"prompt": None}, "prompt is a text, not None."),
        ({"prompt": "a", "chat": "no"}, "chat is true or false, not 'no'."),
        ({"prompt": "a", "reference": ["x" * 999]}, "reference is a text, not ['xxx"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(stranger: Stranger, settings, sentence) -> None:
    with pytest.raises(AppError) as raised:
        stranger.run(**settings)
    assert str(raised.value).startswith(sentence) and len(str(raised.value)) < 100
    assert stranger.run()[-1]["text"] == "".join(ANSWER)


def test_a_run_that_breaks_is_one_sentence(stranger: Stranger) -> None:
    stranger.slot.breaks_at = 4
    with pytest.raises(AppError, match="^The run broke off"):
        stranger.run()
    stranger.slot.breaks_at = None
    assert stranger.run()[-1]["text"] == "".join(ANSWER)


def test_the_example_of_the_readme_runs_as_it_is_written(stranger, tmp_path, monkeypatch, capsys) -> None:
    text = README.read_text("utf-8")
    (example,) = re.findall(r"```python\n(from gradio_client.*?)```", text, re.DOTALL)
    assert "http://127.0.0.1:7860" in example
    monkeypatch.chdir(tmp_path)
    exec(example.replace("http://127.0.0.1:7860", stranger.url), {})
    said = capsys.readouterr().out
    assert re.search(rf"^6 tokens in \d passes: {re.escape(''.join(ANSWER))}$", said, re.MULTILINE)
    assert stranger.slot.requests[-1].prompt.startswith("Repeat this letter")
    with open(tmp_path / "run.ndjson", encoding="utf-8") as file:
        assert trace.read(file)["pld"].text == "".join(ANSWER)


def test_the_summary_of_a_run_cut_short() -> None:
    start, *_ = STREAM.splitlines(keepends=True)
    none = summary(start + dumps(End("pld", "cancelled", 0, 0)))
    assert (none["text"], none["tokens"], none["reason"]) == ("", 0, "cancelled")
    assert none["tokens_per_pass"] is none["time_speedup"] is none["same_text"] is None


def test_waiting_is_told_and_a_run_cut_by_time_has_its_ends() -> None:
    def updates():
        yield Outlook(2, None)
        yield "".join(STREAM.splitlines(keepends=True)[:6])
        raise TimeUp("Too long.")

    waiting, *events, last = records(updates())
    assert waiting == {"type": "waiting", "ahead": 2, "seconds": None}
    ends = [event for event in events if event["type"] == "end"]
    assert [(end["lane"], end["reason"], end["message"]) for end in ends] == [
        ("pld", "cancelled", "Too long."),
        ("plain", "cancelled", "Too long."),
    ]
    assert (last["reason"], last["message"], last["tokens"]) == ("cancelled", "Too long.", 5)


def test_whoever_leaves_ends_the_run() -> None:
    closed = []

    def stream():
        try:
            yield from growing()
        finally:
            closed.append(True)

    reading = records(stream())
    next(reading)
    reading.close()
    assert closed == [True]


def test_an_agent_calls_the_tool(stranger: Stranger) -> None:
    mcp = pytest.importorskip("mcp", reason="MCP is an extra: pip install mcp")
    from mcp.client.streamable_http import streamablehttp_client

    async def call():
        async with streamablehttp_client(stranger.url + "gradio_api/mcp/") as (read, write, _):
            async with mcp.ClientSession(read, write) as session:
                await session.initialize()
                tools = (await session.list_tools()).tools
                good = await session.call_tool("run_trace", {"prompt": PROMPT, "k": 4})
                bad = await session.call_tool("run_trace", {"prompt": ""})
                return tools, good, bad

    (tool,), good, bad = awaited(call)
    assert tool.name == "run_trace" and tool.inputSchema["required"] == ["prompt"]
    assert all(field["description"] for field in tool.inputSchema["properties"].values())
    assert "prompt lookup decoding" in tool.description
    told = tool.inputSchema["properties"]["policy"]["description"]
    assert all(re.search(rf"\b{policy}\b", told) for policy in POLICIES)
    assert not good.isError and "'tokens_per_pass': 2.0" in good.content[0].text
    assert bad.isError and "The prompt is empty" in bad.content[0].text


# --- health ---


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status("loading", "The model is loading."), 200),
        (Status("ready", "tiny on paper", "tiny", "paper"), 200),
        (Status("failed", "The model failed to load (OSError)."), 503),
    ],
)
def test_health(stranger: Stranger, status: Status, code: int) -> None:
    stranger.slot.status = status
    answer = stranger.http.get("health")
    assert answer.status_code == code
    assert answer.json() == {
        "status": status.state,
        "model": status.model,
        "device": status.device,
        "version": __version__,
        "message": status.text,
    }


def test_health_and_the_page_behind_a_proxy_with_a_path_of_its_own() -> None:
    with served(root_path="/lens-here") as stranger:
        assert stranger.http.get("health").status_code == 200
        page = stranger.http.get("").text
        assert "/lens-here" in page
        assert stranger.http.get("parts/words.js").status_code == 200


# --- metrics ---


def read(text: str) -> dict[str, float]:
    """name{labels} -> value; every line is one of the text format's."""
    values, kinds = {}, {}
    for line in text.splitlines():
        if line.startswith("#"):
            _, what, name, rest = line.split(" ", 3)
            kinds.setdefault(name, []).append(what)
            continue
        found = re.fullmatch(r'([a-z_]+)(\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})? (\S+)', line)
        assert found, line
        values[found[1] + (found[2] or "")] = float(found[3])
    assert all(what == ["HELP", "TYPE"] for what in kinds.values())
    return values


def test_runs_are_counted(stranger: Stranger) -> None:
    before = read(stranger.http.get("metrics").text)
    assert [record["type"] for record in stranger.run()][-1] == "summary"
    with pytest.raises(AppError):
        stranger.run("")
    answer = stranger.http.get("metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    after = read(answer.text)
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert grown.pop("pld_tokens_per_pass", 0) is not None
    expected = {
        'pld_runs_total{end="eos"}': 1,
        "pld_runs_refused_total": 1,
        'pld_tokens_total{lane="pld"}': 6,
        'pld_tokens_total{lane="plain"}': 6,
        'pld_passes_total{lane="pld"}': 3,
        'pld_passes_total{lane="plain"}': 6,
        'pld_drafted_tokens_total{lane="pld"}': 10,
        'pld_accepted_tokens_total{lane="pld"}': 3,
        'pld_pass_seconds_count{lane="pld"}': 2,
        'pld_pass_seconds_count{lane="plain"}': 5,
    }
    assert {name: grown.get(name) for name in expected} == expected
    assert PROMPT not in answer.text


def test_the_histogram_is_cumulative_and_agrees_with_the_trace() -> None:
    metrics = Metrics()
    metrics.follow(range(7))
    assert list(metrics.counted(growing(step=1)))[-1] == STREAM
    values = read(metrics.text())
    passes = trace.read(STREAM.splitlines())["pld"].passes
    for bound in BUCKETS:
        below = sum(step.seconds.total <= bound for step in passes)
        assert values[f'pld_pass_seconds_bucket{{lane="pld",le="{bound}"}}'] == below
    assert values['pld_pass_seconds_bucket{lane="pld",le="+Inf"}'] == len(passes)
    assert values['pld_pass_seconds_sum{lane="pld"}'] == pytest.approx(
        sum(step.seconds.total for step in passes)
    )
    assert values["pld_queue_length"] == 7 and values["pld_runs_running"] == 0
    assert values["pld_tokens_per_pass"] == 2.0


def test_how_a_run_ended() -> None:
    metrics = Metrics()

    def broken(error: Exception, after: int):
        for number, text in enumerate(growing(step=1)):
            if number == after:
                raise error
            yield text

    left = metrics.counted(growing(step=1))
    next(left), left.close()
    for error, after in ((OSError(), 4), (RequestError("no"), 0), (OSError(), 0)):
        with pytest.raises(type(error)):
            list(metrics.counted(broken(error, after)))
    list(metrics.counted(growing(STREAM.replace('"eos"', '"length"'))))
    values = read(metrics.text())
    runs = {name: value for name, value in values.items() if "pld_runs" in name and value}
    assert runs == {
        'pld_runs_total{end="cancelled"}': 1,
        'pld_runs_total{end="error"}': 1,
        'pld_runs_total{end="length"}': 1,
        "pld_runs_refused_total": 1,
    }


def test_many_threads_count_together() -> None:
    metrics = Metrics()
    threads = [
        threading.Thread(target=lambda: list(metrics.counted(growing()))) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = read(metrics.text())
    assert values['pld_runs_total{end="eos"}'] == 20
    assert values['pld_tokens_total{lane="pld"}'] == 120


def test_without_metrics_there_is_no_door() -> None:
    from tests.browser.scripted import ScriptedSlot

    slot = ScriptedSlot()
    paths = [route.path for route in routes(slot, None)]
    assert "/health" in paths and "/metrics" not in paths
