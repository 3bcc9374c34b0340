"""benchmarks/passes.py: processes that measure in turn, and a table of what they took."""

from __future__ import annotations

import pytest
import scripts


@pytest.fixture(scope="module")
def passes() -> dict:
    return scripts.parts("passes")


def test_a_checkout_is_measured(passes, embedded, capsys) -> None:
    passes["main"]([f"{scripts.ROOT}:int4", "--rounds", "1"])
    head, _, row = capsys.readouterr().out.splitlines()
    assert head.split("|")[2].strip() == "1"
    assert row.startswith(f"| {scripts.ROOT}:int4 |") and row.count("(1.00)") == head.count("|") - 2


def test_ratios_are_those_of_a_round(passes) -> None:
    rounds = [
        [{1: 0.010, 16: 0.020}, {1: 0.005, 8: 0.1, 16: 0.020}],
        [{1: 0.030, 16: 0.040}, {1: 0.012, 8: 0.1, 16: 0.060}],
        [{1: 0.020, 16: 0.030}, {1: 0.012, 8: 0.1, 16: 0.030}],
    ]
    assert passes["table"](["a", "b"], rounds).splitlines()[2:] == [
        "| a | 20.0 (1.00) | 30.0 (1.00) |",
        "| b | 12.0 (0.50) | 30.0 (1.00) |",
    ]


@pytest.mark.parametrize("contestant", ["float32", "/nowhere:float32"])
def test_what_is_no_checkout_is_said(passes, contestant, capsys) -> None:
    with pytest.raises(SystemExit):
        passes["main"]([contestant])
    assert "FOLDER:TYPE" in capsys.readouterr().err


def test_a_contestant_that_fails_is_said(passes, embedded, capfd) -> None:
    with pytest.raises(SystemExit, match="ended before it was done"):
        passes["main"]([f"{scripts.ROOT}:int3"])
    assert "The dtype is one of" in capfd.readouterr().err
