"""benchmarks/streaming.py: runs alone and served in turn, and what the pairs say."""

from __future__ import annotations

from statistics import median

import pytest
import scripts
from hypothesis import given
from hypothesis import strategies as st

from pld_core.events import End, Pass, Prefill, Seconds

RATIOS = st.lists(st.floats(0.5, 2), min_size=1, max_size=40)


@pytest.fixture(scope="module")
def streaming() -> dict:
    return scripts.parts("streaming")


def test_a_run_is_watched(embedded, tmp_path) -> None:
    ran = scripts.run("streaming", "--pairs", "1", "--tokens", "4", "--both", cwd=tmp_path)
    _, what, _, head, _, *rows = ran.stdout.splitlines()
    assert what.startswith("write-freely, both lanes, ") and what.endswith("; pairs: 1")
    assert len(rows) == 3 and all(row.count("|") == head.count("|") for row in rows)
    assert "4/4" in ran.stderr


def test_a_run_is_timed_from_its_last_lanes_first_token_to_its_last(streaming) -> None:
    def pass_(lane: str, seconds: float) -> Pass:
        parts = Seconds(0.0, seconds, 0.0, record=9.0)
        return Pass(lane, 2, None, [], [], 0, 1, [1], ["b"], 1, parts)

    came = [
        (1.0, Prefill("pld", 0.5, [0], ["a"])),
        (2.0, Prefill("plain", 0.5, [0], ["a"])),
        (2.5, pass_("pld", 0.25)),
        (3.0, pass_("plain", 0.25)),
        (9.0, End("pld", "length", 2, 2)),
    ]
    window = streaming["window"](came)
    assert window == (1.0, 0.5, 2) and window.between == 0.25


@given(RATIOS)
def test_the_interval_holds_the_median_and_leaves_no_value_behind(streaming, ratios) -> None:
    low, high = streaming["interval"](ratios, samples=200)
    assert min(ratios) <= low <= median(ratios) <= high <= max(ratios)
    doubled = streaming["interval"]([2 * ratio for ratio in ratios], samples=200)
    assert doubled == (2 * low, 2 * high)


def test_ratios_are_those_of_a_pair(streaming) -> None:
    Window = streaming["Window"]
    slow = Window(3.0, 2.9, 10)
    pairs = [(Window(1.0, 0.9, 10), Window(2.0, 1.8, 10)), (slow, slow)]
    assert streaming["table"](pairs).splitlines()[2:] == [
        "| s from the first token to the last | 2.00 | 2.50 | 1.500 (1.000..2.000) |",
        "| s in passes | 1.90 | 2.35 | 1.500 (1.000..2.000) |",
        "| ms between two passes | 10.00 | 15.00 | 1.500 (1.000..2.000) |",
    ]


@pytest.mark.parametrize(
    "asked, said",
    [
        (["--pairs", "0"], "at least one pair"),
        (["--tokens", "1"], "at least two tokens"),
        (["--preset", "none"], "no preset 'none': take one of retell-a-story"),
        (["--dtype", "int3"], "invalid choice: 'int3'"),
    ],
)
def test_what_cannot_be_measured_is_said(streaming, asked, said, capsys) -> None:
    with pytest.raises(SystemExit):
        streaming["main"](asked)
    assert said in capsys.readouterr().err
