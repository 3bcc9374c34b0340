"""The command line: run a prompt, replay a run, read its numbers."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Callable, Iterable, Iterator, NoReturn, Sequence

from pld_core import specspecs
from pld_core.bench.engines import LOCAL
from pld_core.configuration import configurations
from pld_core.decoder import PromptError
from pld_core.events import Compared, Event, dumps
from pld_core.events import read as read_events
from pld_core.lookup import POLICIES
from pld_core.prompting import Ask, banned, control_tokens, decoder
from pld_core.replay import what_if
from pld_core.rows import Row, RowsError, read_rows, read_text
from pld_core.settings import Sampling, Settings, SettingsError
from pld_core.text import pieces_of
from pld_core.threads import settle
from pld_core.trace import Trace, TraceError, compare, endings, lanes, read, speedups
from pld_core.verify import ROWS, checks, verify

if TYPE_CHECKING:
    from pld_core.bench.lookup_records import LookupRecords
    from pld_core.bench.progress import Progress
    from pld_core.bench.records import Records

INTERRUPTED = 130
EXAMPLES = Path(__file__).resolve().parent.parent / "static" / "examples"


class UsageError(ValueError):
    """Something asked for that cannot be done; the message is one sentence."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Returns 0, or prints one line to standard error and returns 1
    (130 after an interrupt); a call that is no command exits with 2 after its line."""
    settle()  # before anything imports torch
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")
    options = _parser().parse_args(arguments)
    options.given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options.command(options)
        sys.stdout.flush()
    except (UsageError, SettingsError, PromptError, TraceError, RowsError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        _fail("Stopped.")
        return INTERRUPTED
    except BrokenPipeError:
        _silence()  # whoever read has enough
    except OSError as error:
        _silence()
        return _fail(f"Reading or writing failed: {error.strerror or type(error).__name__}.")
    return 0


def _silence() -> None:
    """Keeps Python from complaining at exit about what standard output did not take."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(sentence: str) -> int:
    _say(sentence)
    return 1


def _say(sentence: str) -> None:
    print(f"pld_core: {sentence}", file=sys.stderr, flush=True)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with a call in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        said = " ".join(message.removeprefix("argument ").split())  # arguments may hold line ends
        _say(f"{said[:1].upper()}{said[1:]}; see {self.prog} --help.")
        raise SystemExit(2)


def _whole(text: str) -> int:
    return _parsed(int, text, "whole number")


def _number(text: str) -> float:
    return _parsed(float, text, "number")


