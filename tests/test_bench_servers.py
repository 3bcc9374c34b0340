"""Engines behind an address, against doubles that run the tiny model and answer in the formats
that llama.cpp's server and vLLM were recorded in; and against servers that die or lie."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle

import pytest
import tiny

from pld_core.bench import servers
from pld_core.bench.engines import EngineError, spoken
from pld_core.bench.servers import Server, llama_server, named, openai_server
from pld_core.prompting import Ask, decoder
from pld_core.rows import Row
from pld_core.settings import Settings

LIMIT = 24
ROW = Row("one", "chat", Ask("the red fox, the red fox, the red", chat=False))


@pytest.fixture(scope="module")
def model():
    return tiny.model("Llama", 3)


@pytest.fixture(scope="module")
def trace(model):
    """What the doubles answer: the model's own tokens, by drafts of which 3, 0, 5, ... stand."""
    settings = Settings(max_new_tokens=LIMIT, adaptive=False)
    plain, _ = tiny.run(model, ROW.ask, settings.plain())
    whole = [*plain.start.prompt.ids, *plain.ids]
    found, _ = tiny.run(model, ROW.ask, settings, tiny.Right(whole, cycle((3, 0, 5)).__next__))
    assert found.ids == plain.ids
    assert len(found.steps) < LIMIT == len(found.ids)
    return found


@pytest.fixture
def serve():
    """serve(answers) -> address. answers: path -> what to say, or a function of the request: a
    dict (JSON), a status, or a list of events, where None dies and bytes are sent as they are."""
    running = []

    def start(answers):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.answer(None)

            def do_POST(self):
                self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def answer(self, body):
                asked.append((self.path, body))
                said = answers.get(self.path, 404)
                said = said(body) if callable(said) else said
                if isinstance(said, list):
                    return self.stream(said)
                self.send_response(said if isinstance(said, int) else 200)
                data = b"" if isinstance(said, int) else json.dumps(said).encode()
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def stream(self, events):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for event in events:
                    if event is None:
                        self.close_connection = True
                        self.connection.close()
                        return
                    line = (
                        event if isinstance(event, bytes) else f"data: {json.dumps(event)}".encode()
                    )
                    line += b"\n\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *_):
                pass

        asked = []
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # a client that hangs up is no news here
        server.asked = asked
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        running.append(server)
        return f"127.0.0.1:{server.server_address[1]}"

    start.running = running
    yield start
    for server in running:
        server.shutdown()
        server.server_close()


# llama.cpp


def llama_events(trace):
    """One event per token; those of a pass carry the same timings."""
    drafted = accepted = 0
    events = []
    for number, step in enumerate(trace.steps, 1):
        drafted += len(getattr(step, "draft", ()))
        accepted += getattr(step, "accepted", 0)
        for token, piece in zip(step.kept, step.pieces):
            timings = {"predicted_n": len(events) + 1, "predicted_ms": 10.5 * number}
            if drafted:
                timings |= {"draft_n": drafted, "draft_n_accepted": accepted}
            events.append({"index": 0, "content": piece, "tokens": [token],
                           "stop": False, "timings": timings})  # fmt: skip
    last = {"content": "", "tokens": [], "stop": True, "timings": events[-1]["timings"]}
    return [*events, last]


def llama(model, events, ids=None, **more):
    """A llama.cpp server whose tokenizer is the model's (or says `ids`)."""

    def tokenize(body):
        return {
            "tokens": ids or model.tokenizer(body["content"], add_special_tokens=False)["input_ids"]
        }

    return {"/health": {"status": "ok"}, "/props": {"model_path": "m.gguf", "build_info": "b1"},
            "/tokenize": tokenize, "/completion": events, **more}  # fmt: skip


def llama_run(serve, model, answers):
    return llama_server("llama", serve(answers), model, LIMIT).run(ROW)


def test_llama_server_is_read_pass_by_pass(serve, model, trace):
    address = serve(llama(model, llama_events(trace)))
    engine = llama_server("llama", address, model, LIMIT)
    assert engine.facts == {"address": address, "model_path": "m.gguf", "build_info": "b1"}
    run = engine.run(ROW)
    assert (run.ids, run.text) == (trace.ids, spoken(model, trace.ids))
    assert (run.tokens, run.passes, run.unsaid) == (LIMIT, len(trace.steps), "")
    assert run.prefill_seconds > 0
    assert run.decode_seconds > 0
    path, body = serve.running[0].asked[-1]
    assert path == "/completion"
    assert body["prompt"] == trace.start.prompt.ids
    assert (body["temperature"], body["n_predict"], body["cache_prompt"]) == (0, LIMIT, False)


def test_without_a_draft_every_token_is_a_pass(serve, model, trace):
    events = llama_events(trace)
    for number, event in enumerate(events[:-1]):
        event["timings"] = {"predicted_n": number + 1, "predicted_ms": 7.0 * number}
    events[-1]["timings"] = events[-2]["timings"]
    assert llama_run(serve, model, llama(model, events)).passes == LIMIT


