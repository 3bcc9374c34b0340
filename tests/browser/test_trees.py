"""Trees of drafts on the page: the branches of a pass, the kept one's source, what more branches
would have saved, and the form's slider."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from pld_core.events import Pass, dumps
from pld_core.replay import replay
from pld_core.settings import Settings
from pld_core.trace import read
from tests.browser.conftest import View, drawn
from tests.browser.scripted import ScriptedSlot, lane, lines, tokens_of
from tests.browser.test_exports import taken
from tests.browser.test_form import number, unfold
from tests.browser.test_understand import panel

PROMPT = "a cat sat up. a cat ran off. a cat hid."
ANSWER = " a cat sat up. a cat ran off. a cat sat up again on top of it"


@pytest.fixture(scope="module")
def chain() -> str:
    return "".join(lines(lane(tokens_of(PROMPT), tokens_of(ANSWER))))


@pytest.fixture(scope="module")
def stream(chain: str) -> str:
    recorded = read(chain.splitlines())["pld"]
    events = replay(recorded, Settings(k=6, branches=4, adaptive=False))
    return "".join(dumps(event) + "\n" for event in events)


def passes(stream: str) -> list[Pass]:
    return read(stream.splitlines())["pld"].passes


def beside(stream: str) -> tuple[int, Pass]:
    """The first pass that kept another branch than the first: its number and event."""
    return next(
        (step.index, step)
        for step in passes(stream)
        if step.path and step.match != step.branches[0].match
    )


def test_this_pass_shows_the_kept_branch_and_the_others(view: View, stream: str) -> None:
    number, step = beside(stream)
    view.load(stream)
    view.scrub(number)
    strip = view.part("pass")
    expect(strip.locator(".chip.copied")).to_have_count(step.accepted)
    rejected = len(step.draft) - step.accepted
    expect(strip.locator("del.chip.rejected")).to_have_count(rejected)
    rows = [row.split("\n")[0] for row in strip.locator(".row").all_inner_texts()]
    assert rows[0] == "Draft" and rows.count("Or") == len(step.branches) - 1
    shown = strip.locator(".row").first.locator(".chip").evaluate_all("c => c.map(c => +c.dataset.id)")
    assert shown == [step.draft[node] for node in step.line]
    others = len(step.branches) - 1
    said = f"{others} other continuations were" if others > 1 else "another continuation was"
    expect(strip).to_contain_text(f"Beside it {said} checked")


def test_the_accepted_span_is_linked_to_its_own_source(view: View, stream: str) -> None:
    number, step = beside(stream)
    view.load(stream)
    view.scrub(number)
    prompt = len(tokens_of(PROMPT))
    begin = step.match.start + step.match.n
    for mark, positions in (
        ("source", range(begin, begin + step.accepted)),
        ("key", range(step.match.start, begin)),
    ):
        places = view.marked("prompt", mark)
        places += [prompt + at for at in view.marked("lookup", mark)]
        assert places == list(positions)


def test_the_figures_count_every_node(view: View, stream: str) -> None:
    view.load(stream)
    drafted = sum(len(step.draft) for step in passes(stream))
    accepted = sum(step.accepted for step in passes(stream))
    lane = "[...pldLens.view.trace.lanes.values()][0]"
    after = view.page.evaluate(f"() => {{ const lane = {lane}; return lane.after(lane.passes.length); }}")
    assert (after["drafted"], after["accepted"]) == (drafted, accepted)


def test_more_branches_are_asked_of_a_recorded_run(view: View, chain: str, stream: str) -> None:
    view.load(chain)
    body = panel(view, "whatIf")
    body.get_by_role("slider", name="Branches").fill("4")
    expect(body).to_contain_text("branches 1 → 4")
    expect(body.locator("[data-figure=passes] .value")).to_have_text(str(1 + len(passes(stream))))
    body.get_by_role("button", name="As recorded").click()
    expect(body).to_contain_text("each one equal")


def test_a_recorded_tree_is_replayed_exactly(view: View, stream: str) -> None:
    view.load(stream)
    expect(panel(view, "whatIf")).to_contain_text("each one equal")


def test_the_form_s_branches_reach_the_run(view: View, slot: ScriptedSlot) -> None:
    unfold(view, "Settings")
    number(view, "Continuations checked at once", "4")
    view.run(slot, PROMPT, tokens_of(ANSWER))
    assert slot.requests[-1].branches == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"parents": []}, {"parents": [-1]}, {"path": [0, 0]}, {"branches": []}, {"path": []},
        {"branches": [{"leaf": 99, "match": {"start": 0, "n": 1, "region": "prompt"}}]},
        {"branches": [{"leaf": 0, "match": {"start": 0, "n": 1, "region": "prompt"}}]},
    ],
    ids=str,
)  # fmt: skip
def test_a_tree_that_contradicts_itself_is_refused(view: View, stream: str, changes: dict) -> None:
    number, _ = beside(stream)
    broken = stream.splitlines()
    broken[number] = json.dumps({**json.loads(broken[number]), **changes})
    view.load("\n".join(broken))
    expect(view.part("problem")).to_contain_text(f"Line {number + 1}")


def test_a_page_to_keep_shows_the_branches(view: View, browser, stream: str, tmp_path: Path) -> None:
    number, step = beside(stream)
    view.load(stream)
    view.scrub(number)
    file = tmp_path / "kept.html"
    file.write_bytes(taken(view, "page").read_bytes())
    page = browser.new_page()
    page.goto(file.as_uri())
    drawn(page)
    rejected = page.locator("[data-part=pass] del.chip.rejected")
    expect(rejected).to_have_count(len(step.draft) - step.accepted)
    page.close()
