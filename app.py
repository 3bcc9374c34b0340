"""The page: what stands where, and what happens on a click.

The model loads behind the page, so nothing here imports torch.
"""

from __future__ import annotations

from pld_core.threads import settle

settle()

try:  # ZeroGPU wants to be imported before anything touches CUDA
    import spaces
except ImportError:
    spaces = None

import argparse
import json
import logging
import os
import time
from pathlib import Path
from typing import Any, Iterator

import gradio as gr
import plotly

from pld_core.events import End, EventError, Pass, Prefill, Start, dumps, read
from pld_core.gallery import summary
from pld_core.serving import Request, RequestError, Slot
from pld_core.trace import TraceError

STATIC = Path(__file__).resolve().parent / "static"
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
SCRIPTS = (  # each uses only those before it
    "words.js",
    "dom.js",
    "events.js",
    "trace.js",
    "numbers.js",
    "sources.js",
    "panes.js",
    "headline.js",
    "strip.js",
    "controls.js",
    "files.js",
    "plot.js",
    "grams.js",
    "whatif.js",
    "costs.js",
    "chart.js",
    "parts.js",
    "explore.js",
    "equation.js",
    "positions.js",
    "drafts.js",
    "whatif_panel.js",
    "gallery.js",
    "tour.js",
    "learn.js",
    "heat.js",
    "understand.js",
    "mount.js",
)
STYLES = ("trace_view.css", "explore.css")
WAITING_RUNS = 32

log = logging.getLogger(__name__)


class Words:
    """What a visitor reads around the trace view."""

    title = "PLD Lens"
    lead = (
        "Watch a language model copy. Prompt lookup decoding drafts the next tokens from text "
        "that is already there and checks them all in one forward pass: fewer passes, same text."
    )
    preset = "Preset"
    prompt = "Prompt"
    answer_prefix = "Begun answer (optional)"
    answer_prefix_info = "The model goes on from here. It counts as prompt."
    run = "Run"
    stop = "Stop"
    settings = "Settings"
    chat = "As a chat message"
    chat_info = "Off: the model continues the raw text."
    plain = "Run plain decoding too"
    plain_info = "For a measured comparison. It takes the longer part of the time."
    n_max = "Longest match, tokens (n)"
    k = "Draft length, tokens (k)"
    max_new_tokens = "Most new tokens"
    recorded = "Recorded run"
    broken = "The run broke off. Its lanes are shown as far as they came."


class TraceView(gr.HTML):
    """The trace view of static/: its value is the stream so far, as NDJSON.

    The templates hold no data: what stands in a template is markup and code.
    """

    def __init__(self, value: str = "", gallery: list[dict] | None = None, **more: Any) -> None:
        super().__init__(
            value,
            html_template=(STATIC / "trace_view.html").read_text("utf-8"),
            css_template="\n".join((STATIC / name).read_text("utf-8") for name in STYLES),
            js_on_load="\n".join(
                [(STATIC / name).read_text("utf-8") for name in SCRIPTS]
                + [_mounting(gallery or [])]
            ),
            apply_default_css=False,
            **more,
        )

    def api_info(self) -> dict[str, Any]:
        return {"type": "string", "description": "The stream: one JSON event a line."}


def _mounting(gallery: list[dict]) -> str:
    return f"""
    const root = (globalThis.gradio_config?.root ?? "").replace(/[/]$/, "");
    pldLens.view = pldLens.mount(element, {{
      text: () => props.value,
      watch: (changed) => watch("value", changed),
      replace: (text) => {{ props.value = text; trigger("upload"); }},
    }}, {{
      plotly: root + {json.dumps(f"/gradio_api/file={PLOTLY}")},
      gallery: {json.dumps(gallery)},
      openRecorded: (id) => trigger("select", {{ id }}),
    }});
    """


class Sentence(gr.HTML):
    """One line of plain text that is read out when it changes."""

    def __init__(self, role: str, value: str = "", **more: Any) -> None:
        super().__init__(
            value,
            html_template=f'<p class="sentence" role="{role}"></p>',
            js_on_load="""
            const line = element.querySelector(".sentence");
            const draw = () => { line.textContent = props.value ?? ""; };
            watch("value", draw);
            draw();
            """,
            apply_default_css=False,
            **more,
        )

    def api_info(self) -> dict[str, Any]:
        return {"type": "string"}


