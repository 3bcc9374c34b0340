"""The exactness battery: silent on a good model, loud on a wrong one; and the files of rows that
it reads."""

import json
from dataclasses import replace

import pytest
import tiny
import torch

from pld_core import accept, cli
from pld_core.cli import main
from pld_core.events import Compared
from pld_core.models import loading
from pld_core.models.model import Model
from pld_core.models.rounding import measure
from pld_core.prompting import Ask
from pld_core.rows import Row, RowsError, read_rows
from pld_core.settings import Settings
from pld_core.trace import Trace
from pld_core.verify import ROWS, checks, verify

SHORT = [
    Row("one", "copy", Ask("the red fox and the grey fox and the red fox", chat=False)),
    Row("two", "chat", Ask("walk to the north gate", "the north")),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tiny"
    model = tiny.model("GPT-2", 3, limit=1024)
    model.network.save_pretrained(path)
    model.tokenizer.save_pretrained(path)
    return path


def outcomes(model, rows=SHORT, wanted=None):
    return list(verify(model, rows, wanted or checks(16)))


def table(printed):
    """The printed table: check -> its counts by column."""
    lines = printed.splitlines()
    top = next(i for i, line in enumerate(lines) if line.split()[:2] == ["rows", "same"])
    return {
        line.split()[0]: dict(zip(lines[top].split(), map(int, line.split()[1:])))
        for line in lines[top + 1 :]
    }


# A good model.


def test_every_check_runs_every_row_in_both_lanes():
    found = outcomes(tiny.model("Llama", 1))
    assert [(o.row.name, o.check.name) for o in found] == [
        (row, check) for row in ("one", "two") for check in ("greedy", "sampled", "penalised", "trees", "strict")
    ]  # fmt: skip
    for o in found:
        assert o.verdict == "same"
        assert o.pld.ids == o.plain.ids
        assert o.plain.start.settings["k"] == 0 < o.pld.start.settings["k"]
        assert o.pld.start.settings["max_new_tokens"] == 16
    greedy, sampled, penalised, trees, strict = (o.pld.start.settings for o in found[:5])
    assert greedy["sampling"]["temperature"] == 0 < sampled["sampling"]["temperature"]
    assert penalised["sampling"]["repetition_penalty"] > 1
    assert trees["branches"] > 1
    assert strict["fixed_width"] == strict["k"] + 1
    assert greedy["fixed_width"] == 0


def test_a_row_s_own_stop_strings_hold():
    model = tiny.model("Llama", 1)
    first = outcomes(model)[0].pld
    stop = first.text[3:5]
    (got, *_) = outcomes(model, [replace(SHORT[0], stop=(stop,))])
    assert (got.pld.end.reason, got.verdict) == ("stop", "same")


def test_the_command_prints_a_table_and_exits_0(folder, capsys):
    rows = folder.parent / "rows.jsonl"
    asks = [{"prompt": "the red fox and the grey fox", "raw": True}, {"prompt": "walk to the gate"}]
    rows.write_text("\n".join(map(json.dumps, asks)), encoding="utf-8")
    arguments = ["verify", "--model", str(folder), "--rows", str(rows), "--max-new-tokens", "20"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{folder}, float32 on ")
    same = {"rows": 2, "same": 2, "tie": 0, "bug": 0, "different": 0, "refused": 0, "failed": 0}
    assert table(printed) == {c: same for c in ("greedy", "sampled", "penalised", "trees", "strict")}


def test_the_built_in_rows_run_where_no_file_is_given(folder, capsys):
    assert main(["verify", "--model", str(folder), "--checks", "greedy", "--max-new-tokens", "6"]) == 0
    assert table(capsys.readouterr().out)["greedy"]["same"] == len(ROWS)


def test_every_option_reaches_the_battery(folder, tmp_path, monkeypatch, capsys):
    asked = []

    def spied(model, rows, wanted):
        asked.append(([row.ask.prompt for row in rows], [(c.name, c.settings) for c in wanted]))
        return iter([])

    loads = []
    monkeypatch.setattr(cli, "verify", spied)
    monkeypatch.setattr(
        loading, "load", lambda *given, **more: loads.append(given[:3]) or tiny.model("Llama", 1)
    )
    files = []
    for name in ("a", "b"):
        files.append(tmp_path / f"{name}.jsonl")
        files[-1].write_text(
            "\n".join(json.dumps({"prompt": f"{name}{i}"}) for i in range(3)), encoding="utf-8"
        )
    rows = [o for file in files for o in ("--rows", str(file))]
    assert main(["verify", *rows]) == 0
    assert main(["verify", *rows, "--limit", "1", "--checks", "strict,greedy"]) == 0
    assert main(["verify", *rows, "--limit", "2", "--max-new-tokens", "7"]) == 0
    assert main(["verify", "--model", "m", "--device", "cpu", "--dtype", "bfloat16"]) == 0
    assert [prompts for prompts, _ in asked] == [
        ["a0", "a1", "a2", "b0", "b1", "b2"], ["a0", "b0"], ["a0", "a1", "b0", "b1"],
        [row.ask.prompt for row in ROWS],
    ]  # fmt: skip
    assert [[name for name, _ in wanted] for _, wanted in asked[:2]] == [
        ["greedy", "sampled", "penalised", "trees", "strict"], ["greedy", "strict"],
    ]  # fmt: skip
    assert [{s.max_new_tokens for _, s in wanted} for _, wanted in asked] == [{128}, {128}, {7}, {128}]
    assert loads[-1] == ("m", "cpu", "bfloat16")


def test_a_row_that_does_not_fit_is_counted_as_refused(folder, tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    asks = [{"prompt": "the red fox " * 400}, {"prompt": "fox"}]
    rows.write_text("\n".join(map(json.dumps, asks)), encoding="utf-8")
    arguments = ["--rows", str(rows), "--checks", "greedy", "--max-new-tokens", "4"]
    assert main(["verify", "--model", str(folder), *arguments]) == 0
    printed = capsys.readouterr().out
    counts = table(printed)["greedy"]
    assert (counts["rows"], counts["same"], counts["refused"]) == (2, 1, 1)
    assert "of 1,024 tokens" in printed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--checks", "greedy,nonsense"], "no check called 'nonsense'"),
        (["--limit", "0"], "--limit"), (["--limit", "-1"], "--limit"),
        (["--max-new-tokens", "0"], "max_new_tokens"),
    ],
    ids=str,
)  # fmt: skip
def test_options_that_cannot_be_meant_are_refused(options, said, folder, capsys):
    assert main(["verify", "--model", str(folder), *options]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert len(printed.err.splitlines()) == 1


# A wrong one.


def accepts_everything(draft, choices):
    return len(draft)


def test_a_decoder_that_accepts_whatever_is_drafted_is_a_bug(folder, capsys, monkeypatch):
    monkeypatch.setattr(accept, "agreement", accepts_everything)
    found = outcomes(tiny.model("Llama", 1))
    bugs = [o for o in found if o.verdict == "bug"]
    assert {o.check.name for o in bugs} >= {"greedy", "strict"}
    assert all(o.compared.swing > o.compared.rounding for o in bugs)
    assert {o.verdict for o in found} <= {"bug", "same"}
    arguments = ["--max-new-tokens", "12", "--checks", "greedy,sampled"]
    assert main(["verify", "--model", str(folder), *arguments]) == 1
    printed = capsys.readouterr()
    counts = table(printed.out)
    assert counts["greedy"]["bug"] > 0
    assert ": a bug, since rounding moves margins by no more than " in printed.out
    assert printed.err == "pld_core: PLD and plain decoding differ by more than rounding.\n"


def test_a_target_that_keeps_what_was_rejected_is_a_bug(monkeypatch):
    from pld_core.models.eager import EagerTarget

    forget = EagerTarget._forget
    monkeypatch.setattr(EagerTarget, "_forget", lambda self, n: forget(self, max(0, n - 1)))
    (found,) = outcomes(tiny.model("Llama", 1), SHORT[:1], checks(40)[:1])
    assert found.verdict == "bug"


def test_a_model_that_fails_on_the_way_is_a_row_and_the_rest_goes_on(folder, capsys, monkeypatch):
    from pld_core.models.eager import EagerTarget

    forward, begun = EagerTarget.forward, []

    def failing(self, *more):
        if begun and begun.pop():
            raise MemoryError("no room for 40 GiB")
        return forward(self, *more)

    monkeypatch.setattr(EagerTarget, "forward", failing)
    monkeypatch.setattr(cli, "verify", lambda *more: begun.append(True) or verify(*more))
    arguments = ["--max-new-tokens", "8", "--checks", "greedy,sampled"]
    assert main(["verify", "--model", str(folder), *arguments]) == 1
    printed = capsys.readouterr()
    assert f"{ROWS[0].name}, greedy: The device ran out of memory." in printed.out
    counts = table(printed.out)
    assert (counts["greedy"]["failed"], counts["greedy"]["same"]) == (1, len(ROWS) - 1)
    assert counts["sampled"]["same"] == len(ROWS)
    assert "The model failed on some rows; the others are counted." in printed.err


def test_a_broken_law_is_a_bug_even_where_the_texts_agree(folder, capsys, monkeypatch):
    laws = Trace.laws
    monkeypatch.setattr(
        Trace, "laws", lambda self: [*laws(self), "Nothing holds."] if self.start.lane == "pld" else []
    )
    (found, *_) = outcomes(tiny.model("Llama", 1))
    assert (found.verdict, found.compared.verdict, found.broken) == ("bug", "same", "Nothing holds.")
    arguments = ["--max-new-tokens", "4", "--checks", "greedy"]
    assert main(["verify", "--model", str(folder), *arguments]) == 1
    printed = capsys.readouterr().out
    assert "copy, greedy: Nothing holds." in printed
    assert table(printed)["greedy"]["bug"] == len(ROWS)


@pytest.mark.parametrize(
    ("first", "swing", "rounding", "verdict"),
    [
        (None, None, None, "same"), (None, 1.0, 0.1, "same"), (0, 0.1, 0.2, "tie"),
        (3, 0.2, 0.2, "tie"), (3, 0.3, 0.2, "bug"), (3, 0.0, 0.0, "tie"),
        (3, None, 0.2, "different"), (3, 0.1, None, "different"), (0, None, None, "different"),
    ],
)  # fmt: skip
def test_a_difference_is_a_tie_where_rounding_explains_it_and_else_a_bug(
    first, swing, rounding, verdict
):
    assert Compared("pld", "plain", first, swing, swing, rounding).verdict == verdict


@pytest.mark.parametrize(
    ("verdict", "said", "status"),
    [
        ("tie", "a rounding tie, rounding moves margins by up to 0.5 here", 0),
        ("bug", "a bug, since rounding moves margins by no more than 0.01 here", 1),
        ("different", "different text from token 2 on, margin 0.05", 1),
    ],
)
def test_the_exit_status_tells_ties_from_bugs(verdict, said, status, folder, capsys, monkeypatch):
    rounding = {"tie": 0.5, "bug": 0.01, "different": None}[verdict]

    def one(self, events):
        for event in events:
            yield event
        yield Compared("pld", "plain", 2, 0.05, 0.1, rounding)

    monkeypatch.setattr(Model, "_compared", one)
    arguments = ["--max-new-tokens", "3", "--checks", "greedy"]
    assert main(["verify", "--model", str(folder), *arguments]) == status
    printed = capsys.readouterr().out
    assert said in printed
    assert table(printed)["greedy"][verdict] == len(ROWS)


# How far rounding goes, measured.


def test_rounding_is_next_to_nothing_in_float32_and_something_in_bfloat16():
    words = tiny.tokenizer()
    ids = words(tiny.PROMPT)["input_ids"]
    measured = {}
    for dtype in (torch.float32, torch.bfloat16):
        network = tiny.network.__wrapped__("Llama", 3, len(words)).to(dtype)
        model = Model("tiny", "test", network, words)
        measured[dtype] = measure(
            lambda: model.target(Settings(), len(ids)), ids, ids[:20], whole=True
        )
    assert 0 <= measured[torch.float32] < 1e-3
    assert measured[torch.bfloat16] > 20 * measured[torch.float32]
    assert measured[torch.bfloat16] < 10


def test_rounding_of_a_target_that_cannot_tell_rows_apart_is_0():
    from toy import ToyTarget, brain

    assert measure(lambda: ToyTarget(brain(1)), [1, 2, 3], [1, 2, 3, 4], whole=True) == 0
    assert measure(lambda: ToyTarget(brain(1)), [1], [], whole=True) is None
    assert measure(lambda: ToyTarget(brain(1)), [1, 2], [], whole=False) is None


def test_the_rounding_bound_covers_every_margin_that_was_seen_to_move():
    class Shaky:
        def __init__(self, moves):
            self.moves, self.read = moves, 0

        def prefill(self, ids):
            self.read = len(ids)

        def forward(self, tokens):
            self.width = len(tokens)
            return self

        def kept(self, rows):
            by = self.moves if self.width > 1 else {}
            return [], [1 + by.get(self.read + i, 0) for i in range(rows)]

        def commit(self, positions):
            self.read += positions

    for moves in ({}, {5: 0.5}, {i: 0.01 * (i % 3 - 1) for i in range(60)}, {40: -3.0, 41: 1e-3}):
        bound = measure(lambda: Shaky(moves), [0] * 4, [0] * 50, whole=True)
        assert bound >= max([abs(m) for i, m in moves.items() if 6 <= i < 54], default=0) - 1e-9
        assert (bound > 0) is any(i >= 6 for i in moves)


# Files of rows.


def written(tmp_path, *rows, name="rows.jsonl"):
    path = tmp_path / name
    path.write_text(
        "\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows), encoding="utf-8"
    )
    return path


@pytest.mark.parametrize(
    ("data", "row"),
    [
        ({"prompt": "p"}, Row("rows:1", "prompt", Ask("p"))),
        (
            {"id": "x", "category": "c", "prompt": "p", "stop": ["a", "b"], "answer_prefix": "q",
             "system": "s", "reference": "r", "raw": True},
            Row("x", "c", Ask("p", "q", chat=False, system="s", reference="r"), ("a", "b")),
        ),
        ({"prompt": "p", "stop": "ab"}, Row("rows:1", "prompt", Ask("p"), ("ab",))),
        ({"prompt": "p\u2028q"}, Row("rows:1", "prompt", Ask("p\u2028q"))),
        ({"prompt": ""}, Row("rows:1", "prompt", Ask(""))),
        (
            {"id": 7, "prompt": None, "chat": [{"role": "user", "content": "a"},
                                               {"role": "user", "content": "b"}]},
            Row("7", "prompt", Ask("b")),
        ),
        (
            {"question_id": 81, "category": "writing", "turns": ["first", "second"]},
            Row("81", "writing", Ask("first")),
        ),
        ({"task_id": "t", "instruction": "do", "input": "code"}, Row("t", "edit", Ask("do\n\ncode"))),
        (
            {"question": "who", "ctxs": [{"text": "a"}, {"text": "b"}]},
            Row("rows:1", "question", Ask("a\n\nb\n\nAnswer with words from the text: who?")),
        ),
        (
            {"ordered_kv_records": [["k", "v"]], "key": "k"},
            Row("rows:1", "retrieval", Ask(
                '{\n"k": "v"\n}\n\nWrite the value of the key k and nothing else.')),
        ),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)  # fmt: skip
def test_each_shape_of_row_is_read(data, row, tmp_path):
    assert read_rows(written(tmp_path, "", data, "  ")) == [
        replace(row, name=row.name.replace(":1", ":2"))
    ]
    raw = json.dumps(data, ensure_ascii=False)
    (again,) = read_rows(written(tmp_path, raw, name="rows.ndjson"))
    assert again == row


def test_any_other_file_is_one_prompt(tmp_path):
    path = written(tmp_path, "Repeat this.", '{"prompt": "p"}', "", name="notes.txt")
    assert read_rows(path) == [Row("notes.txt", "text", Ask('Repeat this.\n{"prompt": "p"}'))]


@pytest.mark.parametrize(
    "line",
    [
        "no json", "[]", '"text"', "7", "null", "{}", '{"prompt": 7}', '{"prompt": ["p"]}',
        '{"chat": []}', '{"chat": [{"role": "user"}]}', '{"chat": "abc"}', '{"turns": []}',
        '{"turns": [1]}', '{"instruction": "a"}', '{"question": "a", "ctxs": [{}]}',
        '{"ordered_kv_records": [["k"]], "key": "k"}', '{"ordered_kv_records": [["k", "v"]]}',
        '{"prompt": "p", "stop": 5}', '{"prompt": "p", "stop": [1]}', '{"prompt": "p", "system": 3}',
        '{"prompt": "p", "answer_prefix": null}', '{"prompt": "p", "reference": {}}',
        '{"prompt": "p"', "[" * 5000, '{"prompt": "p"} {"prompt": "q"}',
    ],
    ids=lambda line: line[:30],
)  # fmt: skip
def test_a_row_in_no_known_shape_is_named_by_its_line(line, tmp_path, capsys):
    path = written(tmp_path, {"prompt": "fine"}, "", line)
    with pytest.raises(RowsError, match="Line 3 of .* is not a prompt in a known shape"):
        read_rows(path)
    assert main(["verify", "--rows", str(path)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("name", ["empty.jsonl", "empty.ndjson", "empty.txt", "empty"])
@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_file_without_a_prompt_is_refused_and_not_replaced_by_others(
    name, text, tmp_path, capsys
):
    path = written(tmp_path, text, name=name)
    with pytest.raises(RowsError, match="holds no prompt"):
        read_rows(path)
    assert main(["verify", "--rows", str(path)]) == 1
    assert "holds no prompt" in capsys.readouterr().err


def test_a_stop_string_that_cannot_be_meant_is_refused_in_one_sentence(folder, tmp_path, capsys):
    path = written(tmp_path, {"prompt": "p", "stop": ""})
    assert main(["verify", "--model", str(folder), "--rows", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "A stop string is a text" in line


def test_the_real_files_are_read(shared):
    counts = {path.name: len(read_rows(path)) for path in shared.glob("*_sample.jsonl")}
    assert len(counts) == 4
    assert all(count > 0 for count in counts.values())
    assert any(row.stop for row in read_rows(shared / "text_cases.jsonl"))