def _parsed(kind: Callable[[str], int | float], text: str, name: str) -> int | float:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is no {name}") from None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m pld_core", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    generate = commands.add_parser("generate", help="run a prompt and count its passes")
    generate.set_defaults(command=_generate)
    source = generate.add_mutually_exclusive_group()
    source.add_argument("--prompt", help="the prompt (default: standard input)")
    source.add_argument("--prompt-file", metavar="FILE",
                        help="a file that holds the prompt; the newline that ends it, as that of "
                             "standard input, is not read")
    generate.add_argument("--raw", action="store_true", help="no chat template")
    generate.add_argument("--system", metavar="TEXT",
                          help="system message of the chat (default: what the model's template says)")
    generate.add_argument("--answer-prefix", default="", metavar="TEXT",
                          help="the begun answer, which the model goes on with")
    _lookup_options(generate)
    _length_option(generate, 256)
    generate.add_argument("--stop", action="append", default=[], metavar="TEXT",
                          help="end the answer at this text; may be repeated")
    generate.add_argument("--reference", metavar="FILE",
                          help="a text to copy from that the model does not read; without the "
                               "newline that ends it")
    _adaptive_option(generate, "by what passes cost here, which is measured first")
    generate.add_argument("--strict", action="store_true",
                          help="every pass equally wide: half precision becomes exact, and slower")
    _sampling_options(generate)
    _model_options(generate)
    generate.add_argument("--compare", action="store_true", help="run plain decoding beside it")
    generate.add_argument("--events", metavar="FILE", help="write the stream of passes (NDJSON)")

    verify = commands.add_parser("verify", help="does PLD write what plain decoding writes here?")
    verify.set_defaults(command=_verify)
    _model_options(verify)
    verify.add_argument("--rows", metavar="FILE", action="append", default=[],
                        help="prompts to try (JSON lines or text); may be repeated (default: a few "
                             "built-in ones)")
    verify.add_argument("--limit", type=_whole, metavar="N",
                        help="only the first N rows of each file (default all)")
    _length_option(verify, 128)
    verify.add_argument("--checks", metavar="NAMES",
                        help="some of greedy,sampled,penalised,trees,strict (default all)")

    bench = commands.add_parser("bench", help="engines side by side on your prompts, or lookups")
    bench.set_defaults(command=_bench)
    _model_options(bench)
    _lookup_options(bench)
    bench.add_argument("--rows", metavar="FILE", action="append", default=[],
                       help="prompts (JSON lines, presets.json or text); may be repeated "
                            "(default: a few built-in ones)")
    bench.add_argument("--limit", type=_whole, metavar="N",
                       help="only the first N rows of each file (default all)")
    bench.add_argument("--rounds", type=_whole, default=5, metavar="N",
                       help="repeats of each row, after one that warms up (default 5)")
    _length_option(bench, 256)
    bench.add_argument("--engines", metavar="NAMES", help=f"some of {','.join(LOCAL)} (default all)")
    bench.add_argument("--llama-server", metavar="[LABEL=]ADDRESS", action="append", default=[],
                       help="a running llama.cpp server; may be repeated")
    bench.add_argument("--openai", metavar="[LABEL=]ADDRESS", action="append", default=[],
                       help="a running server with OpenAI's completions, as vLLM; may be repeated")
    bench.add_argument("--out", metavar="NAME", default="bench",
                       help="writes NAME.jsonl (each measurement as it is made; the same call "
                            "goes on from it), NAME.json and NAME.html (default bench)")
    bench.add_argument("--lookup", action="store_true",
                       help="no engine: what lookups cost, and what ours and other engines' rules "
                            "are worth on recorded runs")
    bench.add_argument("traces", metavar="TRACE", nargs="*",
                       help="with --lookup: recorded runs (default: those of the page)")

    replayed = commands.add_parser("replay", help="ask a recorded run for another lookup")
    replayed.set_defaults(command=_replay)
    replayed.add_argument("trace", metavar="TRACE", help="a recorded run")
    _lookup_options(replayed)
    _adaptive_option(replayed, "by what passes cost in the recorded run, where it says so")

    stats = commands.add_parser("stats", help="the numbers of a recorded run")
    stats.set_defaults(command=_stats)
    stats.add_argument("trace", metavar="TRACE", help="a recorded run")

    converted = commands.add_parser(
        "convert", help="a trace to Parquet tables in the schema of specspecs, or back"
    )
    converted.set_defaults(command=_convert)
    converted.add_argument("source", metavar="FROM", help="a trace, or a folder of tables")
    converted.add_argument("out", metavar="TO", help="a folder for tables, or a trace's file")
    converted.add_argument("--tokenizer", metavar="NAME",
                           help="a hub id or folder, for tables that hold no texts (default: ids in "
                                "brackets)")

    config = commands.add_parser("config", help="the settings as other engines write them")
    config.set_defaults(command=_config)
    _lookup_options(config)
    return parser


def _adaptive_option(parser: argparse.ArgumentParser, how: str) -> None:
    option = parser.add_argument("--adaptive", action=argparse.BooleanOptionalAction, default=True)
    # afterwards: before Python 3.13 the action adds "(default: True)" to a help that it is given
    option.help = f"draft only what is expected to pay, {how} (default --adaptive)"


def _length_option(parser: argparse.ArgumentParser, default: int) -> None:
    parser.add_argument("--max-new-tokens", type=_whole, default=default, metavar="N",
                        help=f"longest answer in tokens (default {default})")


def _model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default=os.environ.get("PLD_MODEL") or None,
                        help="hub id or local folder (default: PLD_MODEL, or else the embedded model)")
    parser.add_argument("--device",
                        help="cpu, cuda, cuda:1 (default: the GPU when there is one, else the CPU)")
    parser.add_argument("--dtype", default=os.environ.get("PLD_DTYPE") or None,
                        help="float32, bfloat16, float16, or on a CPU int4: weights of 4 bits, 8 at the "
                             "output, numbers in bfloat16 (default: PLD_DTYPE, or else float32 on a "
                             "CPU, bfloat16 on a GPU)")


