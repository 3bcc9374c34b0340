"""The page: what stands where, and what happens on a click.

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
import importlib.util
import inspect
import json
import logging
import math
import os
import socket
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Iterable, Iterator

# Gradio makes a table of the events it remembers, 10,000 of them, after every one.
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "100")

import gradio as gr
import plotly
from starlette.middleware import Middleware
from starlette.requests import Request as HTTPRequest
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from pld_core import __version__, links, trace
from pld_core.configuration import configurations
from pld_core.events import dumps
from pld_core.links import RANGES
from pld_core.lookup import POLICIES
from pld_core.gallery import summary
from pld_core.hosting.calls import checked, records
from pld_core.hosting.doors import Doors
from pld_core.hosting.headers import Headers
from pld_core.hosting.leftovers import Leftovers
from pld_core.hosting.limits import LOCAL, LimitError, Limits, hosted, limits, on_space, switched
from pld_core.hosting.line import Outlook, Visitor
from pld_core.hosting.metrics import CONTENT_TYPE, Counted, Metrics
from pld_core.hosting.service import Runner, Service, TimeUp
from pld_core.serving import Request, RequestError, Rival, Slot
from pld_core.settings import Settings
from pld_core.trace import TraceError, endings

STATIC = Path(__file__).resolve().parent / "static"
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
SCRIPTS = (  # each uses only those before it
    "words.js",
    "dom.js",
    "trees.js",
    "events.js",
    "trace.js",
    "numbers.js",
    "sources.js",
    "panes.js",
    "headline.js",
    "strip.js",
    "parts.js",
    "controls.js",
    "files.js",
    "plot.js",
    "link.js",
    "automaton.js",
    "grams.js",
    "lookups.js",
    "adaptive.js",
    "whatif.js",
    "costs.js",
    "chart.js",
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
    "viewing.js",
    "reference.js",
    "versus.js",
    "figure.js",
    "tables.js",
    "keep.js",
    "exports.js",
    "arrival.js",
    "connection.js",
    "mount.js",
)
STYLES = ("trace_view.css", "explore.css", "use.css")
GPU_MODEL = "Qwen/Qwen2.5-1.5B-Instruct"  # of a Space with a GPU
PRIVATE = "127.0.0.0/8,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7"
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
    more = "More settings"
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
    broken_measurement = "The measurement broke off."
    n_min = "Shortest match, tokens"
    branches = "Continuations checked at once"
    branches_info = (
        "1 drafts one. More are merged into a tree, and one pass checks them all: fewer passes, "
        "each of them wider."
    )
    policy = "Of several equal matches, copy"
    policies = {
        "recent": "the most recent",
        "oldest": "the oldest",
        "nearest": "the nearest to the last copy",
        "vote": "the most common continuation",
        "longest": "the longest, also beyond n",
    }
    system = "System prompt (optional)"
    adaptive = "Drafts only as long as they pay"
    adaptive_info = (
        "k is then the longest draft. What passes cost here was measured, how often drafts stand is "
        "learned from the text; where nothing is copied, decoding stays plain."
    )
    strict = "Strict mode"
    strict_info = (
        "Every pass runs k + 1 positions, so that half precision is exact too. It costs: a pass "
        "without a draft is as wide as any."
    )
    sampling = "Sampling"
    temperature = "Temperature"
    temperature_info = "0 always takes the likeliest token."
    top_k = "Top k"
    top_k_info = "0 keeps all tokens."
    top_p = "Top p"
    seed = "Seed"
    seed_info = "One seed gives one text, with and without lookup."
    reference_title = "Reference text"
    reference = "Copied from, never read by the model"
    reference_info = "The last version of a file, or the answer you expect."
    rival_title = "Compare two settings"
    rival = "Run settings B on the same prompt"
    rival_n_max = "B: longest match (n)"
    rival_n_min = "B: shortest match"
    rival_k = "B: draft length (k)"
    rival_branches = "B: continuations at once"
    rival_policy = "B: of equal matches, copy"
    rival_adaptive = "B: drafts only as long as they pay"
    file_to_prompt = "Add a text file"
    file_to_reference = "Use a text file"
    share = "Link to this"
    with_texts = "Put my prompt into the link"
    with_texts_info = "Off: the link holds the example, the pass and the settings, and no text."
    copy_link = "Copy link"
    link = "Link"
    link_copied = "Copied."
    link_by_hand = "This browser let no page copy: copy the link by hand."
    link_without_prompt = "Your prompt is not in it."
    elsewhere = "These settings in other engines"
    copy = "Copy"
    copied = "Copied"
    selected = "Selected"
    busy = "Port {port} on {host} is in use: choose another one, as in PORT=7861 make run."
    no_port = "PORT is a whole number from 1 to 65535, not {port!r}."
    no_host = "HOST={host} is no address of this machine."
    no_address = "The page cannot be served on {host}, port {port}: {why}."

    _quota = (
        "Your GPU time here does not cover this run: ask for fewer tokens, leave plain decoding "
        "out, come back tomorrow or run a copy of this Space; the recorded runs need no GPU."
    )
    zero_gpu = {  # by the titles of what the package `spaces` raises
        "ZeroGPU quota exceeded": _quota,
        "ZeroGPU pending credits exceeded": _quota,
        "ZeroGPU illegal duration": "The run is too long for one turn on the GPU: ask for fewer tokens.",
        "ZeroGPU queue timeout": "No GPU came free in time: please run it again.",
        "ZeroGPU client error": "No GPU is free at the moment: please run it again.",
        "ZeroGPU worker error": "The GPU was taken away before the run was over: please run it again.",
    }

    measuring = "Measuring what a pass takes by its width."

    @staticmethod
    def waiting(outlook: Outlook) -> str:
        runs = "1 run comes" if outlook.ahead == 1 else f"{outlook.ahead:,} runs come"
        if outlook.seconds is None:
            return f"In line: {runs} before yours."
        took = f"about {max(1, round(outlook.seconds)):,} s, as long as the last runs took"
        return f"In line: {runs} before yours, {took}."

    too_large = "{name} is larger than {kilobytes} kB, too large for a prompt here."
    no_text = "{name} is not a text in UTF-8."

    @staticmethod
    def no_example(name: str) -> str:
        return f"There is no recorded run called {name[:40]!r} here."


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
    kept = {
        "html": "trace_view.html",
        "styles": list(STYLES),
        "scripts": [*SCRIPTS[:-1], "plotless.js", SCRIPTS[-1]],
    }
    return f"""
    const root = (globalThis.gradio_config?.root ?? "").replace(/[/]$/, "");
    const own = (name) => root + "/parts/" + name;
    const kept = {json.dumps(kept)};
    pldLens.view = pldLens.mount(element, {{
      text: () => props.value,
      watch: (changed) => watch("value", changed),
      replace: (text) => {{ props.value = text; trigger("upload"); }},
    }}, {{
      plotly: own("plotly.min.js"),
      gallery: {json.dumps(gallery)},
      alive: root + "/gradio_api/app_id",
      sources: {{ html: own(kept.html), styles: kept.styles.map(own), scripts: kept.scripts.map(own) }},
      openRecorded: (id) => trigger("select", {{ id }}),
      measure: () => trigger("measure"),
    }});
    """


def _arriving() -> str:
    """The page's own address. It may be asked for before the view is there."""
    return f"() => {{ {(STATIC / 'link.js').read_text('utf-8')}; return [pldLens.place()]; }}"


