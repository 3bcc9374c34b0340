"""The command line: every option reaches the decoder, every bad input is one sentence, and a run
that is cut short leaves a whole stream."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tiny

from pld_core import cli, trace
from pld_core.cli import main
from pld_core.models import loading
from pld_core.models.loading import load
from pld_core.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
ASK = "the red fox and the grey fox"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small model on disk whose answers are as long as they may be."""
    path = tmp_path_factory.mktemp("models") / "tiny"
    model = tiny.model("Llama", 3, limit=40_000)
    model.network.save_pretrained(path)
    model.tokenizer.save_pretrained(path)
    return path


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """No network, and none of the caller's settings."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.delenv("PLD_MODEL", raising=False)
    monkeypatch.delenv("PLD_DTYPE", raising=False)


@pytest.fixture
def quick(folder, monkeypatch):
    """The model is loaded once; `quick` holds what each load was asked for."""
    asked = []

    def loaded(name, device, dtype, report, **more):
        asked.append((name, device, dtype))
        return _once(folder)

    monkeypatch.setattr(loading, "load", loaded)
    return asked


_models = {}


def _once(folder):
    if folder not in _models:
        _models[folder] = load(str(folder))
    return _models[folder]


def generate(tmp_path, *arguments, ask=("--raw", "--prompt", ASK), limit=12):
    """The lanes that one call wrote."""
    file = tmp_path / "events.ndjson"
    limits = [] if limit is None else ["--max-new-tokens", str(limit)]
    assert main(["generate", *ask, *limits, "--events", str(file), *arguments]) == 0
    with open(file, encoding="utf-8") as lines:
        return trace.read(lines)


def refused(capsys, *arguments, status=1):
    """The one line that a call says instead of running."""
    capsys.readouterr()
    try:
        got = main(list(arguments))
    except SystemExit as exit_:
        got = exit_.code
    said = capsys.readouterr()
    assert got == status
    assert said.out == ""
    (line,) = said.err.splitlines()[-1:]
    assert said.err.count("pld_core: ") == len(said.err.splitlines()) <= 2
    assert line.endswith(".")
    assert "Error" not in line
    assert "Traceback" not in line
    return said.err


# Every option reaches the decoder.

SETTINGS = [
    ("-n", "2", "5", lambda s: s["n_max"], (2, 5)),
    ("--n-min", "1", "3", lambda s: s["n_min"], (1, 3)),
    ("-k", "0", "7", lambda s: s["k"], (0, 7)),
    ("--policy", "recent", "oldest", lambda s: s["policy"], ("recent", "oldest")),
    ("--branches", "1", "3", lambda s: s["branches"], (1, 3)),
    ("--max-new-tokens", "1", "4", lambda s: s["max_new_tokens"], (1, 4)),
    ("--stop", "a", "b c", lambda s: s["stop"], (["a"], ["b c"])),
    *(
        (f"--{name.replace('_', '-')}", a, b, lambda s, name=name: s["sampling"][name], values)
        for name, a, b, values in [
            ("temperature", "0", "0.7", (0.0, 0.7)),
            ("top_k", "0", "5", (0, 5)),
            ("top_p", "1", "0.5", (1.0, 0.5)),
            ("min_p", "0", "0.1", (0.0, 0.1)),
            ("repetition_penalty", "1", "1.3", (1.0, 1.3)),
            ("presence_penalty", "0", "0.5", (0.0, 0.5)),
            ("frequency_penalty", "0", "-0.5", (0.0, -0.5)),
            ("no_repeat_ngram", "0", "3", (0, 3)),
            ("min_new_tokens", "0", "6", (0, 6)),
            ("seed", "0", str(2**63 - 1), (0, 2**63 - 1)),
        ]
    ),
]


@pytest.mark.parametrize(("name", "a", "b", "read", "values"), SETTINGS, ids=lambda v: str(v)[:20])
def test_each_setting_is_recorded_as_given(name, a, b, read, values, quick, tmp_path):
    found = []
    for value in (a, b):
        lanes = generate(tmp_path, name, value, "--compare", limit=3)
        found.append(read(lanes["pld"].start.settings))
        assert lanes["plain"].start.settings == {**lanes["pld"].start.settings, "k": 0}
    assert tuple(found) == values


def test_every_sampling_setting_has_its_option():
    covered = {name for name, *_ in SETTINGS}
    options = cli._parser().format_help()
    generate_ = cli._parser()._subparsers._group_actions[0].choices["generate"]
    given = {option for action in generate_._actions for option in action.option_strings}
    other = {
        "-h", "--help", "--prompt", "--prompt-file", "--raw", "--system", "--answer-prefix",
        "--reference", "--strict", "--adaptive", "--no-adaptive", "--ban", "--model", "--device", "--dtype", "--compare", "--events",
    }  # fmt: skip
    assert given == covered | other
    assert "generate" in options


def test_settings_change_what_is_written(quick, tmp_path):
    base = generate(tmp_path)["pld"].ids
    for more in (
        ["--temperature", "1.5"], ["--temperature", "1.5", "--seed", "3"],
        ["--repetition-penalty", "1.8"], ["--ban", generate(tmp_path)["pld"].text[0]],
    ):  # fmt: skip
        assert generate(tmp_path, *more)["pld"].ids != base
    lane = generate(tmp_path, "--stop", generate(tmp_path)["pld"].text[2:5])["pld"]
    assert (lane.end.reason, lane.ids) == ("stop", base[: len(lane.ids)])


def test_stop_strings_and_bans_may_be_repeated(quick, tmp_path):
    lane = generate(tmp_path, "--stop", "qq", "--stop", "zz", "--ban", "fox", "--ban", "x")["pld"]
    assert lane.start.settings["stop"] == ["qq", "zz"]
    spelled = lane.start.settings["sampling"]["banned"]
    words = tiny.tokenizer().backend_tokenizer
    assert {words.decode(ids) for ids in spelled} == {"fox", " fox", "x", " x"}


def test_strict_mode_runs_one_width(quick, tmp_path):
    for k in (3, 6):
        lanes = generate(tmp_path, "--strict", "-k", str(k), "--compare")
        for lane in lanes.values():
            assert lane.start.settings["fixed_width"] == k + 1
            (width,) = {step.width for step in lane.passes}
            assert width > k
    assert generate(tmp_path)["pld"].start.settings["fixed_width"] == 0


def prompt_text(lane):
    return "".join(lane.start.prompt.pieces)


def test_the_prompt_comes_as_text_as_a_file_or_on_standard_input(quick, tmp_path, monkeypatch):
    file = tmp_path / "prompt.txt"
    texts = {"": "", "\n": "", "\n\n": "\n", "\n \n": "\n "}  # one newline ends the last line
    for end, read in texts.items():
        file.write_text(ASK + " from a file" + end, encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", io.StringIO(ASK + " piped" + end))
        for ask, expected in (
            (["--raw", "--prompt", ASK + end], ASK + end),
            (["--raw", "--prompt-file", str(file)], ASK + " from a file" + read),
            (["--raw"], ASK + " piped" + read),
        ):
            assert prompt_text(generate(tmp_path, ask=ask)["pld"]) == expected


def test_a_text_file_is_read_alike_whoever_saved_it(quick, tmp_path):
    file = tmp_path / "text.txt"
    for saved in (b"a fox\nand a fox", b"a fox\nand a fox\n", b"\xef\xbb\xbfa fox\r\nand a fox\r\n"):
        file.write_bytes(saved)
        lane = generate(tmp_path, ask=["--raw", "--prompt-file", str(file), "--reference", str(file)])["pld"]
        assert prompt_text(lane) == "".join(lane.start.reference.pieces) == "a fox\nand a fox"


def test_chat_system_and_begun_answer_reach_the_template(quick, tmp_path):
    ask = ["--prompt", "fox", "--system", "grey", "--answer-prefix", "the red"]
    lane = generate(tmp_path, ask=ask)["pld"]
    assert prompt_text(lane) == (
        "<|im_start|>system\ngrey<|im_end|>\n<|im_start|>user\nfox<|im_end|>\n"
        "<|im_start|>assistant\nthe red"
    )
    begun = lane.start.prompt
    assert "".join(begun.pieces[begun.answer_start :]) == "the red"
    lane = generate(tmp_path, ask=["--prompt", "fox", "--raw", "--answer-prefix", " walk"])["pld"]
    assert prompt_text(lane) == "fox walk"


def test_a_reference_is_searched_and_not_read(quick, tmp_path):
    lane = generate(tmp_path)["pld"]
    file = tmp_path / "reference.txt"
    file.write_text(ASK + lane.text, encoding="utf-8")
    with_reference = generate(tmp_path, "--reference", str(file))["pld"]
    assert with_reference.ids == lane.ids
    assert "".join(with_reference.start.reference.pieces) == ASK + lane.text
    assert any(s.match and s.match.region == "reference" for s in with_reference.passes)
    assert lane.start.reference is None


def test_model_device_and_dtype_reach_the_loader(quick, tmp_path, monkeypatch):
    generate(tmp_path, "--model", "some/model", "--device", "cuda:1", "--dtype", "float16", limit=1)
    generate(tmp_path, limit=1)
    monkeypatch.setenv("PLD_MODEL", "from/environment")
    generate(tmp_path, limit=1)
    monkeypatch.setenv("PLD_DTYPE", "bfloat16")
    generate(tmp_path, "--model", "given/wins", limit=1)
    generate(tmp_path, "--dtype", "int4", limit=1)
    assert quick == [
        ("some/model", "cuda:1", "float16"), (None, None, None),
        ("from/environment", None, None), ("given/wins", None, "bfloat16"),
        ("from/environment", None, "int4"),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_local_folder_is_run_in_the_dtype_asked_for(folder, dtype, tmp_path):
    lane = generate(tmp_path, "--model", str(folder), "--device", "cpu", "--dtype", dtype)["pld"]
    assert (lane.start.dtype, lane.start.device, lane.start.model) == (dtype, "cpu", str(folder))


def test_the_text_is_printed_and_then_its_numbers(quick, tmp_path, capsys):
    lanes = generate(tmp_path, "--compare", limit=20)
    printed = capsys.readouterr().out
    assert printed.startswith(lanes["pld"].text + "\n")
    table = printed[len(lanes["pld"].text) :]
    assert "lookup" in table
    assert "plain" in table
    assert "same text" in table
    for lane in lanes.values():
        assert list(lane.laws()) == []
    assert lanes["pld"].compared.verdict == "same"


# Replay and stats.


@pytest.fixture
def recorded(quick, tmp_path, capsys):
    generate(tmp_path, "--compare", limit=40)
    capsys.readouterr()
    return tmp_path / "events.ndjson"


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (["-n", "1"], {"n_max": 1}), (["-n", "9"], {"n_max": 9}),
        (["--n-min", "2"], {"n_min": 2}), (["-k", "3"], {"k": 3}), (["-k", "0"], {"k": 0}),
        (["--policy", "oldest"], {"policy": "oldest"}), ([], {}),
        (["--no-adaptive"], {"adaptive": False}), (["--branches", "4"], {"branches": 4}),
    ],
    ids=str,
)  # fmt: skip
def test_each_lookup_option_reaches_the_replay(options, changed, recorded, monkeypatch, capsys):
    asked = []
    what_if = cli.what_if
    monkeypatch.setattr(cli, "what_if", lambda lane, s: asked.append(s) or what_if(lane, s))
    assert main(["replay", str(recorded), *options]) == 0
    (settings,) = asked
    start = trace.read(recorded.read_text().splitlines())["pld"].start
    costs = Settings.from_json(start.settings).pass_seconds
    assert len(costs) > 1
    assert settings == Settings(**changed, pass_seconds=costs)
    table = capsys.readouterr().out
    shown = f"{settings.n_max}..{settings.n_min}, {settings.k}"
    assert shown in table
    assert ("4 branches" in table) is (settings.branches == 4)
    if settings.k == 0:
        passes = next(line for line in table.splitlines() if line.startswith("passes  "))
        assert passes.split()[-1] == "40"


def test_branches_are_drafted_as_trees_that_keep_the_text(quick, tmp_path, capsys):
    chain = generate(tmp_path, "--no-adaptive", limit=60)["pld"]
    drafted = generate(tmp_path, "--branches", "4", "--no-adaptive", limit=60)["pld"]
    assert drafted.ids == chain.ids and not list(drafted.laws())
    assert any(step.parents for step in drafted.passes)
    assert not any(step.parents for step in chain.passes)


def test_stats_shows_both_lanes_and_whether_they_agree(recorded, capsys):
    assert main(["stats", str(recorded)]) == 0
    table = capsys.readouterr().out
    assert "same text" in table
    assert "broken law" not in table
    assert [line.split() for line in table.splitlines() if line.startswith("tokens  ")] == [
        ["tokens", "40", "40"]
    ]


def test_stats_names_a_broken_law(recorded, capsys):
    lines = recorded.read_text(encoding="utf-8").splitlines()
    wrong = [
        json.dumps({**json.loads(line), "tokens": 99}) if '"type":"end"' in line else line
        for line in lines
    ]
    recorded.write_text("\n".join(wrong), encoding="utf-8")
    assert main(["stats", str(recorded)]) == 0
    assert "broken law: The end counts 99 tokens" in capsys.readouterr().out


def test_an_interrupted_comparison_is_no_difference(recorded, capsys):
    lines = recorded.read_text(encoding="utf-8").splitlines()
    cut = [line for line in lines if '"type":"compare"' not in line]
    kept = [line for line in cut if '"plain"' not in line][:-1]
    plain = [line for line in cut if '"plain"' in line][:6]
    ends = [
        json.dumps({"v": 1, "type": "end", "lane": lane, "reason": "cancelled",
                    "tokens": tokens, "passes": passes})
        for lane, tokens, passes in (("pld", 40, len(kept) - 1), ("plain", 5, 5))
    ]  # fmt: skip
    recorded.write_text("\n".join([*kept, *plain, *ends]), encoding="utf-8")
    assert main(["stats", str(recorded)]) == 0
    table = capsys.readouterr().out
    assert "different" not in table
    assert "broken law" not in table
    assert "same text as far as both lanes went" in table


# What cannot be done is said in one sentence.


def test_files_that_cannot_be_read_are_named(capsys, tmp_path, recorded):
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x80\xff\x00\x01" * 9)
    missing = str(tmp_path / "missing")
    for path, why in ((missing, "No such file"), (str(binary), "UTF-8"), (str(tmp_path), "directory")):
        for arguments in (
            ["generate", "--prompt-file", path],
            ["generate", "--prompt", ASK, "--reference", path],
            ["verify", "--rows", path],
            ["replay", path],
            ["stats", path],
        ):
            said = refused(capsys, *arguments)
            assert path in said
            assert why in said


@pytest.mark.parametrize("text", ["", " \n\t ", "\n"])
def test_an_empty_prompt_is_refused_before_a_model_is_loaded(text, capsys, quick, monkeypatch):
    assert "empty" in refused(capsys, "generate", "--prompt", text)
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert "empty" in refused(capsys, "generate")
    assert quick == []


def test_standard_input_that_is_no_text_is_refused(capsys, quick, monkeypatch):
    broken = io.TextIOWrapper(io.BytesIO(b"\xff\xfe\x00"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", broken)
    assert "Standard input is not a text" in refused(capsys, "generate")


def test_a_prompt_beyond_the_context_is_refused_with_both_numbers(capsys, quick):
    ask = "the red fox " * 20_000
    said = refused(capsys, "generate", "--raw", "--prompt", ask)
    count = len(tiny.tokenizer()(ask)["input_ids"])
    assert f"{count:,} of 40,000 tokens" in said


def test_a_model_that_is_not_there_is_named(capsys, tmp_path):
    for name in ("no-such-owner/no-such-model", str(tmp_path / "nothing")):
        said = refused(capsys, "generate", "--prompt", ASK, "--model", name)
        assert f"There is no model {name}" in said
    assert "no config.json" in refused(
        capsys, "generate", "--prompt", ASK, "--model", str(tmp_path)
    )
    (tmp_path / "config.json").write_text('{"model_type": "never heard of"}')
    refused(capsys, "verify", "--model", str(tmp_path))


@pytest.mark.parametrize(
    ("option", "value"),
    [("--device", v) for v in ("toaster", "cuda:99", "meta", "mps", "", "cpu:x", "-1")]
    + [("--dtype", v) for v in ("int8", "double", "")],
)
def test_an_unknown_device_or_dtype_is_named(option, value, folder, capsys):
    said = refused(
        capsys, "generate", "--prompt", ASK, "--model", str(folder), f"{option}={value}"
    )
    assert ("device" if option == "--device" else "dtype") in said
    assert "cannot roll back" not in said
    assert "holds no model" not in said


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("-n", "0"), ("-n", "65"), ("--n-min", "4"), ("-k", "-1"), ("-k", "513"),
        ("--max-new-tokens", "0"), ("--max-new-tokens", "-3"), ("--stop", ""), ("--ban", ""),
        ("--temperature", "-1"), ("--temperature", "nan"), ("--temperature", "inf"),
        ("--top-p", "0"), ("--top-p", "1.5"), ("--top-k", "-1"), ("--min-p", "2"),
        ("--repetition-penalty", "0"), ("--repetition-penalty", "-1"), ("--seed", "-1"),
        ("--no-repeat-ngram", "-2"), ("--presence-penalty", "nan"), ("--min-new-tokens", "-1"),
    ],
)  # fmt: skip
def test_a_number_that_cannot_be_meant_is_refused(option, value, capsys, quick):
    refused(capsys, "generate", "--prompt", ASK, f"{option}={value}" if "--" in option else option + value)
    assert quick == []


COMMANDS = cli._parser()._subparsers._group_actions[0].choices


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "COMMAND"), (["nothing"], "'nothing'"), (["--what"], "COMMAND"),
        (["generate", "-n", "x"], "-n: 'x' is no whole number"),
        (["generate", "-k", "1.5"], "-k: '1.5' is no whole number"), (["generate", "-k"], "-k"),
        (["generate", "--temperature", "warm"], "--temperature: 'warm' is no number"),
        (["generate", "--policy", "web"], "'web'"), (["generate", "--compare=3"], "--compare"),
        (["generate", "--prompt", "a", "--prompt-file", "b"], "--prompt"),
        (["generate", "--m", "3"], "--m"), (["generate", "--seed", "9" * 9999], "--seed"),
        (["replay"], "TRACE"), (["stats"], "TRACE"), (["stats", "a", "b"], "b"),
        (["convert", "a"], "TO"), (["verify", "--limit", "x"], "--limit"),
        (["bench", "--rounds", ""], "--rounds"), (["config", "extra\nlines"], "extra lines"),
        *(([name, "a", "b", "--what"], "--what") for name in ("generate", "bench", "convert")),
        *(([name, "a", "-n", "abc"], "-n: 'abc'") for name in ("replay", "bench", "config")),
    ],
    ids=lambda value: " ".join(value)[:40],
)  # fmt: skip
def test_what_is_no_command_is_answered_in_one_line(arguments, why, capsys):
    said = refused(capsys, *arguments, status=2)
    assert len(said.splitlines()) == 1
    assert why in said
    assert "usage" not in said
    assert "--help" in said


# Without these nothing happens that they could name.
NO_DEFAULT = {
    "--prompt-file", "--answer-prefix", "--stop", "--reference", "--ban", "--events",
    "--llama-server", "--openai",
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_that_has_a_default_says_it(command):
    parser = COMMANDS[command]
    for action in parser._actions:
        said = " ".join(parser._get_formatter()._expand_help(action).split())
        assert said, action.dest
        if action.dest == "help" or action.required or action.nargs == 0 and not action.default:
            continue  # no choice, or a switch that is off
        if not NO_DEFAULT.isdisjoint(action.option_strings):
            assert not action.default
            continue
        assert said.count("default") == 1, action.option_strings
        if action.default not in (None, [], True):
            assert f"default {action.default}" in said
        if action.default is True:
            assert f"default {action.option_strings[0]}" in said


def test_an_events_file_that_cannot_be_written_is_named(capsys, quick, tmp_path):
    for path in (str(tmp_path), str(tmp_path / "no" / "folder"), "/dev/null/x"):
        said = refused(capsys, "generate", "--prompt", ASK, "--events", path)
        assert f"{path} cannot be written" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no trace"), ("\n\n", "holds no trace"), ("not json", "Line 1"), ("[]", "Line 1"),
        ('{"v":2,"type":"start"}', "version 2"), ('{"v":1,"type":"start"}', "Line 1"),
        ('{"v":1,"type":"end","lane":"a","reason":"eos","tokens":1,"passes":1}', "outside"),
        ('{"v":1,"type":"prefill","lane":"a","seconds":NaN,"kept":[1],"pieces":[""]}', "Line 1"),
        ("[" * 100_000, "Line 1"),
    ],
    ids=lambda value: value[:25],
)  # fmt: skip
def test_a_broken_trace_is_refused(text, said, capsys, tmp_path):
    file = tmp_path / "broken.ndjson"
    file.write_text(text, encoding="utf-8")
    for command in ("replay", "stats"):
        assert said in refused(capsys, command, str(file))


def test_a_trace_that_was_cut_anywhere_is_read_or_refused(recorded, capsys):
    lines = recorded.read_text(encoding="utf-8").splitlines(keepends=True)
    for cut in (1, 2, 3, len(lines) - 2, len(lines) - 1):
        for tail in ("", lines[cut][: len(lines[cut]) // 2]):
            recorded.write_text("".join(lines[:cut]) + tail, encoding="utf-8")
            for command in ("stats", "replay"):
                capsys.readouterr()
                status = main([command, str(recorded)])
                said = capsys.readouterr()
                assert (status, bool(said.out)) in ((0, True), (1, False))
                assert status == 0 or said.err.count("\n") == 1


def test_a_model_that_fails_midway_says_so_and_leaves_a_whole_stream(
    quick, folder, tmp_path, capsys, monkeypatch
):
    from pld_core.models.model import Model
    from pld_core.sampling import Chooser

    scores, start = Chooser.scores, Model.start
    calls = iter([])  # none fails while the model is tried out

    def starts(self, *arguments):
        nonlocal calls
        calls = iter([False] * 4 + [True])
        return start(self, *arguments)

    def fails(self, *arguments):
        if next(calls, False):
            raise MemoryError
        return scores(self, *arguments)

    monkeypatch.setattr(Model, "start", starts)
    monkeypatch.setattr(Chooser, "scores", fails)
    file = tmp_path / "events.ndjson"
    arguments = ["generate", "--raw", "--prompt", ASK, "--compare", "--events", str(file)]
    assert main(arguments) == 1
    assert capsys.readouterr().err == "pld_core: The device ran out of memory.\n"
    with open(file, encoding="utf-8") as lines:
        found = trace.read(lines)
    assert sorted(lane.end.reason for lane in found.values()) == ["cancelled", "error"]
    assert [law for lane in found.values() for law in lane.laws()] == []


# A run that is cut short.


def whole(path):
    """The lanes of a stream that was cut short, each with its end."""
    with open(path, encoding="utf-8") as lines:
        found = trace.read(lines)
    for lane in found.values():
        assert lane.end.reason == "cancelled"
        assert list(lane.laws()) == []
    return found


@pytest.mark.parametrize("place", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("where", ["before", "after"])
def test_an_interrupt_at_any_event_leaves_a_whole_stream(
    place, where, quick, tmp_path, capsys, monkeypatch
):
    seen = []

    def interrupted(events):
        for event in events:
            if len(seen) == place and where == "before":
                raise KeyboardInterrupt
            seen.append(event)
            yield event

    if where == "before":  # in the model
        printed = cli._printed
        monkeypatch.setattr(cli, "_printed", lambda events: printed(interrupted(events)))
    else:  # in whoever reads the stream
        lanes = trace.lanes

        def reads(events):
            for event in events:
                seen.append(event)
                if len(seen) == place:
                    raise KeyboardInterrupt
            raise AssertionError

        monkeypatch.setattr(cli, "lanes", lambda e: lanes(e) if isinstance(e, list) else reads(e))
    file = tmp_path / "events.ndjson"
    arguments = ["generate", "--raw", "--prompt", ASK, "--compare", "--events", str(file)]
    assert main(arguments) == 130
    assert capsys.readouterr().err == "pld_core: Stopped.\n"
    assert sum(len(lane.steps) for lane in whole(file).values()) <= place


def started(folder, tmp_path, **more):
    """A long run in a process of its own, after its first character."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [
            sys.executable, "-m", "pld_core", "generate", "--model", str(folder), "--raw",
            "--prompt", ASK, "--max-new-tokens", "39000", "--compare",
            "--events", str(tmp_path / "events.ndjson"),
        ],
        cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        # a test run in the background ignores interrupts, and so would its children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout.read(1)
    return process


def test_ctrl_c_stops_a_run_with_exit_130_and_a_whole_stream(folder, tmp_path):
    process = started(folder, tmp_path)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert said == b"pld_core: Stopped.\n"
    assert set(whole(tmp_path / "events.ndjson")) == {"pld", "plain"}


def test_a_reader_that_has_enough_ends_a_run_in_silence(folder, tmp_path):
    process = started(folder, tmp_path)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0
    assert whole(tmp_path / "events.ndjson")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_said_in_one_line(quick, capsys):
    arguments = ["generate", "--raw", "--prompt", ASK, "--max-new-tokens", "5"]
    assert main([*arguments, "--events", "/dev/full"]) == 1
    assert "No space left" in capsys.readouterr().err
    assert main(arguments) == 0