def _sampling_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sampling", "names and rules are transformers'")
    for f in fields(Sampling):
        if f.name in ("banned", "forced_first", "forced_last"):
            continue
        whole = f.type == "int"
        group.add_argument(f"--{f.name.replace('_', '-')}", default=f.default,
                           type=_whole if whole else _number, metavar="N" if whole else "X",
                           help=f"default {f.default}")
    group.add_argument("--ban", action="append", default=[], metavar="TEXT",
                       help="a text that never appears; may be repeated")


def _sampling(options: argparse.Namespace) -> Sampling:
    given = {f.name: getattr(options, f.name) for f in fields(Sampling) if f.name in options}
    return Sampling(**given)


def _lookup_options(parser: argparse.ArgumentParser) -> None:
    default = Settings()
    parser.add_argument("-n", type=_whole, default=default.n_max, metavar="N",
                        help=f"longest match in tokens (default {default.n_max})")
    parser.add_argument("--n-min", type=_whole, default=default.n_min, metavar="N",
                        help=f"shortest match in tokens (default {default.n_min})")
    parser.add_argument("-k", type=_whole, default=default.k, metavar="K",
                        help=f"longest draft in tokens, 0 for none (default {default.k})")
    parser.add_argument("--policy", choices=list(POLICIES), default=default.policy,
                        help="which of several equal matches is copied: the most recent, the oldest, "
                             "the nearest to where the last copy was going, the continuation that "
                             "most of them share; or the longest match, also beyond N "
                             f"(default {default.policy})")
    parser.add_argument("--branches", type=_whole, default=default.branches, metavar="B",
                        help="continuations checked at once, as a tree (default 1: a chain)")


def _settings(options: argparse.Namespace, **more) -> Settings:
    return Settings(
        n_max=options.n,
        n_min=options.n_min,
        k=options.k,
        policy=options.policy,
        branches=options.branches,
        **more,
    )


def _generate(options: argparse.Namespace) -> None:
    settings = _settings(
        options,
        max_new_tokens=options.max_new_tokens,
        stop=tuple(options.stop),
        sampling=_sampling(options),
        fixed_width=options.k + 1 if options.strict else 0,
        adaptive=options.adaptive,
    )
    ask = Ask(
        _prompt(options),
        options.answer_prefix,
        chat=not options.raw,
        system=options.system,
        reference=read_text(options.reference) if options.reference else "",
    )
    if not ask.prompt.strip() and not ask.answer_prefix:
        raise PromptError("The prompt is empty.")  # before a model is loaded for it
    if "" in options.ban:
        raise UsageError("A banned text has at least one character.")
    model = _load(options)
    if options.ban:
        sampling = replace(settings.sampling, banned=banned(model.tokenizer, options.ban))
        settings = replace(settings, sampling=sampling)
    found = _run(model.run(ask, settings, plain=options.compare), options.events)
    print()
    print(_table({"lookup": found["pld"], **({"plain": found["plain"]} if options.compare else {})}))
    if options.compare:
        print(_verdict(found["pld"], found["plain"]))


def _load(options: argparse.Namespace):
    from pld_core.models.errors import ModelError
    from pld_core.models.loading import load

    try:
        return load(options.model, options.device, options.dtype, _say)
    except ModelError as error:
        raise UsageError(str(error)) from None


def _prompt(options: argparse.Namespace) -> str:
    if options.prompt is not None:
        return options.prompt
    if options.prompt_file is not None:
        return read_text(options.prompt_file)
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError:
        raise UsageError("Standard input is not a text in UTF-8.") from None


def _run(events: Iterator[Event], path: str | None) -> dict[str, Trace]:
    """Runs the lanes, prints the lookup lane's text as it comes, writes the stream."""
    try:
        with open(path or os.devnull, "w", encoding="utf-8") as file:
            with closing(_written(_printed(events), file)) as written:
                return lanes(written)
    except OSError as error:
        if error.filename is None or error.filename != path:
            raise
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None


def _printed(events: Iterable[Event]) -> Iterator[Event]:
    failure = ""
    try:
        for event in events:
            if event.lane == "pld":
                print(*getattr(event, "pieces", ()), sep="", end="", flush=True)
                for notice in getattr(event, "notices", ()):
                    _say(notice)
            failure = getattr(event, "message", "")
            yield event
    except Exception as error:
        if failure:  # its lane ended with this sentence
            raise UsageError(failure) from error
        raise


def _written(events: Iterator[Event], file: IO[str]) -> Iterator[Event]:
    """Passes events on and writes each; a run that was cut short gets its ends."""
    seen: list[Event] = []
    try:
        for event in events:
            seen.append(event)
            print(dumps(event), file=file)
            yield event
    finally:
        for end in endings(lanes(seen)):
            print(dumps(end), file=file)


