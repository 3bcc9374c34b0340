"""Strict mode: the width is found by trying, and on the embedded model in bfloat16 both lanes
agree in every bit of every margin."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from pld_core import trace
from pld_core.models.loading import load
from pld_core.models.strict import TRIED, exact_width, rows_agree
from pld_core.prompting import Ask
from pld_core.settings import Sampling, Settings

NOTE = "Meeting notes, 4 March. Deliveries go to bay 3, not to bay 2, until the floor is dry. "
ASKS = {
    "copy": Ask(f"Repeat this word for word:\n\n{NOTE}", "Meeting notes, 4 March."),
    "question": Ask(f"{NOTE}\n\nWhere do deliveries go?"),
    "short": Ask("The moon", chat=False),
}
GREEDY, SAMPLED = Sampling(), Sampling(temperature=0.8, seed=3)


@dataclass
class Machine:
    """A target whose rows at `uneven(row, width)` round up; logits are those of a sum."""

    width: int
    uneven: object
    vocabulary: int = 10_000
    context: list = field(default_factory=list)

    def prefill(self, ids):
        self.context = list(ids)

    def forward(self, tokens):
        self.width_run, before = len(tokens), list(self.context)
        self.context = before + list(tokens)
        rows = [
            sum(before + list(tokens)[: row + 1]) + 0.5 * self.uneven(row, self.width)
            for row in range(len(tokens))
        ]
        return type("Scores", (), {"logits": torch.tensor(rows, dtype=torch.float64)[:, None]})

    def commit(self, positions):
        del self.context[len(self.context) - self.width_run + positions :]


@pytest.mark.parametrize("wanted, found", [(2, 2), (3, 3), (4, 4), (5, 8), (11, 12), (12, 12), (29, 32)])
def test_the_width_is_the_next_one_at_which_rows_agree(wanted, found):
    # as of a kernel that takes rows by four and the rest in another way
    def make(width):
        return Machine(width, lambda row, width: row >= width - width % 4)

    assert exact_width(make, wanted) == found
    assert not rows_agree(make(7), 7)


def test_a_machine_without_such_a_width_is_told():
    tried = []

    def make(width):
        tried.append(width)
        return Machine(width, lambda row, width: row == width - 1)

    assert exact_width(make, 5) is None
    assert tried == list(range(5, 5 + TRIED))


@pytest.fixture(scope="module", params=["ours", "transformers"])
def model(request, embedded: Path):
    return load(dtype="bfloat16", device="cpu", eager=request.param == "transformers")


@pytest.mark.parametrize(
    "name, sampling", [*((name, GREEDY) for name in ASKS), ("question", SAMPLED)]
)
def test_lanes_agree_in_every_bit_in_half_precision(model, name, sampling):
    settings = Settings(k=10, max_new_tokens=20, fixed_width=11, sampling=sampling)
    if model.exact_width(11) is None:
        pytest.skip("this machine rounds the rows of a bfloat16 pass differently at any width")
    found = trace.lanes(model.run(ASKS[name], settings))
    pld, plain = found["pld"], found["plain"]
    assert pld.ids == plain.ids
    assert margins(pld) == margins(plain)
    assert pld.compared.verdict == "same"
    assert pld.start.notices == []
    assert {p.width for p in [*pld.passes, *plain.passes]} == {model.exact_width(11)}


def margins(lane):
    return [margin for step in [lane.prefill, *lane.passes] for margin in step.margins]


def test_a_machine_whose_rows_never_agree_is_told_in_the_stream(model, monkeypatch):
    monkeypatch.setattr("pld_core.models.model.exact_width", lambda make, wanted: None)
    settings = Settings(k=4, max_new_tokens=4, fixed_width=6)
    start = model.start("pld", ASKS["short"], settings)
    assert [notice for notice in start.notices if "Strict mode is not exact here" in notice]
    model._exact_widths.clear()