def test_a_token_that_is_part_of_a_character_has_no_event(serve, model, trace):
    """The last timings still say how many tokens no draft gave."""
    events = llama_events(trace)
    del events[3]
    run = llama_run(serve, model, llama(model, events))
    assert (run.tokens, run.passes, run.ids) == (LIMIT, len(trace.steps), None)
    assert run.unsaid == servers.FEW_IDS


def test_another_tokenizer_gets_the_text_and_its_ids_are_not_compared(serve, model, trace):
    address = serve(llama(model, llama_events(trace), ids=[1, 2, 3]))
    run = llama_server("llama", address, model, LIMIT).run(ROW)
    assert (run.ids, run.unsaid) == (None, servers.OTHER_IDS)
    assert run.text == spoken(model, trace.ids)
    assert serve.running[0].asked[-1][1]["prompt"] == decoder(model.tokenizer)(
        trace.start.prompt.ids
    )


def changed(events, place, **more):
    copy = json.loads(json.dumps(events))
    copy[place]["timings"] |= more
    return copy


@pytest.mark.parametrize(
    "lie",
    [
        lambda events: changed(events, -1, draft_n_accepted=10**6),
        lambda events: changed(events, -1, draft_n_accepted=-1),
        lambda events: changed(events, -1, draft_n=0),
        lambda events: changed(events, -1, predicted_n="many"),
        lambda events: changed(events, -1, predicted_n=3),
        lambda events: changed(events, 5, draft_n_accepted=0, predicted_ms=0.1),
        lambda events: [{**e, "timings": {**e["timings"], "predicted_ms": 1}} for e in events],
        lambda events: [{**e, "timings": None} for e in events],
    ],
)
def test_counts_that_do_not_fit_are_no_number(lie, serve, model, trace):
    run = llama_run(serve, model, llama(model, lie(llama_events(trace))))
    assert run.passes is None
    assert run.text == spoken(model, trace.ids)
    assert servers.NOT_EQUAL in run.unsaid or servers.NO_PASSES in run.unsaid


def test_no_timings_per_token_leave_the_last_ones_word(serve, model, trace):
    events = llama_events(trace)
    for event in events[:-1]:
        del event["timings"]
    assert llama_run(serve, model, llama(model, events)).passes == len(trace.steps)


# OpenAI


def openai_events(trace, ids=True, metrics=True, usage=True):
    """One event per pass, as vLLM streams."""
    events = [
        {"choices": [{"index": 0, "text": "".join(step.pieces), "finish_reason": None,
                      **({"token_ids": step.kept} if ids else {})}]}
        for step in trace.steps
    ]  # fmt: skip
    events[-1]["choices"][0]["finish_reason"] = "length"
    numbers = trace.numbers()
    counted = {"num_accepted_draft_tokens": numbers.accepted, "num_draft_tokens": numbers.drafted}
    last = {
        "choices": [],
        **({"usage": {"completion_tokens": numbers.tokens}} if usage else {}),
        **({"metrics": {"speculative_decoding": counted}} if metrics else {}),
    }
    return [*events, last, b"data: [DONE]"]


def openai(model, events, ids=None, **more):
    def tokenize(body):
        return {
            "tokens": ids or model.tokenizer(body["prompt"], add_special_tokens=False)["input_ids"]
        }

    return {"/v1/models": {"data": [{"id": "served", "max_model_len": 2048}]},
            "/version": {"version": "0.32.0"}, "/tokenize": tokenize,
            "/v1/completions": events, **more}  # fmt: skip


def openai_run(serve, model, answers):
    return openai_server("openai", serve(answers), model, LIMIT).run(ROW)


def test_vllm_is_read_pass_by_pass(serve, model, trace):
    address = serve(openai(model, openai_events(trace)))
    engine = openai_server("openai", address, model, LIMIT)
    assert engine.facts == {"address": address, "id": "served", "max_model_len": "2048",
                            "version": "0.32.0"}  # fmt: skip
    run = engine.run(ROW)
    assert (run.ids, run.text) == (trace.ids, spoken(model, trace.ids))
    assert (run.tokens, run.passes, run.unsaid) == (LIMIT, len(trace.steps), "")
    body = serve.running[0].asked[-1][1]
    assert (body["model"], body["prompt"]) == ("served", trace.start.prompt.ids)
    assert (body["temperature"], body["max_tokens"], body["stream"]) == (0, LIMIT, True)


def test_events_that_merged_are_told_by_the_metrics(serve, model, trace):
    events = openai_events(trace)
    second, third = (events[place]["choices"][0] for place in (1, 2))
    second["token_ids"] = second["token_ids"] + third["token_ids"]
    second["text"] += third["text"]
    del events[2]
    assert openai_run(serve, model, openai(model, events)).passes == len(trace.steps)


