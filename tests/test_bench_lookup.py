"""Lookups side by side: the decoder's own loop counts, the tables say what it counted, and what
was measured is kept whatever happens."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
from test_bench import HOSTILE, ROWS, Silent, Tags, run

from pld_core.bench import code, lookup_report, lookups
from pld_core.bench.lookup_records import Cost, LookupRecords
from pld_core.bench.lookups import Worth, behind, category_of, costs, made_up, rules, worths
from pld_core.bench.progress import Progress
from pld_core.bench.records import Records
from pld_core.cli import EXAMPLES, main
from pld_core.events import dumps
from pld_core.lookup import POLICIES
from pld_core.peers import PEERS
from pld_core.prompting import Ask
from pld_core.replay import what_if
from pld_core.settings import Settings
from pld_core.trace import lanes, read

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = Settings().policy
MODEL = tiny.model("Llama", 3)


@pytest.fixture(scope="module")
def traces():
    """Two answers that a model gave, and one that repeats its prompt."""
    asks = ("the red fox and the grey fox", "fox, fox, fox")
    settings = Settings(max_new_tokens=40, adaptive=False)
    made = [lanes(MODEL.run(Ask(ask, chat=False), settings, plain=False))["pld"] for ask in asks]
    copied = (EXAMPLES / "rename-in-code.ndjson").read_text("utf-8").splitlines()
    return [("model", made[0]), ("model", made[1]), ("copy", read(copied)["pld"])]


def bar():
    return Progress(Silent())


@pytest.fixture
def records(tmp_path):
    return LookupRecords(tmp_path / "r.jsonl", {})


def test_every_rule_is_replayed_by_the_decoders_loop(traces, records):
    wanted = rules(3, 1, 10)
    found = worths(wanted, traces, records, bar())
    assert [w.category for w in found] == sorted(
        w.category for w in found if w.category != "all"
    ) + ["all"] * len(wanted)
    for rule in wanted:
        copy, model, every = [w for w in found if w.rule == rule.label]
        assert (copy.category, model.category, every.category) == ("copy", "model", "all")
        assert (copy.runs, model.runs, every.runs) == (1, 2, 3)
        assert every.tokens == sum(len(trace.ids) for _, trace in traces)
        assert (every.tokens, every.passes) == (
            copy.tokens + model.tokens,
            copy.passes + model.passes,
        )
        assert every.passes <= every.tokens
        # an answer may end inside its last draft, whose pass then adds no token of its own
        assert 0 <= every.accepted - (every.tokens - every.passes) <= every.runs
    recent = next(w for w in found if w.rule == "recent, n 3, k 10" and w.category == "copy")
    replayed = what_if(traces[2][1], Settings(k=10, policy="recent", adaptive=False)).numbers()
    assert (recent.passes, recent.unmatched) == (replayed.passes, replayed.undrafted_passes)
    assert recent.tokens_per_pass > 2


def test_trees_are_replayed_as_trees(traces, records):
    wanted = [rule for rule in rules(3, 1, 10) if rule.name.startswith(DEFAULT)]
    found = [worth for worth in worths(wanted, traces, records, bar()) if worth.category == "all"]
    passes = [worth.passes for worth in found]
    assert passes == sorted(passes, reverse=True)
    assert found[-1].passes < found[0].passes
    assert found[-1].drafted_per_pass > found[0].drafted_per_pass


def test_all_of_ours_and_all_peers_stand_in_the_table():
    names = [rule.name for rule in rules(3, 1, 10)]
    trees = {f"{DEFAULT}, {branches} branches" for branches in (2, 4, 8)}
    assert set(names) == {*POLICIES, *trees, *PEERS}
    assert names[0] == DEFAULT
    assert rules(3, 1, 10, "vote")[0].name == "vote"


def test_a_lookup_is_timed_at_every_length(records):
    wanted = [rule for rule in rules(3, 1, 10) if rule.equal]
    now = [0.0]

    def clock():
        now[0] += 1.0
        return now[0]

    found = costs(wanted, (64, 128), records, bar(), clock)
    assert [(c.rule, c.context) for c in found] == [
        (rule.label, length) for length in (64, 128) for rule in wanted
    ]
    assert {(c.token, c.lookup) for c in found} == {(1 / 64, 1.0), (1 / 128, 1.0)}


def test_the_made_up_text_is_the_same_every_time_and_repeats_itself():
    text = made_up(4000)
    assert text == made_up(4000)
    assert len(text) == 4000
    grams = [tuple(text[i : i + 8]) for i in range(len(text) - 8)]
    assert 0.1 < 1 - len(set(grams)) / len(grams) < 0.5


class Counting:
    """A rule's lookups: how many were made, and an interrupt in place of one."""

    def __init__(self, rule, interrupted_at=None):
        self.made = 0
        self._rule = rule
        self._interrupted_at = interrupted_at

    def rule(self):
        return replace(self._rule, make=self._make)

    def _make(self, eos):
        self.made += 1
        if self.made == self._interrupted_at:
            raise KeyboardInterrupt
        return self._rule.make(eos)


