"""What a stranger can reach: nothing but the page's own doors, and nothing through them."""

import hashlib
import os
import re
import socket
import threading
from base64 import b64encode
from pathlib import Path
from typing import Iterator
from urllib.parse import quote

import pytest

import app
from pld_core.hosting.doors import DEEPEST, Doors
from pld_core.hosting.headers import Headers
from pld_core.page.parts import PLOTLY, STATIC
from tests.strangers import PROMPT, Stranger, awaited, served

ROOT = Path(app.__file__).resolve().parent
FILE = {"meta": {"_type": "gradio.FileData"}}


@pytest.fixture(scope="module")
def stranger() -> Iterator[Stranger]:
    with served() as stranger:
        yield stranger


@pytest.fixture
def neighbour() -> Iterator[tuple[str, list]]:
    """The address of a server that nothing should speak to, and who did."""
    heard: list = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        def listen() -> None:
            try:
                while True:
                    heard.append(server.accept())
            except OSError:
                pass

        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/x.txt", heard
        server.shutdown(socket.SHUT_RDWR)


def secrets() -> list[str]:
    from gradio.utils import get_cache_folder, get_upload_folder

    Path(get_upload_folder()).mkdir(parents=True, exist_ok=True)
    (Path(get_upload_folder()) / "stranger.txt").write_text("kept")
    return [
        str(ROOT / name) for name in ("app.py", "README.md", "pld_core/serving.py", ".git/HEAD")
    ] + [
        "/etc/passwd",
        "/proc/self/environ",
        os.path.join(get_upload_folder(), "stranger.txt"),
        str(get_cache_folder()),
        str(PLOTLY),
        str(STATIC / "words.js"),
    ]


def spellings(path: str) -> list[str]:
    inside = f"{STATIC}/../" + os.path.relpath(path, ROOT)
    return [
        path,
        quote(path, safe=""),
        quote(quote(path, safe=""), safe=""),
        "/" + path,
        "./" + path,
        inside,
        quote(inside, safe=""),
        "file://" + path,
        path.replace("/", "\\"),
        path + "%00.js",
    ]


def test_gradio_s_file_routes_give_nothing(stranger: Stranger) -> None:
    for secret in secrets():
        for spelled in spellings(secret):
            for door in ("gradio_api/file=", "gradio_api/file/", "file=", "gradio_api/stream/"):
                assert stranger.raw(f"/{door}{spelled}") == 404, (door, spelled)


def test_the_page_s_own_files_are_those_of_static_alone(stranger: Stranger) -> None:
    assert stranger.http.get("parts/words.js").text == (STATIC / "words.js").read_text("utf-8")
    assert stranger.http.get("parts/plotly.min.js").content == PLOTLY.read_bytes()
    for folder in ("parts", "static", "assets"):
        for up in ("../", "%2e%2e/", "..%2f", "%2e%2e%2f", "....//", "x/../../", "%5c..%5c", "/"):
            for target in ("app.py", "README.md", "/etc/passwd", "etc/passwd"):
                for times in (1, 3, 9):
                    path = f"/{folder}/{up * times}{target}"
                    assert stranger.raw(path) in (403, 404), path


@pytest.mark.parametrize(
    "path",
    ["docs", "redoc", "openapi.json", "monitoring", "monitoring/summary", "gradio_api/deep_link",
     "gradio_api/upload_progress?upload_id=1", "gradio_api/proxy=https://x.hf.space/", "gradio_api/dev/reload",
     "gradio_api/custom_component/1/client/component/index.js", "svelte/svelte.js", "logout", "login",
     "gradio_api/run-history/records", "gradio_api/vibe-code", "gradio_api/profiling/traces"],
)  # fmt: skip
def test_doors_that_nothing_needs_are_shut(stranger: Stranger, path: str) -> None:
    assert stranger.http.get(path).status_code == 404


@pytest.mark.parametrize(
    "path", ["upload", "component_server", "process_recording", "vibe-edit", "run/run_trace", "api/run_trace"]
)  # fmt: skip
def test_nothing_is_uploaded_and_nothing_runs_past_the_line(stranger: Stranger, path: str) -> None:
    before = len(stranger.slot.requests)
    assert stranger.post(f"gradio_api/{path}", {"data": [PROMPT]}).status_code == 404
    run = stranger.listener("run", "click")
    answer = stranger.send(run, [PROMPT] + [None] * 22)
    assert answer.status_code == 404 and "queue" in answer.json()["detail"]
    assert len(stranger.slot.requests) == before


def test_no_path_and_no_address_is_opened(stranger: Stranger, neighbour, tmp_path) -> None:
    url, heard = neighbour
    victim = STATIC / "examples" / "stranger.txt"
    victim.write_text("still here")
    try:
        named = [{"path": path, **FILE} for path in (str(victim), "/etc/passwd", url)]
        named += [{"path": "x", "url": url, **FILE}, {"path": str(victim), "meta": 3}]
        named += [[{"deep": [one]}] for one in named]
        for listener in stranger.listeners:
            inputs = len(listener["inputs"])
            for one in named:
                for data, event_data in (([one] * max(1, inputs), None), ([None] * inputs, one)):
                    for message in (
                        stranger.queue(listener["id"], data, event_data)[-1],
                        {"status": stranger.send(listener["id"], data, event_data).status_code},
                    ):
                        assert message["status"] == 400
        assert victim.read_text() == "still here"
    finally:
        victim.unlink(missing_ok=True)
    assert heard == []


