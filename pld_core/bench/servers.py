"""Engines behind an address: llama.cpp's server, and any server that speaks OpenAI's completions
(vLLM is one). What a server does not say is left open, never filled in.

Each request is greedy, streamed, and asks for the ids of the tokens. The prompt is sent as ids
where the server's own tokenizer gives the same ids for its text, otherwise as text. Seconds are
the client's, so the way over HTTP is in them.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING, Iterator
from urllib.parse import urlsplit

from pld_core.bench.engines import Engine, EngineError, Run
from pld_core.prompting import decoder
from pld_core.rows import Row
from pld_core.settings import Settings

if TYPE_CHECKING:
    from pld_core.models.model import Model

PATIENCE = 300
"""Seconds without a byte after which a server is given up."""

REST = 1.5
"""Seconds for which a server is left alone after an answer: vLLM 0.32 waits for the next request
with a core at full load for one more second, which whoever answers next would pay for."""

LONGEST = 1 << 20
"""Bytes of a line or a short answer; no sane server sends longer ones."""

NO_IDS = "the server sends no token ids"
FEW_IDS = "the server leaves tokens out of its stream"
OTHER_IDS = "the server's tokenizer is not this model's"
NO_COUNT = "the server does not count its tokens"
NO_FIRST = "the server does not say how many tokens came first, so there is no speed"
NO_PASSES = "the server does not say how many passes it ran"
NOT_EQUAL = "the server's counts contradict each other"


class _Refused(EngineError):
    """An answer with a status that is no success."""

    def __init__(self, status: int) -> None:
        super().__init__(f"The server answered with status {status}.")
        self.status = status


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server listens. address: "127.0.0.1:8080" or a whole URL. Raises EngineError for
    what is no address."""

    address: str

    def __post_init__(self) -> None:
        try:
            found = self._parts
            good = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
        except ValueError:
            good = False
        if not good:
            raise EngineError(f"{self.address!r} is no address of a server.")

    @property
    def _parts(self):
        return urlsplit(self.address if "://" in self.address else f"http://{self.address}")

    def ask(self, path: str, body: dict | None = None) -> object:
        """The JSON that an address answers; a GET without a body. Raises EngineError."""
        with closing(self._connection()) as connection:
            response = self._send(connection, path, body)
            try:
                return json.loads(response.read(LONGEST))
            except (ValueError, OSError, HTTPException):
                raise EngineError("The server's answer is not JSON.") from None

    def stream(self, path: str, body: dict) -> Iterator[tuple[float, dict]]:
        """The server-sent events of an answer, each with the second it came at. Ends where the
        server says [DONE] or closes; raises EngineError for a stream that breaks or is none."""
        with closing(self._connection()) as connection:
            response = self._send(connection, path, body)
            while line := self._line(response):
                came = perf_counter()
                if not line.startswith(b"data:"):
                    continue
                data = line[5:].strip()
                if data == b"[DONE]":
                    return
                try:
                    event = json.loads(data)
                except ValueError:
                    raise EngineError("The server streams something that is not JSON.") from None
                if not isinstance(event, dict) or "error" in event:
                    raise EngineError("The server reports an error in its stream.")
                yield came, event

    @staticmethod
    def _line(response: HTTPResponse) -> bytes:
        try:
            line = response.readline(LONGEST)
        except (OSError, HTTPException):
            raise EngineError("The server broke off in the middle of its answer.") from None
        if len(line) >= LONGEST:
            raise EngineError("The server sends a line without end.")
        return line

    def _connection(self) -> HTTPConnection:
        kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        return kind(self._parts.hostname, self._parts.port, timeout=PATIENCE)

    def _send(self, connection: HTTPConnection, path: str, body: dict | None) -> HTTPResponse:
        data = None if body is None else json.dumps(body).encode()
        try:
            connection.request(
                "GET" if data is None else "POST",
                self._parts.path.rstrip("/") + path,
                data,
                {"Content-Type": "application/json"} if data else {},
            )
            response = connection.getresponse()
        except TimeoutError:
            raise EngineError(f"The server {self.address} does not answer in time.") from None
        except (OSError, HTTPException):
            raise EngineError(f"The server {self.address} cannot be reached.") from None
        if response.status != 200:
            raise _Refused(response.status)
        return response

    def facts(self, *paths: str) -> dict[str, str]:
        """What the server says of itself at these addresses, where it answers at all."""
        found: dict[str, str] = {"address": self.address}
        for path in paths:
            try:
                said = self.ask(path)
            except EngineError:
                continue
            models = said.get("data") if isinstance(said, dict) else None
            if isinstance(models, list):
                said = models[0] if models and isinstance(models[0], dict) else {}
            for name, value in said.items() if isinstance(said, dict) else ():
                if name in _FACTS and isinstance(value, (str, int, float)):
                    found[name] = str(value)[:200]
        return found


