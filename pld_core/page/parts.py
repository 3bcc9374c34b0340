"""The parts of the page that are ours: components whose scripts stand in static/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterable

import gradio as gr
import plotly

from pld_core.page.words import Words

STATIC = Path(__file__).resolve().parent.parent.parent / "static"
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
SCRIPTS = (  # each uses only those before it
    "words.js",
    "dom.js",
    "settings.js",
    "trees.js",
    "events.js",
    "trace.js",
    "numbers.js",
    "sources.js",
    "panes.js",
    "links.js",
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


class TraceView(gr.HTML):
    """The trace view of static/: its value is the stream so far, as NDJSON.

    The templates hold no data: what stands in a template is markup and code. The styles are put
    in once: Gradio writes those of a css_template anew with every update, and the browser then
    looks at every token of the page.
    """

    def __init__(self, value: str = "", gallery: list[dict] | None = None, **more: Any) -> None:
        super().__init__(
            value,
            html_template=(STATIC / "trace_view.html").read_text("utf-8"),
            css_template="",
            js_on_load=f"{_read(SCRIPTS)}\n{_mounting(gallery or [])}",
            apply_default_css=False,
            **more,
        )

    def api_info(self) -> dict[str, Any]:
        return {"type": "string", "description": "The stream: one JSON event a line."}


def _read(names: Iterable[str]) -> str:
    return "\n".join((STATIC / name).read_text("utf-8") for name in names)


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
    const style = document.head.appendChild(document.createElement("style"));
    style.textContent = `#${{element.id}} {{ ${{{json.dumps(_read(STYLES))}}} }}`;
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


def arriving() -> str:
    """The page's own address. It may be asked for before the view is there."""
    return f"() => {{ {(STATIC / 'link.js').read_text('utf-8')}; return [pldLens.place()]; }}"


def own_prompt(presets: Iterable[dict[str, Any]]) -> str:
    """A preset is named as long as its prompt stands there; what it begins its answer with goes
    when another prompt is put in its place."""
    known = {p["title"]: [p["answer_prefix"], p["prompt"]] for p in presets}
    return f"""(prompt, begun, preset) => {{
      const known = {json.dumps(known)};
      const gone = ([answer, text]) =>
        answer === begun && !prompt.startsWith(text.slice(0, 20)) && !prompt.endsWith(text.slice(-20));
      return [Object.values(known).some(gone) ? "" : begun, known[preset]?.[1] === prompt ? preset : null];
    }}"""


def file_added(presets: Iterable[dict[str, Any]]) -> str:
    """A text file goes behind what is in the prompt; what a preset begins its answer with goes."""
    begun = json.dumps([p["answer_prefix"] for p in presets])
    said = json.dumps(Words.file_added)
    return f"""(file, prompt, begun) => {{
      if (file.problem) return [prompt, begun, file.problem];
      const behind = Boolean(prompt?.trim());
      return [
        behind ? `${{prompt.trimEnd()}}\n\n${{file.text}}` : file.text,
        {begun}.includes(begun) ? "" : begun,
        behind ? {said}.replace("{{name}}", () => file.name) : "",
      ];
    }}"""


OPENED = f"""() => {{
  document.querySelector("#unfold").setAttribute("aria-expanded", false);
  document.querySelector("#preset input").placeholder = {json.dumps(Words.preset_none)};
  document.querySelector("#recorded input").placeholder = {json.dumps(Words.recorded_none)};
}}"""

UNFOLD = """() => {
  const unfolded = document.querySelector("#ask").classList.toggle("unfolded");
  document.querySelector("#unfold").setAttribute("aria-expanded", unfolded);
}"""


def copying() -> str:
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
