"""benchmarks/lag.py: a scripted run on the page, and when each of its passes was on screen."""

from __future__ import annotations

import pytest
import scripts

from pld_core.trace import lanes


@pytest.fixture(scope="module")
def lag() -> dict:
    return scripts.parts("lag")


def test_passes_come_on_screen(chromium, tmp_path) -> None:
    ran = scripts.run("lag", "--passes", "20", cwd=tmp_path)
    what, _, _, _, row, *_ = ran.stdout.splitlines()
    assert what.startswith("20 passes, 40 a second, ")
    middle, *_, longest = map(float, row.split("|")[2:-1])
    assert 0 < middle <= longest


@pytest.mark.parametrize("passes", [1, 200])
def test_the_script_is_a_run(lag, passes) -> None:
    trace = lanes(lag["scripted"](passes))["pld"]
    assert list(trace.laws()) == []
    assert len(trace.passes) == passes
    assert len(trace.ids) == trace.end.tokens


def test_a_pass_is_on_screen_when_all_its_tokens_are(lag) -> None:
    made = [(1.0, 2), (2.0, 3), (3.0, 7)]
    seen = [(0.5, 96), (1.5, 2), (3.0, 5), (3.25, 7)]  # 96: what stood there before
    assert lag["waited"](made, seen) == [0.5, 1.0, 0.25]


def test_the_table_tells_the_whole_and_both_ends(lag) -> None:
    seconds = [float(number) for number in range(100)]
    assert lag["table"](seconds).splitlines()[2:] == [
        "| all passes | 49.500 | 95.000 | 99.000 | 99.000 |",
        "| their first quarter | 12.000 | 23.000 | 24.000 | 24.000 |",
        "| their last quarter | 87.000 | 98.000 | 99.000 | 99.000 |",
    ]


@pytest.mark.parametrize("asked", [["--passes", "0"], ["--pace", "0"], ["--pace", "nan"]])
def test_what_cannot_be_shown_is_said(lag, asked, capsys) -> None:
    with pytest.raises(SystemExit):
        lag["main"](asked)
    assert "at least one pass" in capsys.readouterr().err
