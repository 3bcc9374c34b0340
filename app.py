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
import inspect
import json
import logging
import os
import socket
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Iterator

# Gradio makes a table of the events it remembers, 10,000 of them, after every one.
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "100")

import gradio as gr

from pld_core import links, trace
from pld_core.configuration import configurations
from pld_core.events import dumps
from pld_core.hosting.calls import checked, records
from pld_core.hosting.leftovers import Leftovers
from pld_core.hosting.limits import LOCAL, LimitError, Limits, hosted, limits, on_space, switched
from pld_core.hosting.line import Outlook, Visitor
from pld_core.hosting.metrics import Counted, Metrics
from pld_core.hosting.service import Runner, Service, TimeUp
from pld_core.links import RANGES
from pld_core.lookup import POLICIES
from pld_core.page.examples import presets, recordings, summaries
from pld_core.page.parts import (
    STATIC,
    UNFOLD,
    Configurations,
    Measured,
    Sentence,
    TextFile,
    TraceView,
    arriving,
    begun_answer,
    copying,
    slider,
)
from pld_core.page.site import THREADS, launch_settings
from pld_core.page.words import Words
from pld_core.serving import Request, RequestError, Rival, Slot
from pld_core.settings import Settings
from pld_core.trace import TraceError, endings

GPU_MODEL = "Qwen/Qwen2.5-1.5B-Instruct"  # of a Space with a GPU
PRIVATE = "127.0.0.0/8,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7"

log = logging.getLogger(__name__)


def configured(n_max: Any, n_min: Any, k: Any, branches: Any, policy: str) -> str:
    """The configurations for these settings, or why there are none, as JSON."""
    try:
        numbers = {"n_max": n_max, "n_min": n_min, "k": k, "branches": branches}
        whole = {name: _whole(number) for name, number in numbers.items()}
        settings = Settings(**whole, policy=policy)
        return json.dumps({"engines": [asdict(made) for made in configurations(settings)]})
    except ValueError as error:
        return json.dumps({"problem": str(error), "engines": []})


def completed(stream: str, reason: str) -> str:
    """The stream with an `end` for every lane that lacks one."""
    try:
        ends = endings(trace.read(stream.splitlines()), reason)
    except TraceError:
        return stream
    return stream + "".join(f"{dumps(end)}\n" for end in ends)


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
                    n_max = slider("n_max", Words.n_max, first["n_max"])
                    n_min = slider("n_min", Words.n_min)
                    k = slider("k", Words.k, first["k"])
                    branches = slider("branches", Words.branches, info=Words.branches_info)
                    policy = gr.Dropdown(
                        policies, value=RANGES["policy"].default, label=Words.policy
                    )
                    max_new_tokens = slider(
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
                    rival_n_max = slider("rival_n_max", Words.rival_n_max)
                    rival_n_min = slider("rival_n_min", Words.rival_n_min)
                    rival_k = slider("rival_k", Words.rival_k)
                    rival_branches = slider("rival_branches", Words.rival_branches)
                    rival_policy = gr.Dropdown(policies, value="recent", label=Words.rival_policy)
                    rival_adaptive = gr.Checkbox(
                        RANGES["rival_adaptive"].default, label=Words.rival_adaptive
                    )
                with gr.Accordion(Words.sampling, open=False, elem_classes="more"):
                    temperature = gr.Slider(
                        0, 2, 0, step=0.05, label=Words.temperature, info=Words.temperature_info
                    )
                    top_k = slider("top_k", Words.top_k, info=Words.top_k_info)
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
        prompt.change(None, [prompt, answer_prefix], answer_prefix, js=begun_answer(choices.values()))
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
            js=copying(),
        )
        page.load(
            follow,
            place,
            [view, notice, recorded, about, preset, *form.values()],
            js=arriving(),
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
