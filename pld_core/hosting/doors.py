"""The doors of a served page: which paths answer, and what a request may bring.

Pure ASGI, so a streamed answer passes through as it comes. Request bodies are read whole before
the page sees them, up to a bound: what they hold is values, never the name of a file or a host.
"""

from __future__ import annotations

import json
import logging
import traceback
from fnmatch import fnmatchcase
from typing import Any, Awaitable, Callable, Iterable, MutableMapping

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

DEEPEST = 32  # levels of lists and objects in a request
METHODS = ("GET", "HEAD", "POST", "DELETE")

log = logging.getLogger(__name__)


class Refused(Exception):
    """A request that is answered with `status` and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Doors:
    """Middleware: paths that match none of the patterns `open` (`*` is any text) are not there;
    a request's body is empty or JSON of at most `largest` bytes that names no file."""

    def __init__(self, app: App, open: Iterable[str], largest: int) -> None:
        self.app = app
        self.open = tuple(open)
        self.largest = largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        try:
            if scope["method"] not in METHODS:
                raise Refused(405, "This page takes no such request.")
            self._check_path(scope)
            body = await self._body(scope, receive)
        except Refused as refused:
            return await _answer(send, refused)
        began = False

        async def given() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            message, body = {"type": "http.request", "body": body, "more_body": False}, None
            return message

        async def noted(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self.app(scope, given, noted)
        except Exception as error:
            if began:
                raise
            # Where, not what: the message may quote the request.
            at = traceback.extract_tb(error.__traceback__)[-1]
            log.error("a request failed: %s at %s:%d", type(error).__name__, at.filename, at.lineno)
            await _answer(send, Refused(500, "This request could not be answered."))

    def _check_path(self, scope: Scope) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", "").rstrip("/"))
        steps = path.split("/")
        if ".." in steps or "\\" in path or not path.isprintable():
            raise Refused(404, "Not found.")
        if not any(fnmatchcase(path, pattern) for pattern in self.open):
            raise Refused(404, "Not found.")

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body. Raises Refused for one that is too large or not what a page sends."""
        too_large = Refused(413, f"A request holds at most {self.largest:,} bytes.")
        headers = dict(scope["headers"])
        told = headers.get(b"content-length", b"0")
        if not told.isdigit() or int(told[:20]) > self.largest:
            raise too_large
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise Refused(400, "The request broke off.")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.largest:
                raise too_large
            more = message.get("more_body", False)
        body = b"".join(parts)
        if body:
            _check_values(body)
        return body


def _check_values(body: bytes) -> None:
    try:
        left = [(json.loads(body), DEEPEST)]
    except (ValueError, RecursionError):
        raise Refused(400, "The request is not JSON.") from None
    while left:
        value, levels = left.pop()
        if not isinstance(value, dict | list):
            continue
        if levels == 0:
            raise Refused(400, f"A request is nested at most {DEEPEST} levels deep.")
        if isinstance(value, dict):
            # Gradio's name for a file or an address, which it would open or fetch.
            if "path" in value and ("meta" in value or "url" in value):
                raise Refused(400, "This page takes no files and no addresses.")
            value = value.values()
        left += [(entry, levels - 1) for entry in value]


async def _answer(send: Send, refused: Refused) -> None:
    body = json.dumps({"detail": refused.sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