_FACTS = ("id", "version", "model_path", "build_info", "total_slots", "max_model_len", "owned_by")


@dataclass(slots=True)
class _Answer:
    """What came in of one answer, and when."""

    began: float
    limit: int
    texts: list[str] = field(default_factory=list)
    chunks: list[list[int]] = field(default_factory=list)  # the ids of each event that had some
    first: float | None = None
    last: float = 0.0
    at_first: int | None = None

    def take(self, came: float, text: object, ids: object) -> None:
        """One event's text and ids."""
        text = text if isinstance(text, str) else ""
        ids = ids if isinstance(ids, list) and all(type(i) is int for i in ids) else []
        if not text and not ids:
            return
        if self.first is None:
            self.first = came
        self.last = came
        self.texts.append(text)
        if ids:
            self.chunks.append(ids)
        if max(len(self.texts), len(self.ids or ())) > 2 * self.limit + 64:
            raise EngineError("The server goes on beyond the tokens that were asked for.")

    def count_first(self, tokens: int | None) -> None:
        """How many tokens came with the first event: its ids, or one where events are tokens."""
        if self.chunks:
            self.at_first = len(self.chunks[0])
        elif tokens is not None and len(self.texts) >= tokens - 1:  # an end token has no text
            self.at_first = 1

    @property
    def ids(self) -> list[int] | None:
        return [i for chunk in self.chunks for i in chunk] or None

    def run(self, tokens: int | None, passes: int | None, unsaid: list[str]) -> Run:
        if self.first is None:
            raise EngineError("The server's answer is empty.")
        at_first = self.at_first if self.last > self.first else None
        if at_first is None and tokens is not None and tokens > 1:
            unsaid = [*unsaid, NO_FIRST]
        return Run(
            "".join(self.texts),
            self.ids,
            tokens,
            passes,
            self.first - self.began,
            self.last - self.first,
            at_first,
            "; ".join(unsaid),
        )


def _prompt(model: Model, row: Row) -> tuple[list[int], str]:
    """A row's prompt as ids and as text, as our own engines read it."""
    ids = model.start("prompt", row.ask, Settings()).prompt.ids
    return ids, decoder(model.tokenizer)(ids)


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def llama_server(name: str, address: str, model: Model, max_new_tokens: int) -> Engine:
    """llama.cpp's server, by its native /completion. Raises EngineError where none answers.

    Its stream has one event per token; the events of one pass carry the same cumulative timings,
    so passes are the groups of equal timings. The counts must fit together: the tokens of a pass
    are at most those it accepted and one more. `draft_n` is missing while nothing was drafted.
    """
    server = Server(address)
    if not isinstance(server.ask("/health"), dict):
        raise EngineError(f"{address} is no llama.cpp server.")

    def same_ids(ids: list[int], text: str) -> bool:
        body = {"content": text, "add_special": False, "parse_special": True}
        return _tokenized(server, body) == ids

    def run(row: Row) -> Run:
        ids, text = _prompt(model, row)
        known = same_ids(ids, text)
        body = {
            "prompt": ids if known else text,
            "n_predict": max_new_tokens,
            "temperature": 0,
            "repeat_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "dry_multiplier": 0.0,
            "stop": list(row.stop),
            "stream": True,
            "return_tokens": True,
            "timings_per_token": True,
            "cache_prompt": False,
        }
        answer = _Answer(perf_counter(), max_new_tokens)
        timings: list[dict] = []
        final: dict | None = None
        for came, event in server.stream("/completion", body):
            answer.take(came, event.get("content"), event.get("tokens"))
            said = event.get("timings")
            if event.get("stop"):
                final = said if isinstance(said, dict) else {}
                break
            if event.get("tokens"):
                timings.append(said if isinstance(said, dict) else {})
        if final is None:
            raise EngineError("The server broke off in the middle of its answer.")
        tokens = _count(final.get("predicted_n"))
        passes, unsaid = _llama_passes(timings, final, tokens)
        return _finished(answer, known, tokens, passes, unsaid)

    return Engine(name, run, server.facts("/props", "/v1/models"), REST)


def _llama_passes(
    timings: list[dict], final: dict, tokens: int | None
) -> tuple[int | None, list[str]]:
    """(passes, what is wrong). Both the groups of equal timings and the tokens that no draft
    gave are at most the passes: a token that is part of a character has no event of its own, and
    accepted tokens behind the answer's end are counted. Mostly both are exact."""
    accepted = _count(final.get("draft_n_accepted", 0))
    drafted = _count(final.get("draft_n", 0))
    if tokens is None or accepted is None or drafted is None:
        return None, [NO_PASSES]
    groups = [list(same) for _, same in groupby(timings, lambda said: said.get("predicted_ms"))]
    if any("predicted_ms" not in group[0] for group in groups):
        groups = []
    before = 0
    for group in groups:
        stood = _count(group[-1].get("draft_n_accepted", 0))
        if stood is None or not len(group) - 1 <= stood - before:
            return None, [NOT_EQUAL]
        before = stood
    if before > accepted or accepted > drafted or accepted >= max(1, tokens):
        return None, [NOT_EQUAL]
    if len(timings) > tokens:
        return None, [NOT_EQUAL]
    return max(len(groups), tokens - accepted), []


