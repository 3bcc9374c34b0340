"""benchmarks/worth.py: settings on recorded runs, by what passes cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import scripts

from pld_core.cost import PassCost
from pld_core.settings import Settings

EXAMPLES = Path(__file__).resolve().parent.parent / "static" / "examples"


@pytest.fixture(scope="module")
def worth() -> dict:
    return scripts.parts("worth")


@pytest.fixture(scope="module")
def traces(worth) -> list:
    return [worth["recorded"](EXAMPLES / "rename-in-code.ndjson")]


def test_where_every_width_costs_the_same_the_speed_is_in_the_passes(worth, traces) -> None:
    (trace,) = traces
    speed, per_pass = worth["worth"](traces, Settings(adaptive=False), PassCost(((1, 0.01), (32, 0.01))))
    passes = len(trace.ids) / per_pass
    assert passes == pytest.approx(round(passes)) and speed > 3
    assert speed == pytest.approx((len(trace.ids) - 1) / (passes - 1))


def test_where_every_position_costs_as_much_as_a_pass_nothing_pays(worth, traces) -> None:
    dear = PassCost(((1, 0.01), (32, 0.32)))
    assert worth["worth"](traces, Settings(), dear) == pytest.approx((1.0, 1.0))
    assert worth["worth"](traces, Settings(adaptive=False), dear)[0] < 1


def test_every_setting_is_tried_once_the_default_first(worth) -> None:
    tried = list(worth["variations"]())
    labels = [label for label, _ in tried]
    assert len(set(labels)) == len(labels) and len({repr(s) for _, s in tried}) == len(tried)
    assert tried[0][1] == replace(Settings(), adaptive=True)


def test_a_stranger_gets_a_table_of_the_runs_and_costs_that_were_given(tmp_path) -> None:
    runs = [str(EXAMPLES / f"{name}.ndjson") for name in ("rename-in-code", "make-a-checklist")]
    ran = scripts.run("worth", *runs, "--by", "1:10,16:10.5", "--by", "1:10,16:160", cwd=tmp_path)
    said, _, head, _, *rows = ran.stdout.splitlines()
    assert said.startswith("2 runs, ") and head == "| settings | 1:10,16:10.5 | 1:10,16:160 |"
    assert rows[0].startswith("| nearest, k 31 | ") and rows[0].endswith("| 1.000 (1.00) |")
    assert float(rows[0].split("|")[2].split()[0]) > 4


@pytest.mark.parametrize(
    "asked, said",
    [
        (["--by", "int3"], "'int3' is neither a type"),
        (["--by", "1:10,x"], "'1:10,x' is neither a type"),
        (["--by", "2:10,1:20"], "is neither a type"),
        (["missing.ndjson"], "missing.ndjson"),
        ([str(Path(__file__))], "not a line of JSON"),
    ],
)
def test_what_cannot_be_replayed_is_said(worth, asked, said, capsys) -> None:
    with pytest.raises(SystemExit):
        worth["main"](asked)
    assert said in capsys.readouterr().err


def test_a_run_that_holds_nothing_to_replay_is_said(worth, tmp_path, capsys) -> None:
    lines = (EXAMPLES / "rename-in-code.ndjson").read_text("utf-8").splitlines()
    plain = [line for line in lines if '"lane":"plain"' in line]
    wrong = [line.replace('"max_new_tokens":', '"max_new_tokens":-') for line in lines]
    for name, kept, why in (("plain", plain, "no run with a lookup"), ("wrong", wrong, "token")):
        path = tmp_path / f"{name}.ndjson"
        path.write_text("\n".join(kept), "utf-8")
        with pytest.raises(SystemExit):
            worth["main"]([str(path), "--by", "1:10,16:11"])
        said = capsys.readouterr().err.splitlines()[-1]
        assert str(path) in said and why in said


def test_the_same_cost_twice_is_one_column(worth, capsys) -> None:
    worth["main"]([str(EXAMPLES / "quote-the-text.ndjson"), *["--by", "1:10,16:11"] * 2])
    head, *_ = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| set")]
    assert head == "| settings | 1:10,16:11 |"
