"""What a visitor opens: a preset, a recorded run, a link; and the link to what is here."""

from __future__ import annotations

import json
from typing import Any, Mapping

import gradio as gr

from pld_core import links
from pld_core.page.examples import Examples
from pld_core.page.words import Words


class Opening:
    """The handlers; the form's values stand in the order of links.FORM."""

    def __init__(self, examples: Examples) -> None:
        self._examples = examples

    def fill(self, title: str | None) -> tuple[Any, ...]:
        """A preset's values for the form."""
        return _filled(self._examples.presets.get(title, {}))

    def replay(self, title: str | None, prompt: str) -> tuple[Any, ...]:
        """A recorded run for the view, no notice, what it is about, and its preset and the
        preset's values for the form, unless a prompt of the visitor's own stands there."""
        examples = self._examples
        if title not in examples.recorded:
            return (gr.skip(),) * (4 + len(links.FORM))
        free = not (prompt or "").strip() or examples.name(None, prompt) is not None
        asked = examples.presets.get(title, {}) if free else {}
        preset = title if asked else gr.skip()
        return examples.stream(title), "", examples.about(title), preset, *_filled(asked)

    def open_recorded(self, prompt: str, event: gr.EventData) -> tuple[Any, ...]:
        """The title of the run that was chosen in the gallery, then as `replay`."""
        chosen = event._data.get("id") if isinstance(event._data, dict) else None
        title = self._examples.titled(chosen)
        return (gr.skip() if title is None else title, *self.replay(title, prompt))

    def follow(self, place: str) -> tuple[Any, ...]:
        """What the page's own address asks for: view, notice, recorded run, what it is about,
        preset, form. A link to a run that nobody recorded opens on an empty view."""
        examples, at = self._examples, _place(place)
        link = links.read(at["search"], at["hash"])
        problems = list(link.problems)
        title = examples.titled(link.example)
        if link.example and title is None:
            problems.append(Words.no_example(link.example))
        values = {**examples.presets.get(title, {}), **link.settings}
        if link.texts:
            values |= {name: "" for name in links.TEXTS} | link.texts
        notice = problems[0] if problems else gr.skip()
        if title is None:
            brought = bool(link.texts or link.settings) and not problems
            told = Words.link_with_texts if link.texts else Words.link_with_settings
            view, recorded, about = ("", None, told) if brought else (gr.skip(),) * 3
            return (view, notice, recorded, about, gr.skip(), *_filled(values))
        preset = title if title in examples.presets else gr.skip()
        shown = examples.stream(title)
        return (shown, notice, title, examples.about(title), preset, *_filled(values))

    def link_here(
        self, place: str, with_texts: bool, title: str | None, *inputs: Any
    ) -> tuple[str, str]:
        """The link to what the page shows, and a sentence about it."""
        at = _place(place)
        values = dict(zip(links.FORM, inputs))
        example = self._examples.name(title, values["prompt"])
        # another run of the same prompt may have other passes
        pass_ = at["pass"] if title in self._examples.recorded else None
        settings = {name: values[name] for name in links.NAMES}
        texts = {name: values[name] or "" for name in links.TEXTS} if with_texts else None
        try:
            link = links.write(at["base"], settings, example, pass_, texts)
        except links.LinkError as error:
            return "", str(error)
        return link, "" if with_texts or example else Words.link_without_prompt


def _filled(values: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(values.get(name, gr.skip()) for name in links.FORM)


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
