"""benchmarks/gpu.py on what there is here: it runs through, says what it did and leaves JSON."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parent.parent / "benchmarks" / "gpu.py"


@pytest.fixture(scope="module")
def gpu():
    spec = importlib.util.spec_from_file_location("gpu_benchmark", PATH)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        yield module


def test_every_part_runs_and_is_written(gpu, tmp_path, capsys):
    out = tmp_path / "gpu.json"
    gpu.main(["--shape", "tiny", "--device", "cpu", "--out", str(out)])
    found = json.loads(out.read_text())
    parts = found["parts"]
    assert set(parts["exact"]["same_tokens"].values()) == {True}
    assert set(parts["widths"]["seconds"]["32"]) == set(map(str, gpu.WIDTHS))
    assert 0 < parts["plain"]["share_of_bandwidth"]
    for part in ("decode", "transformers"):
        assert parts[part]["plain"]["tokens_per_pass"] == 1
        assert parts[part]["PLD"]["tokens_per_pass"] > 2
    assert 0 < parts["decode"]["PLD"]["outside_forward"] < 1
    assert {"device", "driver", "torch", "date"} <= set(found["machine"])
    said = capsys.readouterr()
    assert "random weights; drafts on a forced script" in said.out
    assert said.err.count("s left") == len(gpu.PARTS)


def test_what_is_skipped_or_has_no_time_is_left_out(gpu, tmp_path, capsys, monkeypatch):
    out = tmp_path / "gpu.json"
    skip = [part for part in gpu.PARTS if part != "widths"]
    gpu.main(["--shape", "tiny", "--device", "cpu", "--out", str(out), "--skip", *skip])
    parts = json.loads(out.read_text())["parts"]
    assert parts["widths"] and not any(parts[name] for name in skip)
    monkeypatch.setitem(gpu.SHAPES, "smollm2-135m", gpu.SHAPES["tiny"])
    gpu.main(["--shape", "smollm2-135m", "--device", "cpu", "--out", str(out), "--seconds", "0",
              "--skip", "exact", "bandwidth"])  # fmt: skip
    assert json.loads(out.read_text())["parts"]["widths"] == {"left_out": "no time"}
    assert "widths: left out" in capsys.readouterr().out