def completed(stream: str, reason: str, message: str = "") -> str:
    """The stream with an `end` for every lane that lacks one."""
    open_lanes: dict[str, list[int]] = {}
    try:
        for event in read(stream.splitlines()):
            if isinstance(event, Start):
                open_lanes[event.lane] = [0, 0]
            elif isinstance(event, End):
                open_lanes.pop(event.lane, None)
            elif isinstance(event, (Prefill, Pass)) and event.lane in open_lanes:
                open_lanes[event.lane][0] += len(event.kept)
                open_lanes[event.lane][1] += 1
    except EventError:
        return stream
    ends = [
        dumps(End(lane=lane, reason=reason, tokens=tokens, passes=passes, message=message))
        for lane, (tokens, passes) in open_lanes.items()
    ]
    return stream + "".join(f"{line}\n" for line in ends)


def recordings(folder: Path) -> dict[str, Path]:
    """Title -> file of each recorded run, in the order of the presets."""
    titles = {preset["id"]: preset["title"] for preset in presets()}
    order = list(titles)
    files = sorted(
        folder.glob("*.ndjson"),
        key=lambda f: (order.index(f.stem) if f.stem in titles else len(order), f.stem),
    )
    return {titles.get(f.stem, f.stem.replace("-", " ").capitalize()): f for f in files}


def summaries(recorded_runs: dict[str, Path]) -> list[dict[str, Any]]:
    """What each recorded run says of itself, for the gallery."""
    found = []
    for title, path in recorded_runs.items():
        try:
            found.append({"title": title, **summary(path)})
        except (TraceError, ValueError) as error:
            log.warning("%s is not in the gallery: %s", path.name, error)
    return found


def presets() -> list[dict[str, Any]]:
    """See static/presets.json; `id` is also the name of its recorded run."""
    return json.loads((STATIC / "presets.json").read_text("utf-8"))


def gpu_seconds(*inputs: Any) -> int:
    """What a run asks of ZeroGPU; a visitor's quota must cover it before the run starts."""
    *_, max_new_tokens, plain = inputs
    return int(min(120, 10 + 0.04 * max_new_tokens * (2 if plain else 1)))


