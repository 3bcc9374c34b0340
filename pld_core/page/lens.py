"""The right side of the page: the run that is shown."""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr

from pld_core.page.examples import Examples
from pld_core.page.parts import Configurations, Measured, Sentence, TraceView
from pld_core.page.words import Words


@dataclass(frozen=True, slots=True)
class Lens:
    """recorded: which recorded run is shown, and about: what of it is to be seen. elsewhere: the
    form's settings as other engines write them."""

    recorded: gr.Dropdown
    about: Sentence
    view: TraceView
    measured: Measured
    elsewhere: Configurations


def lens_column(examples: Examples, configured: str) -> Lens:
    """Lays it out with the first recorded run."""
    shown = examples.shown
    with gr.Column(scale=4, min_width=320, elem_id="lens"):
        with gr.Row(elem_id="shown"):
            recorded = gr.Dropdown(
                list(examples.recorded),
                value=shown,
                label=Words.recorded,
                info=Words.recorded_info,
                elem_id="recorded",
            )
            about = Sentence("status", examples.about(shown), elem_id="about")
        view = TraceView(examples.stream(shown), gallery=examples.summaries(), elem_id="view")
        measured = Measured()
        with gr.Accordion(Words.elsewhere, open=False, elem_id="elsewhere"):
            elsewhere = Configurations(configured)
    return Lens(recorded, about, view, measured, elsewhere)