def _begun(presets: Iterable[dict[str, Any]]) -> str:
    """What a preset begins its answer with goes when another prompt is put in its place."""
    known = [[p["answer_prefix"], p["prompt"][:20], p["prompt"][-20:]] for p in presets]
    return f"""(prompt, begun) => {json.dumps(known)}.some(
      ([answer, first, last]) => answer === begun && !prompt.startsWith(first) && !prompt.endsWith(last)
    ) ? "" : begun"""


UNFOLD = """() => {
  const unfolded = document.querySelector("#ask").classList.toggle("unfolded");
  document.querySelector("#unfold").setAttribute("aria-expanded", unfolded);
}"""


def _copying() -> str:
    done, by_hand = json.dumps(Words.link_copied), json.dumps(Words.link_by_hand)
    return f"""async (link, note) => {{
      if (!link) return note;
      return [(await pldLens.copied(link)) ? {done} : {by_hand}, note].filter(Boolean).join(" ");
    }}"""


class TextFile(gr.HTML):
    """A button that reads a text file in the browser; see static/text_file.js."""

    def __init__(self, label: str, largest: int, **more: Any) -> None:
        words = {
            "label": label,
            "tooLarge": Words.too_large.format(name="{name}", kilobytes=largest // 1000),
            "noText": Words.no_text,
        }
        given = f"element, props, trigger, largest: {largest}, words: {json.dumps(words)}"
        script = (STATIC / "text_file.js").read_text("utf-8")
        super().__init__(
            None,
            html_template='<button type="button"></button><input type="file" hidden>',
            js_on_load=f"({script.rstrip()})({{ {given} }});",
            apply_default_css=False,
            elem_classes="text-file",
            **more,
        )

    def api_info(self) -> dict[str, Any]:
        return {"type": "object"}


class Measured(gr.HTML):
    """Hands what `measure` tells to the trace view; shows nothing itself."""

    def __init__(self, **more: Any) -> None:
        super().__init__(
            "",
            html_template='<div class="measured"></div>',
            js_on_load="watch('value', () => pldLens.view.measured(JSON.parse(props.value)));",
            apply_default_css=False,
            visible="hidden",
            **more,
        )

    def api_info(self) -> dict[str, Any]:
        return {"type": "string"}


class Configurations(gr.HTML):
    """The settings as other engines write them: its value is what `configured` returns."""

    def __init__(self, value: str, **more: Any) -> None:
        words = {"copy": Words.copy, "copied": Words.copied, "selected": Words.selected}
        script = (STATIC / "configurations.js").read_text("utf-8")
        super().__init__(
            value,
            html_template='<div class="configurations"></div>',
            js_on_load=f"({script.rstrip()})({{ element, props, watch, words: {json.dumps(words)} }});",
            apply_default_css=False,
            **more,
        )

    def api_info(self) -> dict[str, Any]:
        return {"type": "string"}


def configured(n_max: Any, n_min: Any, k: Any, branches: Any, policy: str) -> str:
    """The configurations for these settings, or why there are none, as JSON."""
    try:
        numbers = {"n_max": n_max, "n_min": n_min, "k": k, "branches": branches}
        whole = {name: _whole(number) for name, number in numbers.items()}
        settings = Settings(**whole, policy=policy)
        return json.dumps({"engines": [asdict(made) for made in configurations(settings)]})
    except ValueError as error:
        return json.dumps({"problem": str(error), "engines": []})


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


def completed(stream: str, reason: str) -> str:
    """The stream with an `end` for every lane that lacks one."""
    try:
        ends = endings(trace.read(stream.splitlines()), reason)
    except TraceError:
        return stream
    return stream + "".join(f"{dumps(end)}\n" for end in ends)


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




def _whole(value: Any) -> Any:
    """A number field's value: its whole number, or what it is, for the settings to refuse."""
    return int(value) if isinstance(value, (int, float)) and value == value // 1 else value


def _place(text: Any) -> dict[str, Any]:
    """What static/link.js tells of the page's address. Anything may be sent in its stead: texts
    are texts, and what is missing is empty."""
    try:
        told = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        told = None
    told = told if isinstance(told, dict) else {}
    texts = {name: told.get(name) for name in ("base", "search", "hash")}
    at = {name: value if isinstance(value, str) else "" for name, value in texts.items()}
    pass_ = told.get("pass")
    return {**at, "pass": pass_ if type(pass_) is int and 0 < pass_ < 10**6 else None}


def _slider(
    name: str, label: str, value: int | None = None, most: float = math.inf, **more: Any
) -> gr.Slider:
    """A whole-number setting in its range, see links.FIELDS, and at most `most`."""
    field = RANGES[name]
    value = field.default if value is None else value
    high = min(field.high, most)
    return gr.Slider(field.low, high, min(value, high), step=1, label=label, **more)


def _visitor(asked: gr.Request) -> Visitor:
    address = asked.client.host if asked.client else ""
    return Visitor(asked.session_hash or address, address)


def build(
    slot: Runner,
    examples: Path = STATIC / "examples",
    allowed: Limits = LOCAL,
    metrics: Metrics | None = None,
) -> gr.Blocks:
    """The page on one slot, with the recorded runs of a folder."""
    service = Service(Counted(slot, metrics) if metrics else slot, allowed)
    if metrics:
        metrics.follow(service.line)
    recorded_runs = recordings(examples)
    choices = {preset["title"]: preset for preset in presets()}
    first = next(iter(choices.values()))
    shown = next(iter(recorded_runs), None)
    abouts = {preset["prompt"]: preset["about"] for preset in choices.values()}

    def about_recorded(title: str | None) -> str:
        return choices[title]["about"] if title in choices else ""

    def ask(
        prompt: str,
        answer_prefix: str,
        system: str,
        reference: str,
        n_max: int,
        n_min: int,
        k: int,
        branches: int,
        policy: str,
        max_new_tokens: int,
        chat: bool,
        plain: bool,
        adaptive: bool,
        strict: bool,
        temperature: float,
        top_k: int,
        top_p: float,
        seed: int,
        rival: bool,
        rival_n_max: int,
        rival_n_min: int,
        rival_k: int,
        rival_branches: int,
        rival_policy: str,
        rival_adaptive: bool,
    ) -> Request:
        second = Rival(
            n_max=_whole(rival_n_max),
            n_min=_whole(rival_n_min),
            k=_whole(rival_k),
            policy=rival_policy,
            adaptive=rival_adaptive,
            branches=_whole(rival_branches),
        )
        return Request(
            prompt=prompt or "",
            answer_prefix=answer_prefix or "",
            chat=chat,
            system=system or None,
            reference=reference or "",
            n_max=_whole(n_max),
            n_min=_whole(n_min),
            k=_whole(k),
            branches=_whole(branches),
            policy=policy,
            max_new_tokens=_whole(max_new_tokens),
            adaptive=adaptive,
            strict=strict,
            temperature=0.0 if temperature is None else temperature,
            top_k=_whole(top_k),
            top_p=top_p,
            seed=_whole(seed),
            plain=plain,
            rival=second if rival else None,
        )

    def run(asked: gr.Request, *inputs: Any) -> Iterator[tuple[Any, ...]]:
        leftovers.sweep()
        request = ask(*inputs)
        # Gradio cannot close a generator that is cancelled before its first yield, so that one
        # comes before the slot is taken.
        keep = gr.skip()
        yield keep, "", keep, keep
        about = abouts.get(request.prompt, "")
        stream = ""
        try:
            for update in service.run(request, _visitor(asked)):
                if isinstance(update, Outlook):
                    yield keep, Words.waiting(update), keep, keep
                else:
                    stream = update
                    yield stream, "", None, about
        except TimeUp as error:
            yield completed(stream, "cancelled"), str(error), None, about
        except RequestError as error:
            yield keep, str(error), keep, keep
        except gr.Error as error:  # ZeroGPU's
            log.warning("no GPU for a run: %s: %s", error.title, error.message)
            told = Words.zero_gpu.get(error.title, Words.broken)
            yield (completed(stream, "error"), told, None, about) if stream else (keep, told, keep, keep)
        except Exception:
            log.exception("a run broke off")
            yield completed(stream, "error"), Words.broken, None, about

    # the names that callers of the API see
    own, named = inspect.signature(run).parameters, inspect.signature(ask).parameters
    run.__signature__ = inspect.Signature([own["asked"], *named.values()])

    def run_trace(
        asked: gr.Request,
        prompt: str,
        answer_prefix: str = "",
        system: str = "",
        reference: str = "",
        chat: bool = True,
        plain: bool = True,
        n_max: int = 3,
        n_min: int = 1,
        k: int = 10,
        branches: int = 1,
        policy: str = "nearest",
        adaptive: bool = True,
        strict: bool = False,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> Iterator[dict]:
        """Answer a prompt with prompt lookup decoding and tell what every forward pass did: what
        was drafted, from where it was copied, how much of it stood. Use it to see whether
        n-gram speculation pays on a text: it does where the answer repeats its prompt (code
        edits, summaries, quotes). Streams one record per event: `start`, `prefill`, one `pass`
        each, `end`; with `plain` also those of plain decoding, and `compare`; `waiting` while
        other runs come first. The last record, `summary`, has the text, tokens_per_pass, time_speedup, same_text and `copies`.

        Args:
            prompt: The text to answer.
            answer_prefix: How the answer begins; the model goes on from there.
            system: The system message of the chat; empty for none.
            reference: A text to copy from that the model does not read.
            chat: Send the prompt as a chat message; false continues it as raw text.
            plain: Run plain decoding as well and compare. It takes the longer part of the time.
            n_max: Longest match, 1 to 64 tokens.
            n_min: Shortest match, 1 to n_max tokens.
            k: Longest draft, 1 to 512 tokens; 0 is plain decoding.
            branches: Continuations checked at once, 1 to 8, merged into a tree.
            policy: Of equal matches, copy the recent, oldest, nearest, longest, or by vote.
            adaptive: Cut drafts to the length that is expected to pay, at most k.
            strict: Run every pass at one width, so that half precision is exact too.
            max_new_tokens: Most tokens to generate.
            temperature: 0 always takes the likeliest token.
            top_k: Sample from so many likeliest tokens; 0 keeps all.
            top_p: Sample from the likeliest tokens that hold this much probability.
            seed: One seed gives one text, with and without lookup.
        """
        request = Request(
            prompt=prompt,
            answer_prefix=answer_prefix,
            system=system,
            reference=reference,
            chat=chat,
            plain=plain,
            n_max=n_max,
            n_min=n_min,
            k=k,
            branches=branches,
            policy=policy,
            adaptive=adaptive,
            strict=strict,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
        )
        leftovers.sweep()
        try:
            yield from records(service.run(checked(request), _visitor(asked)))
        except RequestError as error:
            raise gr.Error(str(error), print_exception=False) from None
        except gr.Error as error:  # ZeroGPU's
            told = Words.zero_gpu.get(error.title, Words.broken)
            raise gr.Error(told, print_exception=False) from None
        except Exception:
            log.exception("a run broke off")
            raise gr.Error(Words.broken, print_exception=False) from None

    def measure(asked: gr.Request) -> Iterator[str]:
        """JSON for the view: a sentence while it waits or why not, then what was measured."""
        try:
            for update in service.measure(_visitor(asked)):
                if isinstance(update, Outlook):
                    told = Words.waiting(update) if update.ahead else Words.measuring
                    yield json.dumps({"note": told})
                else:
                    yield json.dumps({"seconds": update, "where": slot.status.text})
        except RequestError as error:
            yield json.dumps({"note": str(error)})
        except Exception:
            log.exception("a measurement broke off")
            yield json.dumps({"note": Words.broken_measurement})

    def status() -> Iterator[str]:
        while slot.status.state == "loading":
            yield slot.status.text
            time.sleep(0.25)
        yield slot.status.text

    def fill(title: str | None) -> tuple[Any, ...]:
        return tuple(choices.get(title, {}).get(name, gr.skip()) for name in form)

    def follow(place: str) -> tuple[Any, ...]:
        """What the page's own address asks for, put into the form and the view."""
        at = _place(place)
        link = links.read(at["search"], at["hash"])
        problems = list(link.problems)
        title = next((t for t, file in recorded_runs.items() if file.stem == link.example), None)
        if link.example and title is None:
            problems.append(Words.no_example(link.example))
        values = {**choices.get(title, {}), **link.settings}
        if link.texts:
            values |= {name: "" for name in links.TEXTS} | link.texts
        filled = tuple(values.get(name, gr.skip()) for name in form)
        told = " ".join(problems[:1]) if problems else gr.skip()
        if title is None:
            return (gr.skip(), told, gr.skip(), gr.skip(), gr.skip(), *filled)
        preset = title if title in choices else gr.skip()
        return (recorded_runs[title].read_text("utf-8"), told, title, about_recorded(title), preset, *filled)

    def link_here(place: str, with_texts: bool, title: str | None, *inputs: Any) -> tuple[str, str]:
        at = _place(place)
        values = dict(zip(form, inputs))
        known = {preset["prompt"]: preset["id"] for preset in choices.values()}
        example = known.get(values["prompt"])
        if title in recorded_runs:
            example = recorded_runs[title].stem
        settings = {name: values[name] for name in links.NAMES}
        texts = {name: values[name] or "" for name in links.TEXTS} if with_texts else None
        try:
            link = links.write(at["base"], settings, example, at["pass"], texts)
        except links.LinkError as error:
            return "", str(error)
        return link, "" if with_texts or example else Words.link_without_prompt

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
                to_prompt = TextFile(
                    Words.file_to_prompt, allowed.upload_bytes, elem_id="to-prompt"
                )
                with gr.Row():
                    start = gr.Button(Words.run, variant="primary", min_width=80, elem_id="run")
                    stop = gr.Button(Words.stop, min_width=80, elem_id="stop")
                notice = Sentence("alert", elem_id="notice")
                # Shown on a phone alone, where the run would stand far below a whole form.
                unfold = gr.Button(Words.more, size="sm", elem_id="unfold")
                plain = gr.Checkbox(
                    True, label=Words.plain, info=Words.plain_info, elem_id="plain", elem_classes="more"
                )
                policies = [(Words.policies[name], name) for name in POLICIES]
                with gr.Accordion(Words.settings, open=False, elem_classes="more"):
                    n_max = _slider("n_max", Words.n_max, first["n_max"])
                    n_min = _slider("n_min", Words.n_min)
                    k = _slider("k", Words.k, first["k"])
                    branches = _slider("branches", Words.branches, info=Words.branches_info)
                    policy = gr.Dropdown(
                        policies, value=RANGES["policy"].default, label=Words.policy
                    )
                    max_new_tokens = _slider(
                        "max_new_tokens",
                        Words.max_new_tokens,
                        first["max_new_tokens"],
                        most=allowed.new_tokens,
                    )
                    chat = gr.Checkbox(first["chat"], label=Words.chat, info=Words.chat_info)
                    system = gr.Textbox(label=Words.system, lines=2, max_lines=6, elem_id="system")
                    adaptive = gr.Checkbox(
                        RANGES["adaptive"].default, label=Words.adaptive, info=Words.adaptive_info
                    )
                    strict = gr.Checkbox(False, label=Words.strict, info=Words.strict_info)
                with gr.Accordion(Words.rival_title, open=False, elem_classes="more"):
                    rival = gr.Checkbox(False, label=Words.rival, elem_id="rival")
                    rival_n_max = _slider("rival_n_max", Words.rival_n_max)
                    rival_n_min = _slider("rival_n_min", Words.rival_n_min)
                    rival_k = _slider("rival_k", Words.rival_k)
                    rival_branches = _slider("rival_branches", Words.rival_branches)
                    rival_policy = gr.Dropdown(policies, value="recent", label=Words.rival_policy)
                    rival_adaptive = gr.Checkbox(
                        RANGES["rival_adaptive"].default, label=Words.rival_adaptive
                    )
                with gr.Accordion(Words.sampling, open=False, elem_classes="more"):
                    temperature = gr.Slider(
                        0, 2, 0, step=0.05, label=Words.temperature, info=Words.temperature_info
                    )
                    top_k = _slider("top_k", Words.top_k, info=Words.top_k_info)
                    top_p = gr.Slider(0.01, 1, 1, step=0.01, label=Words.top_p)
                    seed = gr.Number(0, precision=0, label=Words.seed, info=Words.seed_info)
                with gr.Accordion(Words.reference_title, open=False, elem_classes="more"):
                    reference = gr.Textbox(
                        label=Words.reference,
                        info=Words.reference_info,
                        lines=4,
                        max_lines=12,
                        elem_id="reference",
                    )
                    to_reference = TextFile(
                        Words.file_to_reference, allowed.upload_bytes, elem_id="to-reference"
                    )
                with gr.Accordion(Words.share, open=False, elem_classes="more"):
                    with_texts = gr.Checkbox(
                        False, label=Words.with_texts, info=Words.with_texts_info
                    )
                    copy_link = gr.Button(Words.copy_link, size="sm", elem_id="copy-link")
                    link = gr.Textbox(
                        label=Words.link, interactive=False, max_lines=3, elem_id="link"
                    )
                    link_note = Sentence("status", elem_id="link-note")
                place = gr.Textbox(visible=False)
                form = {
                    "prompt": prompt,
                    "answer_prefix": answer_prefix,
                    "system": system,
                    "reference": reference,
                    "n_max": n_max,
                    "n_min": n_min,
                    "k": k,
                    "branches": branches,
                    "policy": policy,
                    "max_new_tokens": max_new_tokens,
                    "chat": chat,
                    "plain": plain,
                    "adaptive": adaptive,
                    "strict": strict,
                    "temperature": temperature,
                    "top_k": top_k,
                    "top_p": top_p,
                    "seed": seed,
                    "rival": rival,
                    "rival_n_max": rival_n_max,
                    "rival_n_min": rival_n_min,
                    "rival_k": rival_k,
                    "rival_branches": rival_branches,
                    "rival_policy": rival_policy,
                    "rival_adaptive": rival_adaptive,
                }
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

                measured = Measured()
                with gr.Accordion(Words.elsewhere, open=False, elem_id="elsewhere"):
                    lookup = [n_max, n_min, k, branches, policy]
                    elsewhere = Configurations(configured(*(part.value for part in lookup)))

        at_once = {"queue": False, "show_progress": "hidden"}
        running = start.click(
            run,
            list(form.values()),
            [view, notice, recorded, about],
            show_progress="minimal",
            show_progress_on=notice,
            trigger_mode="once",
            concurrency_limit=None,  # they wait in a line of our own
            api_name=False,
        )
        gr.api(run_trace, api_name="run_trace", concurrency_limit=None)
        # Through the queue, so that it comes after whatever the run still sends. The view has the
        # stream and ends it there; nothing is sent back and forth for that.
        stop.click(None, cancels=running, api_name=False).then(
            lambda: None, show_progress="hidden", concurrency_limit=None, api_name=False
        ).then(None, js="() => { pldLens.view.interrupt(); }")
        unfold.click(None, js=UNFOLD)
        # not `input`, which comes with the text before it
        prompt.change(None, [prompt, answer_prefix], answer_prefix, js=_begun(choices.values()))
        page.load(None, js="() => document.querySelector('#unfold').setAttribute('aria-expanded', false)")
        preset.input(
            fill,
            preset,
            list(form.values()),
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
        view.measure(
            measure,
            None,
            measured,
            show_progress="hidden",
            trigger_mode="once",
            concurrency_limit=None,  # in the line of the runs
            api_name=False,
        )
        gr.on(
            [part.change for part in lookup],
            configured,
            lookup,
            elsewhere,
            api_name=False,
            **at_once,
        )
        # In the browser alone: a file that is chosen is not sent, its text is when it runs.
        to_prompt.upload(
            None,
            [to_prompt, prompt],
            [prompt, notice],
            js="""(file, prompt) => file.problem ? [prompt, file.problem]
              : [prompt?.trim() ? `${prompt.trimEnd()}\n\n${file.text}` : file.text, ""]""",
        )
        to_reference.upload(
            None,
            [to_reference, reference],
            [reference, notice],
            js="(file, text) => file.problem ? [text, file.problem] : [file.text, \"\"]",
        )
        copy_link.click(
            link_here,
            [place, with_texts, recorded, *form.values()],
            [link, link_note],
            js="(_, ...rest) => [pldLens.place(), ...rest]",
            api_name=False,
            **at_once,
        ).then(
            None,
            [link, link_note],
            link_note,
            js=_copying(),
        )
        page.load(
            follow,
            place,
            [view, notice, recorded, about, preset, *form.values()],
            js=_arriving(),
            api_name=False,
            **at_once,
        )
        page.load(
            status, None, model, show_progress="hidden", concurrency_limit=None, api_name=False
        )
    page.queue(max_size=THREADS + allowed.waiting, api_open=False)  # no run past the line
    leftovers = _leftovers(page)
    return page


def _leftovers(page: gr.Blocks) -> Leftovers:
    """Gradio keeps the messages of a run that nobody reads for as long as it runs itself."""
    queue = page._queue

    def alive() -> list[str]:
        return [event.session_hash for event in list(queue.event_ids_to_events.values())]

    return Leftovers((queue.pending_messages_per_session, queue.pending_event_ids_session), alive)


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


def main() -> None:
    parser = argparse.ArgumentParser(prog="app.py", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model",
        default=os.environ.get("PLD_MODEL"),
        help="a hub id or a local folder; the embedded model when absent",
    )
    arguments = parser.parse_args()
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
        slot = Slot(arguments.model, on_gpu=gpu_model, hardware="ZeroGPU")
        slot.load()
        runner = ZeroGpu(slot, spaces.GPU)
    else:
        runner = Slot(arguments.model, on_gpu=gpu_model)
        runner.load_in_background()
    metrics = Metrics() if counted else None
    page = build(runner, allowed=allowed, metrics=metrics)
    settings = launch_settings(runner, allowed, metrics)
    page.launch(server_name=host, server_port=port, **settings)


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