def _verify(options: argparse.Namespace) -> None:
    wanted = checks(options.max_new_tokens)
    if options.checks:
        names = options.checks.split(",")
        unknown = set(names) - {check.name for check in wanted}
        if unknown:
            raise UsageError(f"There is no check called {sorted(unknown)[0]!r}.")
        wanted = [check for check in wanted if check.name in names]
    rows = _rows(options)
    model = _load(options)
    print(f"{model.name}, {model.dtype} on {model.hardware}")
    counts = {check.name: Counter() for check in wanted}
    for outcome in verify(model, rows, wanted):
        counts[outcome.check.name][outcome.verdict] += 1
        if outcome.verdict != "same":
            why = (
                outcome.refused or outcome.failed or outcome.broken or _same(outcome.compared)
            )
            print(f"{outcome.row.name}, {outcome.check.name}: {why}")
    print(_verify_table(counts))
    if any(count["bug"] + count["different"] for count in counts.values()):
        raise UsageError("PLD and plain decoding differ by more than rounding.")
    if any(count["failed"] for count in counts.values()):
        raise UsageError("The model failed on some rows; the others are counted.")


def _rows(
    options: argparse.Namespace, unread: Callable[[str], None] | None = None
) -> Sequence[Row]:
    """The prompts of --rows, the built-in ones without; see `read_rows`."""
    if options.limit is not None and options.limit < 1:
        raise UsageError(f"--limit is a whole number from 1 on, not {options.limit}.")
    files = [read_rows(path, unread)[: options.limit] for path in options.rows]
    return [row for rows in files for row in rows] or ROWS


def _bench(options: argparse.Namespace) -> None:
    if options.lookup:
        return _bench_lookups(options)
    from pld_core.bench import code, report
    from pld_core.bench.engines import EngineError, local
    from pld_core.bench.measure import LEAST, measure
    from pld_core.bench.numbers import cells
    from pld_core.bench.page import benchmark
    from pld_core.bench.progress import Progress
    from pld_core.bench.records import Records, key
    from pld_core.bench.servers import llama_server, named, openai_server
    from pld_core.models.errors import ModelError
    from pld_core.models.loading import load

    if options.traces:
        raise UsageError("TRACE files are for --lookup.")
    if options.rounds < LEAST:
        raise UsageError(f"A median with a spread takes at least {LEAST} rounds.")
    names = list(LOCAL) if options.engines is None else options.engines.split(",")
    if unknown := [name for name in names if name not in LOCAL]:
        known = ", ".join(LOCAL)
        raise UsageError(f"There is no engine called {unknown[0]!r}: choose from {known}.")
    settings = _settings(options, max_new_tokens=options.max_new_tokens)
    rows = list(_rows(options, _say))
    model = _load(options)
    try:
        eager = partial(load, options.model, options.device, options.dtype, eager=True)
        engines = local(names, settings, model, eager)
        for kind, make, given in (
            ("llama-server", llama_server, options.llama_server),
            ("openai", openai_server, options.openai),
        ):
            for address in given:
                name, address = named(kind, address)
                engines.append(make(name, address, model, options.max_new_tokens))
    except (ModelError, EngineError) as error:
        raise UsageError(str(error)) from None
    names = [engine.name for engine in engines]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise UsageError(f"Two servers are called {twice[0]!r}: give them labels, as one=ADDRESS.")
    setup = {
        "model": model.name,
        "revision": model.revision,
        "dtype": model.dtype,
        "device": model.device,
        "hardware": model.hardware,
        "max_new_tokens": options.max_new_tokens,
        "versions": _versions(),
        "code": code.fingerprint(),
        "engines": {engine.name: engine.facts for engine in engines},
    }
    log = Path(f"{options.out}.jsonl")
    records = Records(log, setup)
    _say_resumed(log, records)
    _say(f"{model.name}, {model.dtype} on {model.hardware}: {len(rows)} prompts, "
         f"{len(engines)} engines, {options.rounds} rounds.")
    bar = Progress(sys.stderr)
    with _kept(log, bar):
        measure(engines, rows, options.rounds, records, bar)
    found = report.Report(
        _call(options),
        _now(),
        setup,
        {key(row): (row.ask.prompt + row.ask.answer_prefix)[:400] for row in rows},
        cells(records.of(rows, names, options.rounds), model.eos),
        records.failures(),
    )
    if not found.cells:
        raise UsageError("Nothing could be measured: " + " ".join(found.failed[:1]))
    print(report.markdown(found))
    _publish(options.out, report.data(found), benchmark(found))