def test_a_server_without_ids_says_nothing_about_its_passes(serve, model, trace):
    run = openai_run(serve, model, openai(model, openai_events(trace, ids=False)))
    assert (run.tokens, run.passes, run.ids) == (LIMIT, None, None)
    assert run.unsaid == f"{servers.NO_PASSES}; {servers.NO_IDS}; {servers.NO_FIRST}"
    assert run.text == spoken(model, trace.ids)


def test_an_answer_in_one_piece_has_no_speed(serve, model, trace):
    events = openai_events(trace)
    whole = {"text": "".join(e["choices"][0]["text"] for e in events[:-2]), "token_ids": trace.ids,
             "finish_reason": "length"}  # fmt: skip
    run = openai_run(serve, model, openai(model, [{"choices": [whole]}, *events[-2:]]))
    assert (run.tokens, run.at_first, run.unsaid) == (LIMIT, None, servers.NO_FIRST)


def test_a_server_without_any_count_has_no_speed(serve, model, trace):
    events = openai_events(trace, ids=False, metrics=False, usage=False)
    run = openai_run(serve, model, openai(model, events))
    assert (run.tokens, run.passes) == (None, None)
    assert servers.NO_COUNT in run.unsaid


def test_a_server_that_knows_fewer_fields_is_asked_with_fewer(serve, model, trace):
    events = openai_events(trace, ids=False, metrics=False)
    strict = openai(model, lambda body: 400 if "return_token_ids" in body else events,
                    **{"/tokenize": 404})  # fmt: skip
    run = openai_run(serve, model, strict)
    assert run.text == spoken(model, trace.ids)
    assert serve.running[0].asked[-1][1]["prompt"] == decoder(model.tokenizer)(
        trace.start.prompt.ids
    )


def test_usage_that_contradicts_the_ids_is_no_number(serve, model, trace):
    events = openai_events(trace)
    events[-2]["usage"]["completion_tokens"] = LIMIT + 1
    run = openai_run(serve, model, openai(model, events))
    assert (run.tokens, run.passes, run.unsaid) == (None, None, servers.NOT_EQUAL)


# Servers that die, and that are none.

DIED = "The server broke off in the middle of its answer."
BAD = [
    (lambda events: [*events[:4], None], DIED),
    (lambda events: events[:4], DIED),
    (lambda events: [*events[:4], b"data: {"], "The server streams something that is not JSON."),
    (lambda events: [*events[:4], b"data: [1]"], "The server reports an error in its stream."),
    (lambda events: [*events[:4], {"error": {"message": "<script>"}}],
     "The server reports an error in its stream."),
    (lambda events: [b"data: " + b"x" * (1 << 20)], "The server sends a line without end."),
    (lambda events: [*events[:4] * 100, *events],
     "The server goes on beyond the tokens that were asked for."),
    (lambda events: 500, "The server answered with status 500."),
    (lambda events: [], DIED),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "said"), BAD)
@pytest.mark.parametrize("kind", ["llama", "openai"])
def test_a_server_that_fails_is_one_sentence(kind, spoil, said, serve, model, trace):
    make = {
        "llama": (llama_events, llama, llama_run),
        "openai": (openai_events, openai, openai_run),
    }
    events, answers, run = make[kind]
    with pytest.raises(EngineError) as failed:
        run(serve, model, answers(model, spoil(events(trace))))
    assert str(failed.value) == said


def test_a_server_that_falls_silent_is_given_up(serve, model, monkeypatch):
    monkeypatch.setattr(servers, "PATIENCE", 0.2)
    silent = threading.Event()
    address = serve(llama(model, lambda body: silent.wait(5) and []))
    with pytest.raises(EngineError, match="does not answer in time"):
        llama_server("llama", address, model, LIMIT).run(ROW)
    silent.set()


@pytest.mark.parametrize("address", ["", "http://", "ftp://x", "x:port", "http://[::1", "x:99999"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(EngineError, match="is no address of a server"):
        Server(address)


def test_no_server_there_is_one_sentence(serve, model):
    for make in (llama_server, openai_server):
        with pytest.raises(EngineError, match="The server 127.0.0.1:1 cannot be reached."):
            make("x", "127.0.0.1:1", model, LIMIT)
    with pytest.raises(EngineError, match="lists no model"):
        openai_server("x", serve({"/v1/models": {"data": []}}), model, LIMIT)
    with pytest.raises(EngineError, match="status 404"):
        llama_server("x", serve({}), model, LIMIT)


def test_servers_have_labels():
    assert named("openai", "127.0.0.1:1") == ("openai", "127.0.0.1:1")
    assert named("llama-server", "ngram-mod=127.0.0.1:1") == (
        "llama-server ngram-mod",
        "127.0.0.1:1",
    )
    assert named("openai", "http://x/?a=b") == ("openai", "http://x/?a=b")
