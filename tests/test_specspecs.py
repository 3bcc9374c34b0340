"""Parquet tables in the schema of specspecs: out, back, and from others."""

import json
import sys

import pytest

from pld_core import specspecs, trace
from pld_core.cli import main
from pld_core.events import Pass, Prefill, read
from tests.conftest import ROOT

EXAMPLE = ROOT / "static" / "examples" / "retell-a-story.ndjson"


def ids_in_brackets(ids):
    return [f"[{i}]" for i in ids]


def events():
    return list(read(EXAMPLE.read_text("utf-8").splitlines()))


def test_without_pyarrow_it_is_one_sentence(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["convert", str(EXAMPLE), str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert said == "pld_core: Parquet needs the package pyarrow: pip install pyarrow.\n"


def test_a_trace_comes_back_whole(tmp_path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: Parquet is not tested")
    back = tmp_path / "back.ndjson"
    assert main(["convert", str(EXAMPLE), str(tmp_path / "tables")]) == 0
    assert main(["convert", str(tmp_path / "tables"), str(back)]) == 0
    want = trace.read(EXAMPLE.read_text("utf-8").splitlines())
    assert trace.read(back.read_text("utf-8").splitlines()) == want


def test_the_tables_say_what_specspecs_reads_in_them(tmp_path) -> None:
    pq = pytest.importorskip(
        "pyarrow.parquet", reason="pyarrow is not installed: Parquet is not tested"
    )
    specspecs.write(events(), tmp_path)
    (drafts,) = tmp_path.glob("drafts-*.parquet")
    (sequences,) = tmp_path.glob("sequences-*.parquet")
    rows = pq.read_table(drafts).to_pylist()
    for lane, found in trace.lanes(events()).items():
        steps = [row for row in rows if row["sequence_id"] == lane]
        generated = []
        for number, step in enumerate(steps):
            # how its viewer puts the text together: the first draft token is an overlap
            generated += step["draft_tokens"][1 if number else 0 : step["acceptance_length"]]
            generated.append(step["emitted_token"])
            assert step["k"] == len(step["draft_tokens"]) == len(step["acceptances"])
            assert sum(step["acceptances"]) == step["acceptance_length"]
        assert generated == found.ids
    prompts = {row["sequence_id"]: row for row in pq.read_table(sequences).to_pylist()}
    assert prompts["pld"]["prompt_len"] == len(prompts["pld"]["prompt_token_ids"])
    names = ["run_id", "sequence_id", "t", "prompt_token_ids", "prompt_len", "pld_event"]
    assert pq.read_schema(sequences).names == names


def test_tables_of_others_come_back_without_what_they_lack(tmp_path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: Parquet is not tested")
    import pyarrow.parquet as pq

    specspecs.write(events(), tmp_path)
    for file in tmp_path.glob("*.parquet"):
        pq.write_table(pq.read_table(file).drop_columns([specspecs.EXTRA]), file)
    found = trace.lanes(specspecs.read(tmp_path, ids_in_brackets))
    want = trace.lanes(events())
    assert pa and {lane: t.ids for lane, t in found.items()} == {
        lane: t.ids for lane, t in want.items()
    }
    for lane, got in found.items():
        assert list(got.laws()) == []
        assert len(got.steps) == len(want[lane].steps)
        assert all(p.match is None for p in got.passes)
        assert isinstance(got.prefill, Prefill) and isinstance(got.passes[0], Pass)


@pytest.mark.parametrize("fault", ["empty", "broken", "foreign"])
def test_a_folder_of_anything_else_is_one_sentence(fault, tmp_path, capsys) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: Parquet is not tested")
    import pyarrow.parquet as pq

    for name in ("sequences", "drafts") if fault != "empty" else ():
        file = tmp_path / f"{name}-0.parquet"
        if fault == "broken":
            file.write_text(json.dumps("no Parquet"))
        else:
            pq.write_table(pa.table({"a": [1]}), file)
    assert main(["convert", str(tmp_path), str(tmp_path / "out.ndjson")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("pld_core: ") and said.count("\n") == 1