def _bench_lookups(options: argparse.Namespace) -> None:
    from pld_core.bench import code, lookup_report, lookups
    from pld_core.bench.lookup_records import LookupRecords
    from pld_core.bench.progress import Progress

    settings = _settings(options)
    wanted = lookups.rules(settings.n_max, settings.n_min, settings.k, settings.policy)
    paths = [Path(path) for path in options.traces] or sorted(EXAMPLES.glob("*.ndjson"))
    traces = []
    for path in paths:
        try:
            traces.append((lookups.category_of(path), _lookup_lane(_read(str(path)))))
        except (TraceError, UsageError) as error:
            _say(f"{path} is left out: {error}")
    if not traces:
        raise UsageError("There is no recorded run to replay.")
    setup = {
        "hardware": platform.processor() or platform.machine(),
        "lookup": {name: getattr(settings, name) for name in ("n_max", "n_min", "k", "policy")},
        "versions": _versions(),
        "code": code.fingerprint(),
    }
    log = Path(f"{options.out}.jsonl")
    records = LookupRecords(log, setup)
    _say_resumed(log, records)
    bar = Progress(sys.stderr)
    with _kept(log, bar):
        timed = [*wanted, *lookups.itself()]
        costs = lookups.costs(timed, lookups.CONTEXTS, records, bar)
        worths = lookups.worths(wanted, traces, records, bar)
    found = lookup_report.LookupReport(_call(options), _now(), setup, costs, worths)
    print(lookup_report.markdown(found))
    _publish(options.out, lookup_report.data(found), lookup_report.html(found))


def _say_resumed(log: Path, records: Records | LookupRecords) -> None:
    if records.anew:
        _say(f"{log} is of another setup, so this starts anew: {'; '.join(records.anew)}.")
    elif records.resumed:
        _say(f"{log} holds {records.resumed} measurements of this setup; going on from there.")


@contextmanager
def _kept(log: Path, bar: Progress) -> Iterator[None]:
    """Around the measuring: after an interrupt, says where what was measured is."""
    try:
        yield
    except KeyboardInterrupt:
        bar.clear()
        _say(f"What was measured is in {log}; the same call goes on from there.")
        raise


def _publish(name: str, data: dict, page: str) -> None:
    for ending, text in (("json", json.dumps(data, indent=1)), ("html", page)):
        Path(f"{name}.{ending}").write_text(text, encoding="utf-8", errors="replace")
    _say(f"{name}.json and {name}.html are written.")


