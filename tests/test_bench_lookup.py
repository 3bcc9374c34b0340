"""Lookups side by side: the decoder's own loop counts, and the tables say what it counted."""

import json

import pytest
import tiny
from test_bench import HOSTILE, Silent, Tags

from pld_core.bench import lookup_report, lookups
from pld_core.bench.lookups import Cost, Worth, behind, category_of, costs, made_up, rules, worths
from pld_core.bench.progress import Progress
from pld_core.cli import EXAMPLES, main
from pld_core.events import dumps
from pld_core.lookup import POLICIES
from pld_core.peers import PEERS
from pld_core.prompting import Ask
from pld_core.replay import what_if
from pld_core.settings import Settings
from pld_core.trace import lanes, read

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


def test_every_rule_is_replayed_by_the_decoders_loop(traces):
    wanted = rules(3, 1, 10)
    found = worths(wanted, traces, bar())
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
    assert (recent.passes, recent.unmatched) == (replayed.passes, replayed.unmatched_passes)
    assert recent.tokens_per_pass > 2


def test_trees_are_replayed_as_trees(traces):
    wanted = [rule for rule in rules(3, 1, 10) if rule.name.startswith(DEFAULT)]
    found = [worth for worth in worths(wanted, traces, bar()) if worth.category == "all"]
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


def test_a_lookup_is_timed_at_every_length():
    wanted = [rule for rule in rules(3, 1, 10) if rule.equal]
    now = [0.0]

    def clock():
        now[0] += 1.0
        return now[0]

    found = list(costs(wanted, (64, 128), bar(), clock))
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
