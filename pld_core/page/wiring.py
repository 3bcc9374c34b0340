"""What happens on a click: which handler gets which values, and what it fills with its answer."""

from __future__ import annotations

from typing import Any, Iterable

import gradio as gr
from gradio.events import Dependency

from pld_core.page.form import Form
from pld_core.page.lens import Lens
from pld_core.page.opening import Opening
from pld_core.page.parts import (
    OPENED,
    UNFOLD,
    Sentence,
    arriving,
    copying,
    file_added,
    own_prompt,
)
from pld_core.page.runs import Runs
from pld_core.page.values import configured

AT_ONCE = {"queue": False, "show_progress": "hidden", "api_name": False}


def wire_runs(form: Form, lens: Lens, runs: Runs) -> Dependency:
    """Returns the form's run, for others to cancel."""
    # Before the run's own, or it would come after the run's first words.
    form.start.click(None, js="() => { pldLens.view.awaited(); }")
    running = form.start.click(
        runs.run,
        list(form.fields.values()),
        [lens.view, form.notice, lens.recorded, lens.about],
        show_progress="minimal",
        show_progress_on=form.notice,
        trigger_mode="once",
        concurrency_limit=None,  # they wait in a line of our own
        api_name=False,
    )
    gr.api(runs.run_trace, api_name="run_trace", concurrency_limit=None)
    # Through the queue, so that it comes after whatever the run still sends. The view has the
    # stream and ends it there; nothing is sent back and forth for that.
    form.stop.click(None, cancels=running, api_name=False).then(
        lambda: None, show_progress="hidden", concurrency_limit=None, api_name=False
    ).then(None, js="() => { pldLens.view.interrupt(); }")
    lens.view.measure(
        runs.measure,
        None,
        lens.measured,
        show_progress="hidden",
        trigger_mode="once",
        concurrency_limit=None,  # in the line of the runs
        api_name=False,
    )
    return running


def wire_form(page: gr.Blocks, form: Form, lens: Lens, presets: Iterable[dict[str, Any]]) -> None:
    """What the form does by itself. A file that is chosen is not sent: its text is, when it
    runs."""
    prompt, answer_prefix = form.fields["prompt"], form.fields["answer_prefix"]
    reference = form.fields["reference"]
    form.unfold.click(None, js=UNFOLD)
    page.load(None, js=OPENED)
    # not `input`, which comes with the text before it
    prompt.change(
        None,
        [prompt, answer_prefix, form.preset],
        [answer_prefix, form.preset],
        js=own_prompt(presets),
    )
    form.to_prompt.upload(
        None,
        [form.to_prompt, prompt, answer_prefix],
        [prompt, answer_prefix, form.notice],
        js=file_added(presets),
    )
    form.to_reference.upload(
        None,
        [form.to_reference, reference],
        [reference, form.notice],
        js="(file, text) => file.problem ? [text, file.problem] : [file.text, \"\"]",
    )
    gr.on(
        [part.change for part in form.lookup], configured, form.lookup, lens.elsewhere, **AT_ONCE
    )


def wire_opening(
    page: gr.Blocks, form: Form, lens: Lens, opening: Opening, running: Dependency
) -> None:
    """Whatever is opened takes the place of the run that is going on."""
    fields, sharing = list(form.fields.values()), form.sharing
    opened = [lens.view, form.notice, lens.about, form.preset, *fields]
    form.preset.input(opening.fill, form.preset, fields, **AT_ONCE)
    # by itself: the run that is chosen may be the one on screen, which then does not change
    lens.recorded.select(None, js="() => { pldLens.view.dismiss(); }")
    lens.recorded.select(  # its `input` comes twice
        opening.replay,
        [lens.recorded, form.fields["prompt"]],
        opened,
        cancels=running,
        **AT_ONCE,
    )
    lens.view.select(
        opening.open_recorded,
        form.fields["prompt"],
        [lens.recorded, *opened],
        cancels=running,
        **AT_ONCE,
    )
    lens.view.upload(
        lambda: (None, ""), None, [lens.recorded, lens.about], cancels=running, **AT_ONCE
    )
    sharing.copy.click(
        opening.link_here,
        [sharing.place, sharing.with_texts, lens.recorded, *fields],
        [sharing.link, sharing.note],
        js="(_, ...rest) => [pldLens.place(), ...rest]",
        **AT_ONCE,
    ).then(None, [sharing.link, sharing.note], sharing.note, js=copying())
    # A link that leads elsewhere than to what is shown is gone.
    gr.on(
        [part.change for part in (*fields, sharing.with_texts, lens.recorded)],
        None,
        None,
        [sharing.link, sharing.note],
        js="() => ['', '']",
    )
    page.load(
        opening.follow,
        sharing.place,
        [lens.view, form.notice, lens.recorded, lens.about, form.preset, *fields],
        js=arriving(),
        **AT_ONCE,
    )


def wire_status(page: gr.Blocks, runs: Runs, model: Sentence) -> None:
    page.load(
        runs.status, None, model, show_progress="hidden", concurrency_limit=None, api_name=False
    )