def test_timing_goes_on_where_it_was_cut(tmp_path):
    file, (first, second, *_) = tmp_path / "r.jsonl", rules(3, 1, 10)
    cut = Counting(first, interrupted_at=2)
    ticks = iter(range(10**6)).__next__
    with pytest.raises(KeyboardInterrupt):
        costs([cut.rule(), second], (64, 128), LookupRecords(file, {"a": 1}), bar(), ticks)
    with file.open("a") as lines:
        lines.write('{"type": "cost", "rule": "nea')  # the power went
    before = file.read_text()
    again, other = Counting(first), Counting(second)
    records = LookupRecords(file, {"a": 1})
    assert (records.resumed, records.anew) == (2, [])
    progress = bar()
    found = costs([again.rule(), other.rule()], (64, 128), records, progress, lambda: 0.0)
    assert (again.made, other.made) == (1, 1)
    assert progress.seconds_left is not None
    assert file.read_text().startswith(before)
    assert [(c.context, c.lookup) for c in found] == [(64, 1), (64, 1), (128, 0.0), (128, 0.0)]
    assert costs([first, second], (64, 128), LookupRecords(file, {"a": 1}), bar(), None) == found


def test_replays_go_on_where_they_were_cut(traces, tmp_path):
    file, (first, second, *_) = tmp_path / "r.jsonl", rules(3, 1, 10)
    whole = worths([first, second], traces, LookupRecords(tmp_path / "whole.jsonl", {}), bar())
    cut = Counting(second, interrupted_at=2)
    with pytest.raises(KeyboardInterrupt):
        worths([first, cut.rule()], traces, LookupRecords(file, {}), bar())
    again, other = Counting(first), Counting(second)
    records = LookupRecords(file, {})
    assert records.resumed == 4
    assert worths([again.rule(), other.rule()], traces, records, bar()) == whole
    assert (again.made, other.made) == (0, 2)


def test_a_run_is_known_by_what_it_holds(traces, tmp_path):
    file, (rule, *_) = tmp_path / "r.jsonl", rules(3, 1, 10)
    (_, one), (_, two), _ = traces
    worths([rule], [("qa", one)], LookupRecords(file, {}), bar())
    (renamed,) = worths([rule], [("chat", one)], LookupRecords(file, {}), bar())
    (other,) = worths([rule], [("qa", two)], LookupRecords(file, {}), bar())
    assert (renamed.category, renamed.tokens) == ("chat", len(one.ids))
    assert (other.runs, other.tokens) == (1, len(two.ids))
    assert LookupRecords(file, {}).resumed == 2


def test_lookups_and_engines_share_a_file_and_each_goes_on(tmp_path):
    file = tmp_path / "r.jsonl"
    Records(file, {"model": "x"}).add(ROWS[0], "a", 1, run().to_json())
    LookupRecords(file, {"code": "1"}).add(Cost("recent", True, 64, 1.0, 2.0))
    engines, found = Records(file, {"model": "x"}), LookupRecords(file, {"code": "1"})
    assert (engines.resumed, engines.anew) == (found.resumed, found.anew) == (1, [])
    with file.open("a") as lines:
        lines.write('{"type": "cost", "rule": "recent"}\n{"type": "replay", "rule": []}\n[]\n')
    assert LookupRecords(file, {"code": "1"}).resumed == 1
    anew = LookupRecords(file, {"code": "2"})
    assert (anew.resumed, anew.anew) == (0, ["code was 1, now 2"])
    assert Records(file, {"model": "x"}).resumed == 1


def test_the_code_of_a_lookup_counts_and_that_of_the_page_does_not(tmp_path):
    package = tmp_path / "pld_core"
    shutil.copytree(ROOT / "pld_core", package, ignore=shutil.ignore_patterns("__pycache__"))
    assert code.fingerprint(package) == code.fingerprint()
    (package / "page" / "words.py").write_text("")
    assert code.fingerprint(package) == code.fingerprint()
    with (package / "lookup" / "nearest.py").open("a") as file:
        file.write("\n")
    assert code.fingerprint(package) != code.fingerprint()


@pytest.mark.parametrize(
    ("name", "category"),
    [("qa-32.ndjson", "qa"), ("math_reasoning-4.ndjson", "math_reasoning"),
     ("write-freely.ndjson", "write-freely"), ("7.ndjson", "7"), ("run12.ndjson", "run")],
)  # fmt: skip
def test_a_category_is_a_files_name_without_its_number(name, category, tmp_path):
    assert category_of(tmp_path / name) == category


