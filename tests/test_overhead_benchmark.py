"""benchmarks/overhead.py: what passes take, and what of that is not the model's."""

from __future__ import annotations

import pytest
import scripts


@pytest.fixture(scope="module")
def overhead() -> dict:
    return scripts.parts("overhead")


def test_a_type_is_measured(embedded, tmp_path) -> None:
    ran = scripts.run("overhead", "float32", "--presets", "1", "--tokens", "4", cwd=tmp_path)
    _, _, *rows = ran.stdout.splitlines()
    drafting, plain = ([cell.strip() for cell in row.split("|")[1:-1]] for row in rows)
    assert drafting[:2] == ["float32", "10"] and plain[:3] == ["float32", "0", "3"]
    assert 0 < float(plain[4]) < float(plain[3])
    assert "2/2" in ran.stderr


def test_what_is_beside_the_forward_pass_is_the_rest_of_the_mean(overhead) -> None:
    found = [(0.020, 0.018), (0.040, 0.036), (0.060, 0.054)]
    assert overhead["row"]("int4", 10, found) == "| int4 | 10 | 3 | 40.0 | 4.00 | 10.0 % |"


@pytest.mark.parametrize(
    "asked, said",
    [
        (["int3"], "no type 'int3'"),
        (["--presets", "99"], "from 1 to 11 presets"),
        (["--tokens", "1"], "at least 2 tokens"),
    ],
)
def test_what_cannot_be_measured_is_said(overhead, asked, said, capsys) -> None:
    with pytest.raises(SystemExit):
        overhead["main"](asked)
    assert said in capsys.readouterr().err
