"""The page, put together and served.

The model loads behind the page, so nothing here imports torch.
"""

from __future__ import annotations

from pld_core.threads import settle

settle()

from pld_core.hosting.zerogpu import ZeroGpu, on_zero_gpu

if on_zero_gpu():
    import spaces  # before anything touches CUDA

import argparse
import errno
import os
import signal
import socket
from pathlib import Path

# Gradio makes a table of the events it remembers, 10,000 of them, after every one.
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "100")

import gradio as gr

from pld_core.hosting.leftovers import Leftovers
from pld_core.hosting.limits import LOCAL, LimitError, Limits, hosted, limits, on_space, switched
from pld_core.hosting.metrics import Counted, Metrics
from pld_core.hosting.service import Runner, Service
from pld_core.page.examples import Examples
from pld_core.page.form import form_column
from pld_core.page.lens import lens_column
from pld_core.page.opening import Opening
from pld_core.page.parts import STATIC, Sentence
from pld_core.page.runs import Runs
from pld_core.page.site import THREADS, launch_settings
from pld_core.page.values import configured
from pld_core.page.wiring import wire_form, wire_opening, wire_runs, wire_status
from pld_core.page.words import Words
from pld_core.serving import Slot

GPU_MODEL = "Qwen/Qwen2.5-1.5B-Instruct"  # of a Space with a GPU
LOOK_SECONDS = 0.02  # between two looks of the queue; a click waits that long at most
PROGRESS_SECONDS = 0.1  # the same for gr.Progress, which nothing here uses
PRIVATE = "127.0.0.0/8,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7"


def build(
    slot: Runner,
    folder: Path = STATIC / "examples",
    allowed: Limits = LOCAL,
    metrics: Metrics | None = None,
) -> gr.Blocks:
    """The page on one slot, with the recorded runs of a folder."""
    service = Service(Counted(slot, metrics) if metrics else slot, allowed)
    if metrics:
        metrics.follow(service.line)
    examples = Examples(folder)
    with gr.Blocks(title=Words.title, fill_width=True, analytics_enabled=False) as page:
        page.queue(max_size=THREADS + allowed.waiting, api_open=False)  # no run past the line
        _calm(page)
        with gr.Row(elem_id="head"):
            gr.Markdown(f"# {Words.title}\n{Words.lead}")
            model = Sentence("status", elem_id="model")
        with gr.Row(elem_id="main"):
            form = form_column(examples.presets, allowed)
            lens = lens_column(examples, configured(*(part.value for part in form.lookup)))
        runs = Runs(service, _leftovers(page), examples.about_prompt)
        running = wire_runs(form, lens, runs)
        wire_form(page, form, lens, examples.presets.values())
        wire_opening(page, form, lens, Opening(examples), running)
        wire_status(page, runs, model)
    return page


def _calm(page: gr.Blocks) -> None:
    """Gradio's queue looks for a new event 1,000 times a second, and takes the interpreter from
    the decoder each time."""
    page._queue.sleep_when_free = LOOK_SECONDS
    page._queue.progress_update_sleep_when_free = PROGRESS_SECONDS


def _leftovers(page: gr.Blocks) -> Leftovers:
    """Gradio keeps the messages of a run that nobody reads for as long as it runs itself."""
    queue = page._queue

    def alive() -> list[str]:
        return [event.session_hash for event in list(queue.event_ids_to_events.values())]

    return Leftovers((queue.pending_messages_per_session, queue.pending_event_ids_session), alive)


def main() -> None:
    parser = argparse.ArgumentParser(prog="app.py", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model",
        default=os.environ.get("PLD_MODEL"),
        help="a hub id or a local folder; the embedded model when absent",
    )
    parser.add_argument(
        "--dtype",
        default=os.environ.get("PLD_DTYPE") or None,
        help="float32, bfloat16, float16 or int4; what suits the device when absent",
    )
    arguments = parser.parse_args()
    end_at_once()
    strangers = hosted()
    try:
        allowed = limits(strangers)
        counted = switched("PLD_METRICS", not strangers)
    except LimitError as error:
        raise SystemExit(str(error)) from None
    host = os.environ.get("HOST", "0.0.0.0" if on_space() else "127.0.0.1")
    if on_space():  # whose proxies are in a private network and say who is behind them
        os.environ.setdefault("FORWARDED_ALLOW_IPS", PRIVATE)
    port = address_of(host, os.environ.get("PORT", "7860"))
    gpu_model = GPU_MODEL if on_space() else None
    if on_zero_gpu():
        slot = Slot(
            arguments.model, dtype=arguments.dtype, on_gpu=gpu_model, hardware="ZeroGPU"
        )
        slot.load()
        runner = ZeroGpu(slot, spaces.GPU)
    else:
        runner = Slot(arguments.model, dtype=arguments.dtype, on_gpu=gpu_model)
        runner.load_in_background()
    metrics = Metrics() if counted else None
    page = build(runner, allowed=allowed, metrics=metrics)
    settings = launch_settings(runner, allowed, metrics)
    page.launch(server_name=host, server_port=port, **settings)


def end_at_once() -> None:
    """Make Ctrl-C and a request to stop end the process as it is: it keeps nothing that would have
    to be saved. Without this the first process of a container, which a signal ends only if it is
    handled, does not stop, and an interpreter that ends in order aborts in the pass under way."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))


def address_of(host: str, port: str) -> int:
    """The port, if the page can be served there; otherwise the program ends with one sentence,
    before it loads a model for nothing."""
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise SystemExit(Words.no_port.format(port=port))
    try:
        (family, *_), *_ = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except OSError:
        raise SystemExit(Words.no_host.format(host=host)) from None
    try:
        with socket.create_server((host, int(port)), family=family):
            return int(port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SystemExit(Words.busy.format(host=host, port=port)) from None
        raise SystemExit(Words.no_address.format(host=host, port=port, why=error.strerror)) from None


if __name__ == "__main__":
    main()
