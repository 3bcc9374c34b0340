"""Engines side by side: they answer alike, take turns, fail alone; what was measured is kept
whatever happens, and what is shown of it runs nothing."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
import tiny
import torch
from families import ENCODER_DECODER, SMALL
from transformers import GenerationConfig, T5Config, T5ForConditionalGeneration

from pld_core.bench import page, report
from pld_core.bench.engines import LOCAL, Engine, EngineError, Run, local
from pld_core.bench.measure import measure
from pld_core.bench.numbers import ALL, cells, lines
from pld_core.bench.progress import Progress
from pld_core.bench.records import Measured, Records
from pld_core.cli import main
from pld_core.models.model import Model
from pld_core.prompting import Ask
from pld_core.rows import Row, read_rows
from pld_core.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
ROWS = [Row(f"row {i}", "ab"[i % 2], Ask(f"the red fox and the grey fox {i}")) for i in range(3)]


class Silent(io.StringIO):
    """A standard error that is no terminal."""


def bar():
    return Progress(Silent())


def run(text="abc", tokens=4, passes=2, seconds=1.0, ids=None, at_first=1, unsaid=""):
    return Run(text, ids, tokens, passes, 0.5, seconds, at_first, unsaid)


# Engines that run here.


@pytest.fixture(scope="module")
def model():
    return tiny.model("Llama", 3)


def test_every_local_engine_answers_alike_and_counts_its_passes(model):
    settings = Settings(max_new_tokens=24)
    engines = local(list(LOCAL), settings, model, lambda: model)
    assert [engine.name for engine in engines] == list(LOCAL)
    row = Row("one", "chat", Ask("the red fox, the red fox, the red", chat=False))
    runs = {engine.name: engine.run(row) for engine in engines}
    plain = runs["ours-plain"]
    assert plain.tokens == plain.passes == 24
    for name, found in runs.items():
        assert (found.ids, found.text) == (plain.ids, plain.text), name
        assert found.tokens == 24
        assert (found.passes == 24) if name.endswith("plain") else (found.passes <= 24)
        assert found.prefill_seconds > 0
        assert found.decode_seconds > 0
        assert found.at_first == 1


def test_an_encoder_decoder_answers_alike():
    words = tiny.tokenizer()
    _, _, sizes = ENCODER_DECODER["T5"]
    torch.manual_seed(0)
    config = T5Config(**{**SMALL, **sizes, "vocab_size": len(words), "eos_token_id": None})
    network = T5ForConditionalGeneration(config).eval()
    network.generation_config = GenerationConfig(decoder_start_token_id=0)
    made = Model("tiny T5", "test", network, words)
    row = Row("one", "chat", Ask("the red fox, the red fox", chat=False))
    engines = local(list(LOCAL), Settings(max_new_tokens=12), made, lambda: made)
    runs = [engine.run(row) for engine in engines]
    assert [run.ids for run in runs] == [runs[0].ids] * len(LOCAL)
    assert [run.tokens for run in runs] == [12] * len(LOCAL)


def test_transformers_is_loaded_only_where_it_runs(model):
    def eager():
        raise AssertionError("nobody asked for transformers")

    made = local(["ours-pld", "ours-plain"], Settings(), model, eager)
    assert [engine.name for engine in made] == ["ours-plain", "ours-pld"]


def test_an_end_token_is_counted_and_is_no_text(model):
    row = Row("one", "chat", Ask("the red fox, the red fox, the red", chat=False))
    (engine,) = local(["ours-plain"], Settings(max_new_tokens=24), model, None)
    free = engine.run(row)
    config = model.network.generation_config
    config.eos_token_id = free.ids[5]
    try:
        ended = {e.name: e.run(row) for e in local(list(LOCAL), Settings(), model, lambda: model)}
    finally:
        config.eos_token_id = None
    at = free.ids.index(free.ids[5])
    for found in ended.values():
        assert found.ids == free.ids[: at + 1]
        assert free.text.startswith(found.text)
        assert len(found.text) < len(free.text)


# Turns.


def test_engines_take_turns_after_a_warm_up_every_other_time_backwards(tmp_path):
    asked = []

    def engine(name):
        return Engine(name, lambda row: asked.append((row.name, name)) or run())

    records = Records(tmp_path / "r.jsonl", {})
    measure([engine("a"), engine("b")], ROWS[:2], 3, records, bar())
    ab = ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert asked == [(row.name, name) for row in ROWS[:2] for name in ab]
    kept = list(records.of(ROWS[:2], ["a", "b"], 3))
    assert [(m.row, m.engine, m.turn) for m in kept] == [
        (row.name, name, turn) for row in ROWS[:2] for name in "ab" for turn in (1, 2, 3)
    ]


def test_nobody_answers_while_a_server_still_keeps_the_machine_busy(tmp_path, monkeypatch):
    happened = []
    monkeypatch.setattr(
        "pld_core.bench.measure.sleep", lambda seconds: seconds and happened.append(seconds)
    )

    def broken(row):
        happened.append("broken")
        raise EngineError("The server is gone.")

    engines = [
        Engine("ours", lambda row: happened.append("ours") or run()),
        Engine("server", lambda row: happened.append("server") or run(), rest=1.5),
        Engine("broken", broken, rest=0.5),
    ]
    measure(engines, ROWS[:1], 3, Records(tmp_path / "r.jsonl", {}), bar())
    ours, server = ["ours"], ["server", 1.5]
    assert happened == ours + server + ["broken", 0.5] + server + ours * 2 + server * 2 + ours


def test_what_was_measured_is_kept_when_somebody_stops_the_wait_for_a_quiet_machine(
    tmp_path, monkeypatch
):
    def stop(seconds):
        if len(list(records.of(ROWS[:1], ["server"], 1))):
            raise KeyboardInterrupt

    monkeypatch.setattr("pld_core.bench.measure.sleep", stop)
    records = Records(tmp_path / "r.jsonl", {})
    with pytest.raises(KeyboardInterrupt):
        measure([Engine("server", lambda row: run(), rest=1.5)], ROWS[:1], 3, records, bar())
    assert Records(tmp_path / "r.jsonl", {}).has(ROWS[0], "server", 1)


def test_a_row_that_fails_is_one_sentence_and_the_rest_goes_on(tmp_path):
    def broken(row):
        if row is ROWS[1]:
            raise EngineError("The server broke off in the middle of its answer.")
        return run()

    def bug(row):
        raise KeyError("secret")

    engines = [Engine("ours-plain", lambda row: run()), Engine("b", broken), Engine("c", bug)]
    records = Records(tmp_path / "r.jsonl", {})
    progress = bar()
    measure(engines, ROWS, 3, records, progress)
    assert progress.seconds_left == 0
    found = cells(records.of(ROWS, ["ours-plain", "b", "c"], 3))
    assert [(cell.row, cell.engine, len(cell.runs)) for cell in found] == [
        ("row 0", "ours-plain", 3), ("row 0", "b", 3),
        ("row 1", "ours-plain", 3),
        ("row 2", "ours-plain", 3), ("row 2", "b", 3),
    ]  # fmt: skip
    made = report.Report("", "", {}, {}, found, records.failures())
    assert made.failed == [
        "row 0, c: The engine failed (KeyError).",
        "row 1, b: The server broke off in the middle of its answer.",
        "row 1, c: The engine failed (KeyError).",
        "row 2, c: The engine failed (KeyError).",
    ]
    assert all(said in report.markdown(made) for said in made.failed)


# Records.


def test_a_run_goes_on_where_it_was_cut(tmp_path):
    file = tmp_path / "r.jsonl"
    asked = []

    def engine(row):
        if len(asked) == 5:
            raise KeyboardInterrupt
        asked.append(row.name)
        return run(seconds=float(len(asked)))

    with pytest.raises(KeyboardInterrupt):
        measure([Engine("a", engine)], ROWS, 3, Records(file, {"dtype": "float32"}), bar())
    with file.open("a") as lines_:
        lines_.write('{"type": "run", "key": "row')  # the power went
    before = file.read_text()
    asked = [None] * 10
    records = Records(file, {"dtype": "float32"})
    assert (records.resumed, records.anew) == (3, [])
    measure([Engine("a", engine)], ROWS, 3, records, bar())
    assert asked[10:] == ["row 1"] * 4 + ["row 2"] * 4
    assert file.read_text().startswith(before)
    again = Records(file, {"dtype": "float32"})
    kept = list(again.of(ROWS, ["a"], 3))
    assert [m.turn for m in kept] == [1, 2, 3] * 3
    assert [m.run["decode_seconds"] for m in kept][:3] == [2.0, 3.0, 4.0]


def test_another_setup_starts_anew_and_says_why(tmp_path):
    file = tmp_path / "r.jsonl"
    old = {"dtype": "float32", "hardware": "x, 2 threads", "engines": {"a": {"k": "10"}}}
    Records(file, old).add(ROWS[0], "a", 1, run().to_json())
    for new, why in [
        ({**old, "dtype": "bfloat16"}, "dtype was float32, now bfloat16"),
        ({**old, "hardware": "x, 1 threads"}, "hardware was x, 2 threads, now x, 1 threads"),
        ({**old, "engines": {"a": {"k": "9"}}}, "a was {'k': '10'}, now {'k': '9'}"),
    ]:
        copy = tmp_path / "copy.jsonl"
        copy.write_text(file.read_text())
        records = Records(copy, new)
        assert records.anew == [why]
        assert not records.has(ROWS[0], "a", 1)
        assert copy.read_text().startswith(file.read_text())
        records.add(ROWS[0], "a", 1, run(tokens=7).to_json())
        (kept,) = Records(copy, new).of(ROWS, ["a"], 3)
        assert kept.run["tokens"] == 7
    more = Records(file, {**old, "engines": {**old["engines"], "b": {}}})
    assert (more.anew, more.resumed) == ([], 1)


def test_two_prompts_of_one_name_are_two_rows(tmp_path):
    twins = [Row("1", "x", Ask("one")), Row("1", "x", Ask("two"))]
    records = Records(tmp_path / "r.jsonl", {})
    records.add(twins[0], "a", 1, run().to_json())
    assert not records.has(twins[1], "a", 1)


# Numbers.


def measured(engine, row, turn, **more):
    return Measured(row, row, "cat", engine, turn, run(**more).to_json())


def test_numbers_by_hand():
    found = cells(
        [
            *(measured("ours-plain", "r", t, tokens=11, passes=11, seconds=s, ids=[1, 2])
              for t, s in ((1, 2.0), (2, 1.0), (3, 4.0))),
            *(measured("b", "r", t, tokens=11, passes=4, seconds=s, ids=[1, 2, 0])
              for t, s in ((1, 1.0), (2, 1.0), (3, 1.0))),
            measured("b", "alone", 1, tokens=101, passes=101, seconds=1.0),
        ],
        eos=[0],
    )  # fmt: skip
    plain, other = lines(found)
    assert (plain.rate.low, plain.rate.middle, plain.rate.high) == (3.75, 5.0, 7.5)
    assert plain.against.middle == 1.0
    assert other.tokens_per_pass == (3 * 11 + 101) / (3 * 4 + 101)
    # repeat by repeat on the row that both answered: 10/1 over 10/2, 10/1 and 10/4
    assert (other.against.low, other.against.middle, other.against.high) == (1.5, 2.0, 3.0)
    assert (other.same, other.compared, other.rows) == (1, 1, 2)


def test_what_an_engine_does_not_say_is_no_number():
    found = cells(
        [measured("b", "r", t, tokens=None, passes=None, unsaid="it does not say") for t in (1, 2)]
    )
    (line,) = lines(found)
    assert (line.tokens_per_pass, line.rate, line.against) == (None, None, None)
    made = report.Report("", "", {}, {}, found, [])
    assert "b: it does not say." in report.markdown(made)
    assert report.markdown(made).splitlines()[2].count(" - ") == 4


def test_markdown_and_page_show_the_same_numbers():
    found = cells([measured(engine, "r", t) for engine in ("ours-plain", "b") for t in (1, 2, 3)])
    made = report.Report("", "", {}, {}, found, [])
    html = page.benchmark(made)
    for line in report.markdown(made).splitlines()[2:]:
        shown = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(shown) == 7
        assert all(f">{cell}</td>" in html for cell in shown)


@pytest.mark.parametrize(
    "more", [{"tokens": 1}, {"seconds": 0.0}, {"at_first": None}, {"at_first": 4}]
)
def test_an_answer_that_came_at_once_has_no_speed(more):
    (line,) = lines(cells([measured("ours-plain", "r", t, **more) for t in (1, 2, 3)]))
    assert (line.rate, line.against) == (None, None)
    assert line.tokens_per_pass is not None


def test_tokens_of_the_first_pass_are_not_decoded():
    (line,) = lines(cells([measured("b", "r", 1, tokens=12, at_first=2, seconds=2.0)]))
    assert line.rate.middle == 5.0


def test_texts_are_compared_by_ids_where_both_give_them():
    def same(**other):
        found = cells([measured("ours-plain", "r", 1, text="ab", ids=[1, 2]),
                       measured("b", "r", 1, **other)], eos=[0])  # fmt: skip
        return found[1].same

    assert same(text="other", ids=[1, 2])
    assert same(text="other", ids=[1, 2, 0])
    assert not same(text="ab", ids=[1, 3])
    assert same(text="ab", ids=None)
    assert not same(text="abc", ids=None)


# Progress.


def test_time_left_is_what_steps_of_a_kind_took():
    now = [0.0]
    out = Silent()
    progress = Progress(out, lambda: now[0])
    progress.plan("slow", 3)
    progress.plan("quick", 4)
    assert progress.seconds_left is None
    for kind, seconds in (("slow", 60.0), ("quick", 1.0)):
        progress.begin(kind)
        now[0] += seconds
        progress.end(kind)
    assert progress.seconds_left == 2 * 60 + 3 * 1
    progress.skip("slow", 1)
    progress.line("row 1")
    assert out.getvalue() == "2/6, 1:03 left, row 1\n"


def test_a_terminal_sees_a_bar():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out = Terminal()
    progress = Progress(out, lambda: 0.0)
    progress.plan("a", 2)
    progress.begin("a \x1b[31m\nrow")
    progress.end("a")
    progress.line("a \x1b[31m\nrow")
    assert out.getvalue().count("\n") == 1
    assert out.getvalue().endswith("1/2, 0:00 left, a  [31m row\n")
    out.truncate(0)
    progress.begin("a \x1b[31m\nrow")
    progress.clear()
    assert "\r[" in out.getvalue()
    assert "\x1b" not in out.getvalue()
    assert "\n" not in out.getvalue()


# The page.


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = set(), set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attributes)

    def handle_data(self, data):
        self.text += data


HOSTILE = "</td></style><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp; ${x} |\n|"


def test_hostile_texts_are_text_wherever_they_stand():
    row = Row(HOSTILE, HOSTILE, Ask(HOSTILE))
    found = cells(
        [Measured("k", row.name, row.category, engine, turn,
                  run(text=HOSTILE, ids=None, unsaid=HOSTILE).to_json())
         for engine in ("ours-plain", HOSTILE) for turn in (1, 2, 3)]
    )  # fmt: skip
    setup = {"model": HOSTILE, "engines": {HOSTILE: {HOSTILE: HOSTILE}}}
    made = report.Report(HOSTILE, HOSTILE, setup, {"k": HOSTILE}, found, [])
    html = page.benchmark(made)
    read = Tags(html)
    assert not read.tags & {"script", "img", "iframe", "object", "link", "a", "form"}
    assert not [name for name in read.attributes if name.startswith("on")]
    assert "src" not in read.attributes
    assert "href" not in read.attributes
    assert read.text.count("<script>alert(1)</script>") > 10
    assert len(html) < 100_000
    width = {line.count(" | ") for line in report.markdown(made).splitlines() if line[:2] == "| "}
    assert width == {6}


# The command.


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tiny"
    made = tiny.model("Llama", 3, limit=4_000)
    made.network.save_pretrained(path)
    made.tokenizer.save_pretrained(path)
    return path


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("PLD_MODEL", raising=False)
    monkeypatch.delenv("PLD_DTYPE", raising=False)
    monkeypatch.chdir(tmp_path)


def prompts(path, count):
    path.write_text(
        "".join(
            json.dumps({"id": f"r{i}", "category": "ab"[i % 2], "prompt": f"a fox and a fox {i}"})
            + "\n"
            for i in range(count)
        )
    )
    return str(path)


def call(folder, *more):
    return ["bench", "--model", str(folder), "--max-new-tokens", "6", "--rounds", "3",
            "--engines", "ours-plain,ours-pld", *more]  # fmt: skip


def recorded(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_command_prints_a_table_and_writes_three_files(folder, tmp_path, capsys):
    rows = prompts(tmp_path / "rows.jsonl", 2)
    with open(rows, "a") as file:
        file.write('{"nothing": 1}\n')
    assert main(call(folder, "--rows", rows, "--engines", ",".join(LOCAL))) == 0
    said = capsys.readouterr()
    assert f"Line 3 of {rows} is not a prompt in a known shape: left out." in said.err
    table = said.out.splitlines()
    assert table[0].startswith("| rows ")
    assert [line.split("|")[2].strip() for line in table[2:]] == list(LOCAL) * 3
    assert all(line.split("|")[7].strip() in ("1/1", "2/2") for line in table[2:])
    data = json.loads((tmp_path / "bench.json").read_text())
    assert len(data["cells"]) == 2 * 5
    assert all(len(cell["runs"]) == 3 for cell in data["cells"])
    assert data["command"].startswith("python -m pld_core bench --model ")
    assert {line["category"] for line in data["lines"]} == {"a", "b", ALL}
    assert "script" not in Tags((tmp_path / "bench.html").read_text()).tags

    lines_before = recorded(tmp_path / "bench.jsonl")
    assert main(call(folder, "--rows", rows, "--engines", ",".join(LOCAL))) == 0
    said = capsys.readouterr()
    assert "holds 30 measurements of this setup; going on from there." in said.err
    assert recorded(tmp_path / "bench.jsonl") == lines_before
    assert said.out.splitlines() == table

    assert main(call(folder, "--rows", rows, "--max-new-tokens", "5")) == 0
    assert "so this starts anew: max_new_tokens was 6, now 5." in capsys.readouterr().err


def test_a_killed_run_goes_on(folder, tmp_path, capsys):
    rows = prompts(tmp_path / "rows.jsonl", 12)
    log = tmp_path / "bench.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", "pld_core", *call(folder, "--rows", rows)],
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
    assert main(call(folder, "--rows", rows)) == 0
    assert "going on from there" in capsys.readouterr().err
    assert log.read_text().startswith(before)
    runs = []
    for line in log.read_text().splitlines():
        try:
            data = json.loads(line)
        except ValueError:
            continue  # cut in the middle by the kill
        if data["type"] == "run":
            runs.append((data["key"], data["engine"], data["turn"]))
    assert len(runs) == len(set(runs)) == 12 * 2 * 3


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--rounds", "2"], "A median with a spread takes at least 3 rounds."),
        (["--engines", "ours-plain,theirs"], "There is no engine called 'theirs'"),
        (["--limit", "0"], "--limit is a whole number from 1 on, not 0."),
        (["run.ndjson"], "TRACE files are for --lookup."),
        (["--llama-server", "127.0.0.1:1"], "The server 127.0.0.1:1 cannot be reached."),
        (["--openai", "http://"], "'http://' is no address of a server."),
        (["--rows", "nothing.jsonl"], "nothing.jsonl cannot be read"),
        (["--lookup", "nothing.ndjson"], "There is no recorded run to replay."),
    ],
)
def test_bad_calls_are_one_sentence(more, said, folder, capsys):
    assert main(call(folder, *more)) == 1
    assert said in capsys.readouterr().err


def test_what_a_file_of_rows_does_not_give_is_said(tmp_path):
    file = tmp_path / "question.jsonl"
    good = {"question_id": 1, "category": "qa", "turns": ["one", "two"]}
    file.write_text("\n".join([json.dumps(good), "[1]", "{", json.dumps({**good, "turns": ["x"]})]))
    said = []
    assert [row.ask.prompt for row in read_rows(file, said.append)] == ["one", "x"]
    assert said == [
        f"Line 2 of {file} is not a prompt in a known shape: left out.",
        f"Line 3 of {file} is not a prompt in a known shape: left out.",
        f"Rows of {file} with further turns: 1. Only the first turn of each is asked.",
    ]