def test_where_a_peer_is_ahead_is_said():
    found = [
        Worth("recent", True, True, "qa", 2, 20, 10),
        Worth("vote", True, True, "qa", 2, 20, 8),
        Worth("theirs", False, True, "qa", 2, 20, 5),
        Worth("slower", False, True, "qa", 2, 20, 9),
    ]
    assert behind(found) == [
        "qa (2 runs): theirs has 4.00 tokens per pass, recent 2.00 (best of ours: vote, 2.50), "
        "2 rules in all."
    ]
    assert behind(found[:2]) == []


def test_the_reports_hold_every_number_and_run_nothing():
    found = lookup_report.LookupReport(
        HOSTILE, HOSTILE, {HOSTILE: HOSTILE},
        [Cost(rule, own, length, 2e-6, 3e-6 * length)
         for rule, own in (("recent", True), (HOSTILE, False)) for length in (1024, 4096)],
        [Worth(rule, own, True, category, 1, 30, 12, 3)
         for category in (HOSTILE, "all") for rule, own in (("recent", True), (HOSTILE, False))],
    )  # fmt: skip
    html = lookup_report.html(found)
    assert not Tags(html).tags & {"script", "img", "a", "link"}
    assert "2.50" in Tags(html).text
    text = lookup_report.markdown(found)
    assert "3.07 ms" in text
    assert json.loads(json.dumps(lookup_report.data(found)))["worths"][0]["tokens_per_pass"] == 2.5


def test_the_command_replays_files_and_leaves_out_what_is_none(
    traces, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(lookups, "CONTEXTS", (256, 512))
    monkeypatch.chdir(tmp_path)
    trace = traces[0][1]
    events = [trace.start, *trace.steps, trace.end]
    (tmp_path / "qa-1.ndjson").write_text("".join(f"{dumps(event)}\n" for event in events))
    (tmp_path / "bad.ndjson").write_text("{}\n")
    assert main(["bench", "--lookup", "qa-1.ndjson", "bad.ndjson", "gone.ndjson", "-k", "7"]) == 0
    said = capsys.readouterr()
    assert "bad.ndjson is left out: " in said.err
    assert "gone.ndjson is left out: " in said.err
    lines = said.out.splitlines()
    assert lines[0].split("|")[2].strip() == "qa (1)"
    assert lines[2].split("|")[1].strip() == f"{DEFAULT}, n 3, k 7"
    data = json.loads((tmp_path / "bench.json").read_text())
    assert len(data["worths"]) == len(rules(3, 1, 7))
    assert {cost["context"] for cost in data["costs"]} == {256, 512}
    assert "transformers itself, n 2, k 10" in {cost["rule"] for cost in data["costs"]}
    assert (tmp_path / "bench.html").read_text().startswith("<!doctype html>")


@pytest.fixture
def short(monkeypatch, tmp_path):
    monkeypatch.setattr(lookups, "CONTEXTS", (256,))
    monkeypatch.chdir(tmp_path)
    return ["bench", "--lookup", str(EXAMPLES / "rename-in-code.ndjson")]


def test_the_command_goes_on_and_starts_anew_for_another_lookup(short, tmp_path, capsys):
    assert main(short) == 0
    said = capsys.readouterr()
    log = tmp_path / "bench.jsonl"
    before = log.read_text()
    assert main(short) == 0
    again = capsys.readouterr()
    assert f"holds {before.count(chr(10)) - 1} measurements of this setup; going on" in again.err
    assert again.out == said.out
    assert log.read_text() == before
    assert main([*short, "--n-min", "2"]) == 0
    assert "so this starts anew: lookup was " in capsys.readouterr().err
    assert log.read_text().startswith(before)


def test_an_interrupt_says_that_the_same_call_goes_on(short, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(lookups, "worths", interrupted)
    assert main(short) == 130
    assert "What was measured is in bench.jsonl; the same call goes on" in capsys.readouterr().err


def test_a_killed_command_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = ["bench", "--lookup", str(EXAMPLES / "rename-in-code.ndjson")]
    log = tmp_path / "bench.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", "pld_core", *call],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not log.exists() or log.read_text().count("\n") < 9:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = log.read_text()
    assert not (tmp_path / "bench.html").exists()
    monkeypatch.setattr(lookups, "CONTEXTS", (lookups.CONTEXTS[0],))  # the shortest came first
    assert main(call) == 0
    assert "going on from there" in capsys.readouterr().err
    assert log.read_text().startswith(before)
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    made = [(m["rule"], m.get("context") or m["run"]) for m in lines if "rule" in m]
    assert len(made) == len(set(made))