def openai_server(name: str, address: str, model: Model, max_new_tokens: int) -> Engine:
    """Any server with OpenAI's /v1/completions. Raises EngineError where none answers.

    Where its events carry token ids (vLLM's return_token_ids), an event is one pass; where its
    last one tells how many draft tokens stood (vLLM's --per-request-spec-decode-metrics), the
    passes are what both leave: events merge when the server lags, and accepted tokens are cut off
    the last pass. A server that does neither says nothing about its passes.
    """
    server = Server(address)
    try:
        listed = server.ask("/v1/models")
        served = str(listed["data"][0]["id"])
    except (KeyError, IndexError, TypeError):
        raise EngineError(f"{address} lists no model at /v1/models.") from None

    def run(row: Row) -> Run:
        ids, text = _prompt(model, row)
        asked = {"model": served, "prompt": text, "add_special_tokens": False}
        known = _tokenized(server, asked) == ids
        least = {
            "model": served,
            "prompt": ids if known else text,
            "max_tokens": max_new_tokens,
            "temperature": 0,
            "stream": True,
            **({"stop": list(row.stop)} if row.stop else {}),
        }
        most = least | {
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            "add_special_tokens": False,
            "repetition_penalty": 1.0,
            "include_stop_str_in_output": True,
        }
        try:
            return _completed(server, most, max_new_tokens, known)
        except _Refused as refused:
            if refused.status not in (400, 422):
                raise
            return _completed(server, least, max_new_tokens, known)  # it knows fewer fields

    return Engine(name, run, server.facts("/version", "/v1/models"), REST)


def _completed(server: Server, body: dict, limit: int, known: bool) -> Run:
    answer = _Answer(perf_counter(), limit)
    usage: dict = {}
    metrics: dict = {}
    finished = False
    for came, event in server.stream("/v1/completions", body):
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                answer.take(came, choice.get("text"), choice.get("token_ids"))
                finished |= choice.get("finish_reason") is not None
        usage = event.get("usage") if isinstance(event.get("usage"), dict) else usage
        metrics = event.get("metrics") if isinstance(event.get("metrics"), dict) else metrics
    if not finished:
        raise EngineError("The server broke off in the middle of its answer.")
    said = _count(usage.get("completion_tokens"))
    counted = len(answer.ids) if answer.ids else None
    if said is not None and counted is not None and said != counted:
        return answer.run(None, None, [NOT_EQUAL])
    tokens = said if counted is None else counted
    passes, unsaid = _openai_passes(answer, tokens, metrics.get("speculative_decoding"))
    return _finished(answer, known, tokens, passes, unsaid)


def _openai_passes(
    answer: _Answer, tokens: int | None, speculation: object
) -> tuple[int | None, list[str]]:
    if tokens is None or not answer.chunks:
        return None, [NO_PASSES]
    if not isinstance(speculation, dict):
        return len(answer.chunks), []
    accepted = _count(speculation.get("num_accepted_draft_tokens"))
    if accepted is None or accepted > (_count(speculation.get("num_draft_tokens")) or 0):
        return None, [NOT_EQUAL]
    return max(len(answer.chunks), tokens - accepted), []


def _finished(
    answer: _Answer, known: bool, tokens: int | None, passes: int | None, unsaid: list[str]
) -> Run:
    """The answer as a Run, without its ids where they are not all there or not of our model."""
    answer.count_first(tokens)
    if tokens is None:
        unsaid = [*unsaid, NO_COUNT]
    if not answer.chunks:
        unsaid = [*unsaid, NO_IDS]
    elif not known or (tokens is not None and len(answer.ids) < tokens):
        unsaid = [*unsaid, FEW_IDS if known else OTHER_IDS]
        answer.chunks = []
    return answer.run(tokens, passes, unsaid)


def _tokenized(server: Server, body: dict) -> object:
    try:
        said = server.ask("/tokenize", body)
    except EngineError:
        return None
    return said.get("tokens") if isinstance(said, dict) else None


def named(kind: str, address: str) -> tuple[str, str]:
    """(engine's name, address) of an option: LABEL=ADDRESS, or an address alone."""
    label, equals, rest = address.partition("=")
    if equals and label.replace("-", "").replace("_", "").replace(".", "").isalnum():
        return f"{kind} {label}", rest
    return kind, address
