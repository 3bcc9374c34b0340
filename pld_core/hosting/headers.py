"""What a browser is told to refuse, on every answer.

A page's own inline scripts are named by their hashes, so markup that found its way into the page
could run nothing. Gradio compiles templates and listeners from text, hence `unsafe-eval`; it
styles elements one by one, hence `unsafe-inline` for styles.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from typing import Iterable

from pld_core.hosting.doors import App, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'",
    "script-src 'self' 'unsafe-eval'{hashes}",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    "connect-src 'self'",
    "manifest-src 'self'",
    "form-action 'none'",
    "base-uri 'self'",
    "frame-ancestors 'self'{parents}",
)
ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (
        b"permissions-policy",
        b"camera=(), display-capture=(), geolocation=(), microphone=(), midi=(), payment=(), "
        b"serial=(), usb=()",
    ),
)
INLINE = re.compile(rb"<script\b(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)


class Headers:
    """Middleware: adds the headers. An HTML answer is held until it is whole, for its hashes;
    every other answer passes as it comes. parents: origins that may show the page in a frame."""

    def __init__(self, app: App, parents: Iterable[str] = ()) -> None:
        self.app = app
        self.parents = "".join(f" {parent}" for parent in parents)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start: Message | None = None
        page = b""

        async def added(message: Message) -> None:
            nonlocal start, page
            if message["type"] == "http.response.start":
                kind = dict(message["headers"]).get(b"content-type", b"")
                if not kind.startswith(b"text/html"):
                    return await send(self._with_policy(message, b""))
                start = message
                return
            if start is None:
                return await send(message)
            page += message.get("body", b"")
            if not message.get("more_body", False):
                await send(self._with_policy(start, page))
                start = None
                await send({"type": "http.response.body", "body": page})

        await self.app(scope, receive, added)

    def _with_policy(self, start: Message, page: bytes) -> Message:
        hashes = "".join(
            f" 'sha256-{b64encode(hashlib.sha256(_read(script)).digest()).decode()}'"
            for script in dict.fromkeys(INLINE.findall(page))
        )
        policy = "; ".join(POLICY).format(hashes=hashes, parents=self.parents)
        own = [(b"content-security-policy", policy.encode())]
        return {**start, "headers": [*start["headers"], *ALWAYS, *own]}


def _read(script: bytes) -> bytes:
    """A script as a browser reads it: line ends are one character."""
    return script.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
