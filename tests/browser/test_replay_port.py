"""The page's own replay and copy rate are those of pld_core, on recorded and on random runs."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Iterator

import pytest

from pld_core.events import End, Pass, Prefill, Prompt, Seconds, Start, dumps
from pld_core.replay import what_if
from pld_core.settings import POLICIES, Settings
from pld_core.trace import Trace, read
from tests.browser.conftest import View

EXAMPLES = sorted((Path(__file__).parents[2] / "static" / "examples").glob("*.ndjson"))

REPLAY = """
([text, settings]) => {
  const { lookup } = pldLens.Trace.of(text);
  const grams = pldLens.Grams.of(lookup);
  return {
    rates: [1, 2, 3, 5].map(n => pldLens.textCopyRate(grams, n)),
    runs: settings.map(changed => pldLens
      .replay(grams, { ...pldLens.settingsOf(lookup), ...changed }, lookup.start)
      .map(pass => [
        pass.match && [pass.match.start, pass.match.n, pass.match.region, pass.match.alternatives],
        pldLens.draftOf(grams, pass), pass.accepted, pass.kept, pass.tree?.parents ?? [], pass.path ?? [],
        (pass.tree?.branches ?? []).map(({ leaf, match }) => [leaf, match.start, match.n, match.region]),
      ])),
  };
}
"""


def counted(trace: Trace) -> list[list]:
    return [
        [
            step.match
            and [step.match.start, step.match.n, step.match.region, step.alternatives],
            step.draft,
            step.accepted,
            len(step.kept),
            step.parents,
            step.path,
            [[b.leaf, b.match.start, b.match.n, b.match.region] for b in step.branches],
        ]
        for step in trace.passes
    ]


def some_settings(chance: random.Random) -> dict:
    n_max = chance.choice([1, 2, 3, 4, 8])
    costs = [(1, 0.03), (2, 0.031), (5, chance.uniform(0.03, 0.1)), (17, 0.2)]
    return {
        "n_max": n_max,
        "n_min": chance.randint(1, n_max),
        "k": chance.choice([0, 1, 2, 5, 10, 40]),
        "policy": chance.choice(POLICIES),
        "search": chance.choice(["context", "prompt"]),
        "periodic": chance.random() < 0.7,
        "adaptive": chance.random() < 0.4,
        "pass_seconds": costs,
        "branches": chance.choice([1, 1, 2, 4, 8]),
    }


def assert_equal(view: View, text: str, settings: list[dict]) -> None:
    trace = read(text.splitlines())["pld"]
    found = view.page.evaluate(REPLAY, [text, settings])
    assert found["rates"] == [trace.text_copy_rate(n) for n in (1, 2, 3, 5)]
    recorded = Settings.from_json(trace.start.settings)
    for changed, run in zip(settings, found["runs"]):
        changed = {**changed, "pass_seconds": tuple(changed["pass_seconds"])}
        assert run == counted(what_if(trace, replace(recorded, **changed))), changed


def random_run(chance: random.Random) -> Iterator[str]:
    """A run of random tokens of a small alphabet, with much to copy. What it drafted is left
    out: a replay asks for the tokens alone."""
    letters = chance.choice([2, 3, 12])

    def tokens(least: int, most: int) -> list[int]:
        return [chance.randrange(letters) for _ in range(chance.randint(least, most))]

    def prompt(ids: list[int]) -> Prompt:
        return Prompt(ids, ["x"] * len(ids), len(ids))

    given, output = tokens(1, 40), tokens(1, 60)
    limit = chance.choice([None, len(given) + len(output) + chance.randint(0, 5)])
    settings = {"max_new_tokens": len(output) + chance.choice([0, 1, 5, 100])}
    reference = prompt(tokens(1, 20)) if chance.random() < 0.5 else None
    eos = chance.choice([[], [0], [1, 2]])
    yield dumps(
        Start("pld", "random", "0", "cpu", "float32", {}, settings, prompt(given),
              eos=eos, context_limit=limit, reference=reference)
    )  # fmt: skip
    yield dumps(Prefill("pld", 0.1, output[:1], ["x"]))
    for index, token in enumerate(output[1:], 2):
        yield dumps(
            Pass("pld", index, None, [], [], 0, token, [token], ["x"], 1, Seconds(0, 0.1, 0))
        )
    yield dumps(End("pld", "length", len(output), len(output)))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_recorded_runs(shared_view: View, path: Path) -> None:
    chance = random.Random(path.stem)
    settings = [some_settings(chance) for _ in range(25)]
    assert_equal(shared_view, path.read_text("utf-8"), settings)


@pytest.mark.parametrize("seed", range(40))
def test_random_runs(shared_view: View, seed: int) -> None:
    chance = random.Random(seed)
    settings = [some_settings(chance) for _ in range(12)]
    assert_equal(shared_view, "\n".join(random_run(chance)), settings)


def test_recorded_settings_give_the_recorded_passes(shared_view: View) -> None:
    for path in EXAMPLES:
        text = path.read_text("utf-8")
        trace = read(text.splitlines())["pld"]
        found = shared_view.page.evaluate(REPLAY, [text, [{}]])
        assert found["runs"][0] == counted(trace), path.stem