def _call(options: argparse.Namespace) -> str:
    return shlex.join(["python", "-m", "pld_core", *options.given])


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("torch", "transformers"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _verify_table(counts: dict[str, Counter]) -> str:
    verdicts = ("same", "tie", "bug", "different", "refused", "failed")
    lines = [["", "rows", *verdicts]] + [
        [name, str(count.total()), *(str(count[verdict]) for verdict in verdicts)]
        for name, count in counts.items()
    ]
    return _aligned(lines)


def _replay(options: argparse.Namespace) -> None:
    recorded = _lookup_lane(_read(options.trace))
    try:
        costs = Settings.from_json(recorded.start.settings).pass_seconds
        settings = _settings(options, adaptive=options.adaptive, pass_seconds=costs)
        replayed = what_if(recorded, settings)
    except ValueError as error:
        raise UsageError(str(error)) from None
    print(_table({"recorded": recorded, "replayed": replayed}, times=False))


def _stats(options: argparse.Namespace) -> None:
    found = _read(options.trace)
    names = {"pld": "lookup"}
    print(_table({names.get(name, name): trace for name, trace in found.items()}))
    broken = [law for trace in found.values() for law in trace.laws()]
    for law in broken:
        print(f"broken law: {law}")
    if {"pld", "plain"} <= found.keys():
        print(_verdict(found["pld"], found["plain"]))


def _config(options: argparse.Namespace) -> None:
    try:
        made = configurations(_settings(options))
    except ValueError as error:
        raise UsageError(str(error)) from None
    print("\n\n".join(f"# {c.engine}. {c.note}\n{c.text}" for c in made))


def _convert(options: argparse.Namespace) -> None:
    try:
        if not Path(options.source).is_dir():
            _read(options.source)  # refuses what is no trace, in one sentence
            with open(options.source, encoding="utf-8") as file:
                specspecs.write(read_events(file), options.out)
            return
        made = list(specspecs.read(options.source, _pieces(options.tokenizer)))
    except specspecs.ParquetError as error:
        raise UsageError(str(error)) from None
    if Path(options.out).is_dir():
        raise UsageError(f"{options.out} is a folder; name a file for the trace.")
    Path(options.out).write_text("".join(f"{dumps(event)}\n" for event in made), "utf-8")


def _pieces(name: str | None):
    """tokens -> their texts; without a tokenizer, their ids in brackets."""
    if name is None:
        return lambda ids: [f"[{token}]" for token in ids]
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except Exception:
        raise UsageError(f"There is no tokenizer {name} here or on the hub.") from None
    return lambda ids: pieces_of(ids, decoder(tokenizer), control_tokens(tokenizer))


def _read(path: str) -> dict[str, Trace]:
    try:
        with open(path, encoding="utf-8") as file:
            found = read(file)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text in UTF-8.") from None
    if any(not trace.ids for trace in found.values()):
        raise UsageError(f"{path} holds a lane without a token.")
    return found


def _lookup_lane(found: dict[str, Trace]) -> Trace:
    return found.get("pld") or next(iter(found.values()))


def _table(columns: dict[str, Trace], times: bool = True) -> str:
    rows = [_column(trace, times) for trace in columns.values()]
    labels = list(rows[0])
    lines = [["", *columns]] + [[label, *(row[label] for row in rows)] for label in labels]
    return _aligned(lines)


def _aligned(lines: list[list[str]]) -> str:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        line[0].ljust(widths[0]) + "".join("  " + c.rjust(w) for c, w in zip(line[1:], widths[1:]))
        for line in lines
    )


def _column(trace: Trace, times: bool) -> dict[str, str]:
    n = trace.numbers()
    settings = trace.start.settings
    branches = settings.get("branches", 1)
    wide = "" if branches == 1 else f", {branches} branches"
    column = {
        "n, k": f"{settings.get('n_max')}..{settings.get('n_min')}, {settings.get('k')}{wide}",
        "tokens": f"{n.tokens}",
        "passes": f"{n.passes}",
        "tokens per pass": f"{n.tokens_per_pass:.2f}",
        "copy passes": f"{n.copy_passes}",
        "passes without draft": f"{n.undrafted_passes}",
        "accepted / drafted": f"{n.accepted} / {n.drafted}",
        "f": f"{n.f:.3f}",
        "L": f"{n.L:.2f}",
        "text copy rate": f"{trace.text_copy_rate():.3f}",
        "ended by": trace.end.reason if trace.end else "no end",
    }
    if times:
        speed = n.tokens_per_second
        column |= {
            "prefill s": f"{n.prefill_seconds:.3f}",
            "decode s": f"{n.decode_seconds:.3f}",
            "decode tokens/s": "-" if speed is None else f"{speed:.1f}",
            "lookup us per pass": _micros(n.lookup_seconds, len(trace.passes)),
        }
    return column


def _micros(seconds: float, passes: int) -> str:
    return f"{1e6 * seconds / passes:.0f}" if passes else "-"


def _verdict(pld: Trace, plain: Trace) -> str:
    if pld.cut_short or plain.cut_short:
        found = compare(pld, plain)
        went = " as far as both lanes went" if found.verdict == "same" else ""
        return _same(found) + went
    ratios = speedups(pld, plain)
    time = ratios["time"]
    speed = f"{ratios['passes']:.2f}x fewer passes"
    if time is not None:
        speed += f", {time:.2f}x in time (predicted {ratios['predicted']:.2f}x)"
    return f"{_same(pld.compared or compare(pld, plain))}; {speed}"


def _same(found: Compared) -> str:
    if found.verdict == "same":
        return "same text"
    margin = "unknown" if found.margin is None else f"{found.margin:.4g}"
    why = {
        "tie": f": a rounding tie, rounding moves margins by up to {found.rounding:.4g} here",
        "bug": f": a bug, since rounding moves margins by no more than {found.rounding:.4g} here",
    }.get(found.verdict, "") if found.rounding is not None else ""
    return f"different text from token {found.first_difference} on, margin {margin}{why}"