def build(slot: Slot, examples: Path = STATIC / "examples") -> gr.Blocks:
    """The page on one slot, with the recorded runs of a folder."""
    recorded_runs = recordings(examples)
    choices = {preset["title"]: preset for preset in presets()}
    first = next(iter(choices.values()))
    shown = next(iter(recorded_runs), None)
    abouts = {preset["prompt"]: preset["about"] for preset in choices.values()}

    def about_recorded(title: str | None) -> str:
        return choices[title]["about"] if title in choices else ""

    def run(
        prompt: str,
        answer_prefix: str,
        chat: bool,
        n_max: int,
        k: int,
        max_new_tokens: int,
        plain: bool,
    ) -> Iterator[tuple[Any, ...]]:
        request = Request(
            prompt=prompt or "",
            answer_prefix=answer_prefix or "",
            chat=chat,
            n_max=int(n_max),
            k=int(k),
            max_new_tokens=int(max_new_tokens),
            plain=plain,
        )
        # Gradio cannot close a generator that is cancelled before its first yield, so that one
        # comes before the slot is taken.
        keep = gr.skip()
        yield keep, "", keep, keep
        about = abouts.get(request.prompt, "")
        stream = ""
        try:
            for stream in slot.run(request):
                yield stream, "", None, about
        except RequestError as error:
            yield keep, str(error), keep, keep
        except Exception:
            log.exception("a run broke off")
            yield completed(stream, "error"), Words.broken, None, about

    def status() -> Iterator[str]:
        while slot.status.state == "loading":
            yield slot.status.text
            time.sleep(0.25)
        yield slot.status.text

    def fill(title: str | None) -> tuple[Any, ...]:
        if title not in choices:
            return (gr.skip(),) * 6
        preset = choices[title]
        return tuple(
            preset[name]
            for name in ("prompt", "answer_prefix", "chat", "n_max", "k", "max_new_tokens")
        )

    def replay(title: str | None) -> tuple[Any, Any, Any]:
        if title not in recorded_runs:
            return (gr.skip(),) * 3
        return recorded_runs[title].read_text("utf-8"), "", about_recorded(title)

    def open_recorded(event: gr.EventData) -> tuple[Any, ...]:
        chosen = event._data.get("id") if isinstance(event._data, dict) else None
        titles = [title for title, path in recorded_runs.items() if path.stem == chosen]
        return (titles[0], *replay(titles[0])) if titles else (gr.skip(),) * 4

    with gr.Blocks(title=Words.title, fill_width=True, analytics_enabled=False) as page:
        with gr.Row(elem_id="head"):
            gr.Markdown(f"# {Words.title}\n{Words.lead}")
            model = Sentence("status", elem_id="model")
        with gr.Row(elem_id="main"):
            with gr.Column(scale=1, min_width=300, elem_id="ask"):
                preset = gr.Dropdown(list(choices), value=first["title"], label=Words.preset, elem_id="preset")
                prompt = gr.Textbox(
                    first["prompt"], label=Words.prompt, lines=8, max_lines=14, elem_id="prompt"
                )
                answer_prefix = gr.Textbox(
                    first["answer_prefix"],
                    label=Words.answer_prefix,
                    info=Words.answer_prefix_info,
                    lines=1,
                    max_lines=6,
                    elem_id="answer-prefix",
                )
                with gr.Row():
                    start = gr.Button(Words.run, variant="primary", min_width=80, elem_id="run")
                    stop = gr.Button(Words.stop, min_width=80, elem_id="stop")
                notice = Sentence("alert", elem_id="notice")
                with gr.Accordion(Words.settings, open=False):
                    n_max = gr.Slider(1, 8, first["n_max"], step=1, label=Words.n_max)
                    k = gr.Slider(1, 32, first["k"], step=1, label=Words.k)
                    max_new_tokens = gr.Slider(
                        1, 2048, first["max_new_tokens"], step=1, label=Words.max_new_tokens
                    )
                    chat = gr.Checkbox(first["chat"], label=Words.chat, info=Words.chat_info)
                plain = gr.Checkbox(
                    True, label=Words.plain, info=Words.plain_info, elem_id="plain"
                )
            with gr.Column(scale=4, min_width=320, elem_id="lens"):
                with gr.Row(elem_id="shown"):
                    recorded = gr.Dropdown(
                        list(recorded_runs), value=shown, label=Words.recorded, elem_id="recorded"
                    )
                    about = Sentence("status", about_recorded(shown), elem_id="about")
                view = TraceView(
                    recorded_runs[shown].read_text("utf-8") if shown else "",
                    gallery=summaries(recorded_runs),
                    elem_id="view",
                )

        at_once = {"queue": False, "show_progress": "hidden"}
        running = start.click(
            spaces.GPU(duration=gpu_seconds)(run) if spaces else run,
            [prompt, answer_prefix, chat, n_max, k, max_new_tokens, plain],
            [view, notice, recorded, about],
            show_progress="minimal",
            show_progress_on=notice,
            trigger_mode="once",
            concurrency_id="model",
            concurrency_limit=1,
            api_name="run",
        )
        # Through the queue, so that its answer comes after whatever the run still sends.
        stop.click(None, cancels=running, api_name=False).then(
            lambda stream: completed(stream, "cancelled"),
            view,
            view,
            show_progress="hidden",
            concurrency_limit=None,
            api_name=False,
        )
        preset.input(
            fill,
            preset,
            [prompt, answer_prefix, chat, n_max, k, max_new_tokens],
            api_name=False,
            **at_once,
        )
        recorded.input(
            replay, recorded, [view, notice, about], cancels=running, api_name=False, **at_once
        )
        view.select(
            open_recorded,
            None,
            [recorded, view, notice, about],
            cancels=running,
            api_name=False,
            **at_once,
        )
        view.upload(
            lambda: (None, ""),
            None,
            [recorded, about],
            cancels=running,
            api_name=False,
            **at_once,
        )
        page.load(
            status, None, model, show_progress="hidden", concurrency_limit=None, api_name=False
        )
    page.queue(max_size=WAITING_RUNS)
    return page


def launch_settings() -> dict[str, Any]:
    """What the page needs of `launch`, wherever it is launched."""
    gr.set_static_paths([PLOTLY])
    system = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")
    mono = ("ui-monospace", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")
    return {
        "theme": gr.themes.Base(font=system, font_mono=mono),
        "css_paths": STATIC / "page.css",
        "ssr_mode": False,
        "run_history": False,
        "footer_links": ["api", "gradio"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="app.py", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model",
        default=os.environ.get("PLD_MODEL"),
        help="a hub id or a local folder; the embedded model when absent",
    )
    arguments = parser.parse_args()
    slot = Slot(arguments.model)
    slot.load_in_background()
    on_space = "SPACE_ID" in os.environ
    build(slot).launch(
        server_name=os.environ.get("HOST", "0.0.0.0" if on_space else "127.0.0.1"),
        server_port=int(os.environ.get("PORT", "7860")),
        **launch_settings(),
    )


if __name__ == "__main__":
    main()
