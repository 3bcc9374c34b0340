"""What is served beside the page, and how the page is launched."""

from __future__ import annotations

import importlib.util
from typing import Any

import gradio as gr
from starlette.middleware import Middleware
from starlette.requests import Request as HTTPRequest
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from pld_core import __version__
from pld_core.hosting.doors import Doors
from pld_core.hosting.headers import Headers
from pld_core.hosting.limits import LOCAL, Limits
from pld_core.hosting.metrics import CONTENT_TYPE, Metrics
from pld_core.hosting.service import Runner
from pld_core.page.parts import PLOTLY, STATIC

SESSIONS = 200  # Gradio remembers the parts of a page for each, which this page never changes
THREADS = 40  # beside those in which visitors wait
# Origins that may show the page in a frame: a Space is shown in one.
PARENTS = ("https://huggingface.co", "https://*.hf.space")
# What the page, Gradio's clients and MCP ask for; Gradio has doors that nothing here needs.
OPEN = (
    "/",
    "/parts/*",
    "/health",
    "/metrics",
    "/config*",
    "/theme.css",
    "/assets/*",
    "/static/*",
    "/favicon.ico",
    "/manifest.json",
    "/pwa_icon*",
    "/robots.txt",
    "/gradio_api/app_id*",
    "/gradio_api/call/*",
    "/gradio_api/cancel",
    "/gradio_api/heartbeat/*",
    "/gradio_api/info*",
    "/gradio_api/login_check*",
    "/gradio_api/mcp*",
    "/gradio_api/openapi.json",
    "/gradio_api/queue/*",
    "/gradio_api/reset*",
    "/gradio_api/run/predict*",
    "/gradio_api/startup-events",
    "/gradio_api/theme.css",
    "/gradio_api/user*",
)


def launch_settings(
    slot: Runner, allowed: Limits = LOCAL, metrics: Metrics | None = None
) -> dict[str, Any]:
    """What the page needs of `launch`, wherever it is launched. Without metrics there is no
    /metrics."""
    system = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")
    mono = ("ui-monospace", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")
    # a character takes at most 6 bytes of JSON
    largest = 6 * (allowed.prompt_characters + allowed.reference_characters) + 100_000
    return {
        "theme": gr.themes.Base(font=system, font_mono=mono).set(
            block_info_text_color="*neutral_600", block_info_text_color_dark="*neutral_300"
        ),
        "css_paths": STATIC / "page.css",
        "max_threads": THREADS + allowed.waiting,
        "state_session_capacity": SESSIONS,
        "ssr_mode": False,
        "run_history": False,
        "enable_monitoring": False,
        "mcp_server": importlib.util.find_spec("mcp") is not None,
        "footer_links": ["api", "gradio"],
        "app_kwargs": {
            "routes": routes(slot, metrics),
            "middleware": [
                Middleware(Headers, parents=PARENTS),
                Middleware(Doors, open=OPEN, largest=largest),
            ],
        },
    }


def routes(slot: Runner, metrics: Metrics | None) -> list[Route]:
    """What is served beside the page: the files that it loads, its health, its counts."""

    def health(_: HTTPRequest) -> JSONResponse:
        status = slot.status
        told = {
            "status": status.state,
            "model": status.model,
            "device": status.device,
            "version": __version__,
            "message": status.text,
        }
        return JSONResponse(told, 503 if status.state == "failed" else 200)

    def counts(_: HTTPRequest) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    parts = {file.name: file for file in (*STATIC.iterdir(), PLOTLY) if file.is_file()}

    def part(request: HTTPRequest) -> Response:
        file = parts.get(request.path_params["name"])
        return FileResponse(file) if file else Response(status_code=404)

    return [
        Route("/health", health),
        *([Route("/metrics", counts)] if metrics else []),
        Route("/parts/{name}", part),
    ]