def test_a_recorded_run_is_named_by_its_title_and_nothing_else(stranger: Stranger) -> None:
    chosen, followed = stranger.listener("recorded", "select"), stranger.listener("view", "select")
    for name in ("../../README", "/etc/passwd", "..", "", "x" * 10_000, ["a"], {"id": 1}, 3):
        for answer in (
            stranger.send(chosen, [name, "A prompt."], {"value": name}),
            stranger.send(followed, ["A prompt."], {"id": name}),
            stranger.send(followed, [name], {"id": name}),
        ):
            assert "PLD Lens" not in answer.text and "root:" not in answer.text


def test_every_answer_has_the_headers(stranger: Stranger) -> None:
    for path in ("", "health", "parts/words.js", "nowhere", "gradio_api/info", "theme.css"):
        headers = stranger.http.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert "camera=()" in headers["permissions-policy"]
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'self' https://huggingface.co https://*.hf.space" in policy
        scripts = re.search("script-src [^;]*", policy)[0]
        assert "unsafe-inline" not in scripts and "http" not in scripts


def test_the_inline_scripts_of_the_page_are_named_by_their_hashes(stranger: Stranger) -> None:
    answer = stranger.http.get("")
    scripts = re.findall("<script(?: [^>]*)?>([^<].*?)</script>", answer.text, re.DOTALL)
    assert len(scripts) >= 3
    for script in scripts:
        digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in answer.headers["content-security-policy"]


# --- the middleware by itself ---


def asked(
    app_, method="POST", path="/open", parts=(b"",), headers=(), kind="http"
) -> list[dict]:
    """What a middleware around `app_` sends for one request."""
    messages = [
        {"type": "http.request", "body": part, "more_body": i < len(parts) - 1}
        for i, part in enumerate(parts)
    ]
    sent = []

    async def receive():
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {"type": kind, "method": method, "path": path, "headers": list(headers)}
    awaited(app_, scope, receive, send)
    return sent


async def echo(scope, receive, send) -> None:
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


def doors(inner=echo, largest=100) -> Doors:
    return Doors(inner, ["/open", "/some/*"], largest)


def test_a_body_comes_through_as_it_was_sent() -> None:
    *_, body = asked(doors(), parts=(b'{"a"', b": [1, 2]", b"}"))
    assert body["body"] == b'{"a": [1, 2]}'


@pytest.mark.parametrize(
    ("status", "request_"),
    [
        (413, {"parts": (b"1" * 60, b"1" * 60)}),
        (413, {"headers": [(b"content-length", b"101")]}),
        (413, {"headers": [(b"content-length", b"9" * 400)]}),
        (413, {"headers": [(b"content-length", b"-1")]}),
        (400, {"parts": (b"{",)}),
        (400, {"parts": (b"\xff\xfe",)}),
        (400, {"parts": (b"[" * 99,)}),
        (400, {"parts": (b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1),)}),
        (400, {"parts": (b"9" * 5000,), "largest": 10_000}),
        (400, {"parts": (b"[" * 100_000 + b"]" * 100_000,), "largest": 10**6}),
        (404, {"path": "/opened"}),
        (404, {"path": "/some/../open"}),
        (404, {"path": "/some/a\\b"}),
        (404, {"path": "/some/\x00"}),
        (405, {"method": "PUT"}),
        (405, {"method": "TRACE"}),
    ],
)
def test_what_is_refused(status: int, request_: dict) -> None:
    largest = request_.pop("largest", 100)
    start, body = asked(doors(largest=largest), **request_)
    assert start["status"] == status
    assert re.fullmatch(rb'\{"detail": "[^"]+\."\}', body["body"])


def test_a_socket_is_closed_and_a_cut_request_is_refused() -> None:
    assert asked(doors(), kind="websocket") == [{"type": "websocket.close", "code": 1008}]
    start, _ = asked(doors(), parts=())
    assert start["status"] == 400


def test_an_error_inside_is_one_sentence() -> None:
    async def broken(scope, receive, send) -> None:
        raise KeyError("secret")

    start, body = asked(doors(broken))
    assert start["status"] == 500 and b"secret" not in body["body"]


def test_a_stream_is_not_held_back() -> None:
    """Each part of an event stream leaves before the next is made; a page waits for its hashes."""
    order: list[str] = []

    def streaming(kind: bytes):
        async def inner(scope, receive, send) -> None:
            headers = [(b"content-type", kind)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for number in range(3):
                order.append(f"made {number}")
                body = {"type": "http.response.body", "body": b"%d" % number}
                await send({**body, "more_body": number < 2})

        async def noting(scope, receive, send) -> None:
            async def note(message):
                order.append(message.get("body", b"start").decode())
                await send(message)

            await Headers(doors(inner))(scope, receive, note)

        return noting

    asked(streaming(b"text/event-stream"))
    assert order == ["start", "made 0", "0", "made 1", "1", "made 2", "2"]
    order.clear()
    asked(streaming(b"text/html; charset=utf-8"))
    assert order == ["made 0", "made 1", "made 2", "start", "012"]
