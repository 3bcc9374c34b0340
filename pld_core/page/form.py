"""The left side of the page: what is asked, of whom, and the link to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.components import Component

from pld_core.hosting.limits import Limits
from pld_core.links import FORM, RANGES
from pld_core.lookup import POLICIES
from pld_core.page.parts import Sentence, TextFile
from pld_core.page.words import Words


@dataclass(frozen=True, slots=True)
class Sharing:
    """The link to what the page shows. place: what the browser tells of its address."""

    with_texts: gr.Checkbox
    copy: gr.Button
    link: gr.Textbox
    note: Sentence
    place: gr.Textbox


@dataclass(frozen=True, slots=True)
class Form:
    """fields: what a request is made of, see links.FORM. to_prompt, to_reference: text files for
    these fields. notice: why a run does not go on. unfold: shows a phone the rest of the form."""

    preset: gr.Dropdown
    fields: dict[str, Component]
    to_prompt: TextFile
    to_reference: TextFile
    start: gr.Button
    stop: gr.Button
    notice: Sentence
    unfold: gr.Button
    sharing: Sharing

    @property
    def lookup(self) -> list[Component]:
        """The fields that `configured` takes."""
        return [self.fields[name] for name in ("n_max", "n_min", "k", "branches", "policy")]


def form_column(presets: dict[str, dict[str, Any]], allowed: Limits) -> Form:
    """Lays the form out, filled with the first preset."""
    first = next(iter(presets.values()))
    with gr.Column(scale=1, min_width=300, elem_id="ask"):
        preset = gr.Dropdown(
            list(presets),
            value=first["title"],
            label=Words.preset,
            info=Words.preset_info,
            elem_id="preset",
        )
        texts = _texts(first)
        to_prompt = TextFile(Words.file_to_prompt, allowed.upload_bytes, elem_id="to-prompt")
        with gr.Row():
            start = gr.Button(Words.run, variant="primary", min_width=80, elem_id="run")
            stop = gr.Button(Words.stop, min_width=80, elem_id="stop")
        notice = Sentence("alert", elem_id="notice")
        # Shown on a phone alone, where the run would stand far below a whole form.
        unfold = gr.Button(Words.more, size="sm", elem_id="unfold")
        plain = _switch(
            "plain", Words.plain, info=Words.plain_info, elem_id="plain", elem_classes="more"
        )
        settings = _settings(first, allowed.new_tokens)
        rival = _rival()
        sampling = _sampling()
        with _fold(Words.reference_title):
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
        sharing = _sharing()
    fields = {**texts, **settings, **rival, **sampling, "plain": plain, "reference": reference}
    return Form(
        preset,
        {name: fields[name] for name in FORM},
        to_prompt,
        to_reference,
        start,
        stop,
        notice,
        unfold,
        sharing,
    )


def _texts(first: dict[str, Any]) -> dict[str, Component]:
    return {
        "prompt": gr.Textbox(
            first["prompt"], label=Words.prompt, lines=8, max_lines=10, elem_id="prompt"
        ),
        "answer_prefix": gr.Textbox(
            first["answer_prefix"],
            label=Words.answer_prefix,
            info=Words.answer_prefix_info,
            lines=1,
            max_lines=6,
            elem_id="answer-prefix",
        ),
    }


def _settings(first: dict[str, Any], most_tokens: int) -> dict[str, Component]:
    with _fold(Words.settings):
        return {
            "n_max": _slider("n_max", Words.n_max, first["n_max"]),
            "n_min": _slider("n_min", Words.n_min),
            "k": _slider("k", Words.k, first["k"]),
            "branches": _slider("branches", Words.branches, info=Words.branches_info),
            "policy": _policy("policy", Words.policy),
            "max_new_tokens": _slider(
                "max_new_tokens", Words.max_new_tokens, first["max_new_tokens"], most=most_tokens
            ),
            "chat": gr.Checkbox(first["chat"], label=Words.chat, info=Words.chat_info),
            "system": gr.Textbox(label=Words.system, lines=2, max_lines=6, elem_id="system"),
            "adaptive": _switch("adaptive", Words.adaptive, info=Words.adaptive_info),
            "strict": _switch("strict", Words.strict, info=Words.strict_info),
        }


def _rival() -> dict[str, Component]:
    with _fold(Words.rival_title):
        return {
            "rival": _switch("rival", Words.rival, elem_id="rival"),
            "rival_n_max": _slider("rival_n_max", Words.rival_n_max),
            "rival_n_min": _slider("rival_n_min", Words.rival_n_min),
            "rival_k": _slider("rival_k", Words.rival_k),
            "rival_branches": _slider("rival_branches", Words.rival_branches),
            "rival_policy": _policy("rival_policy", Words.rival_policy),
            "rival_adaptive": _switch("rival_adaptive", Words.rival_adaptive),
        }


def _sampling() -> dict[str, Component]:
    with _fold(Words.sampling):
        return {
            "temperature": gr.Slider(
                0, 2, 0, step=0.05, label=Words.temperature, info=Words.temperature_info
            ),
            "top_k": _slider("top_k", Words.top_k, info=Words.top_k_info),
            "top_p": gr.Slider(0.01, 1, 1, step=0.01, label=Words.top_p),
            "seed": gr.Number(0, precision=0, label=Words.seed, info=Words.seed_info),
        }


def _sharing() -> Sharing:
    with _fold(Words.share):
        with_texts = gr.Checkbox(False, label=Words.with_texts, info=Words.with_texts_info)
        copy = gr.Button(Words.copy_link, size="sm", elem_id="copy-link")
        link = gr.Textbox(label=Words.link, interactive=False, max_lines=3, elem_id="link")
        note = Sentence("status", elem_id="link-note")
    return Sharing(with_texts, copy, link, note, place=gr.Textbox(visible=False))


def _fold(title: str) -> gr.Accordion:
    return gr.Accordion(title, open=False, elem_classes="more")


def _slider(
    name: str, label: str, value: int | None = None, most: float = math.inf, **more: Any
) -> gr.Slider:
    """A whole-number setting in its range, see links.FIELDS, and at most `most`."""
    field = RANGES[name]
    value = field.default if value is None else value
    high = min(field.high, most)
    return gr.Slider(field.low, high, min(value, high), step=1, label=label, **more)


def _switch(name: str, label: str, **more: Any) -> gr.Checkbox:
    return gr.Checkbox(RANGES[name].default, label=label, **more)


def _policy(name: str, label: str) -> gr.Dropdown:
    policies = [(Words.policies[policy], policy) for policy in POLICIES]
    return gr.Dropdown(policies, value=RANGES[name].default, label=label)
