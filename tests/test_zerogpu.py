"""A run that happens in another process, as on ZeroGPU."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Callable, Iterator

import pytest

import app
from pld_core import trace
from pld_core.hosting.zerogpu import ZeroGpu, on_zero_gpu, seconds
from pld_core.links import FORM
from pld_core.serving import Request, RequestError, Rival, Slot, Status
from tests import tiny
from tests.zero import Zero

ASKED = Request(tiny.PROMPT, chat=False, adaptive=False, max_new_tokens=40)
ROOT = Path(__file__).resolve().parent.parent
WORKER_LOST = app.Words.zero_gpu["ZeroGPU worker error"]


@pytest.fixture(scope="module")
def slot() -> Slot:
    slot = Slot()
    slot._model = tiny.model("Llama", limit=100_000)
    slot._status = Status("ready", "tiny")
    return slot


@pytest.fixture
def zero() -> Iterator[Zero]:
    zero = Zero()
    yield zero
    assert [worker for worker in zero.workers if worker.is_alive()] == []


@pytest.fixture
def runner(slot: Slot, zero: Zero) -> ZeroGpu:
    return ZeroGpu(slot, zero.GPU)


def handler(runner: ZeroGpu) -> Callable:
    """The page's own function behind its Run button, asked as Gradio asks it."""
    page = app.build(runner)
    (run,) = [fn for fn in page.fns.values() if fn.name == "run"]
    asked = SimpleNamespace(session_hash="s", client=SimpleNamespace(host="here"))
    defaults = [block.value for block in run.inputs]

    def ask(**more):
        values = {**dict(zip(FORM, defaults, strict=True)), **more}
        return run.fn(asked, *values.values())

    return ask


def told(update) -> str:
    return update[1] if isinstance(update[1], str) else ""


def steps(stream: str) -> list:
    """A stream without what the clock and the threads say."""
    kept = []
    for line in stream.splitlines():
        event = json.loads(line)
        for name in ("seconds", "created", "hardware", "probabilities", "margins", "wanted"):
            event.pop(name, None)
        kept.append(event)
    return sorted(kept, key=lambda event: event["lane"])


def test_the_stream_is_the_one_of_a_run_here(slot, runner, zero) -> None:
    (*updates, whole) = runner.run(ASKED)
    (*_, here) = slot.run(ASKED)
    assert steps(whole) == steps(here)
    assert all(whole.startswith(update) for update in updates)
    assert zero.workers[0].pid != os.getpid()


def test_a_refusal_keeps_its_sentence(runner, slot) -> None:
    with pytest.raises(RequestError, match="The prompt is empty."):
        next(runner.run(replace(ASKED, prompt="")))
    assert runner.status is slot.status


def test_the_time_asked_for_grows_with_the_tokens_of_all_lanes(runner, zero) -> None:
    asked = replace(ASKED, max_new_tokens=500)
    two, one = seconds(asked), seconds(replace(asked, plain=False))
    three = seconds(replace(asked, rival=Rival(1, 1, 2, "recent")))
    assert 10 < one < two < three <= 120
    assert seconds(replace(asked, max_new_tokens=100_000)) == 120
    assert seconds(replace(asked, max_new_tokens=None)) == 10  # which is then refused in words
    list(runner.run(ASKED))
    assert zero.durations == [seconds(ASKED)]


def test_the_page_runs_on_it(runner) -> None:
    ask = handler(runner)
    updates = list(ask(prompt=tiny.PROMPT, chat=False, max_new_tokens=30))
    stream = updates[-1][0]
    lanes = trace.read(stream.splitlines())
    assert [list(lane.laws()) for lane in lanes.values()] == [[], []]
    assert lanes["pld"].end.reason == "length" and told(updates[-1]) == ""


def test_a_stopped_run_frees_the_gpu_and_the_next_one_works(runner, zero) -> None:
    ask = handler(runner)
    run = ask(prompt=tiny.PROMPT, chat=False, max_new_tokens=1000)
    while not isinstance(next(run)[0], str):
        pass
    run.close()
    assert not zero.workers[0].is_alive()
    *_, last = ask(prompt=tiny.PROMPT, chat=False, max_new_tokens=5)
    assert trace.read(last[0].splitlines())["pld"].end.reason == "length"


def test_a_killed_worker_is_a_sentence_and_the_next_run_works(runner, zero) -> None:
    ask = handler(runner)
    run = ask(prompt=tiny.PROMPT, chat=False, max_new_tokens=1000)
    while not isinstance(next(run)[0], str):
        pass
    zero.kill()
    *_, last = run
    assert told(last) == WORKER_LOST
    assert trace.read(last[0].splitlines())["pld"].end.reason == "error"
    *_, last = ask(prompt=tiny.PROMPT, chat=False, max_new_tokens=5)
    assert told(last) == ""


@pytest.mark.parametrize("title", app.Words.zero_gpu)
def test_a_gpu_that_is_refused_is_one_sentence_and_nothing_is_lost(title, runner, zero) -> None:
    zero.refuse = title, "<a href='x'>52s requested vs. 46s left</a>"
    ask = handler(runner)
    *_, last = ask(prompt=tiny.PROMPT, chat=False)
    assert told(last) == app.Words.zero_gpu[title]
    assert told(last).count(".") == 1 and told(last).endswith(".")
    assert not isinstance(last[0], str)  # what the view shows stays
    zero.refuse = None
    *_, last = ask(prompt=tiny.PROMPT, chat=False, max_new_tokens=5)
    assert told(last) == ""


def test_it_is_the_platform_that_says_where_this_is() -> None:
    assert on_zero_gpu({"SPACES_ZERO_GPU": "true"})
    assert not on_zero_gpu({}) and not on_zero_gpu({"SPACES_ZERO_GPU": "false"})


IMITATED = """
import sys
import spaces
from spaces.zero.torch import patching
from pld_core.serving import Slot
slot = Slot(sys.argv[1], hardware="ZeroGPU")
slot.load()
model = slot._model
assert slot.status.text.endswith("bfloat16 on ZeroGPU"), slot.status
assert model.device == "cuda" and model.fused is not None
held = [*model.network.parameters(), *model.network.buffers(), model.fused.embedding]
assert all(tensor in patching.cuda_aliases for tensor in held)
assert patching.pack() > 0
"""


def test_the_package_itself_takes_the_model(tmp_path) -> None:
    """Loading in the emulation in which ZeroGPU's own package runs a program before it has a
    GPU; where that package is, see make test-space."""
    pytest.importorskip("spaces")
    made = tiny.model("Llama")
    made.network.save_pretrained(tmp_path / "model")
    made.tokenizer.save_pretrained(tmp_path / "model")
    environment = {
        **os.environ,
        "SPACES_ZERO_GPU": "true",
        "SPACES_ZERO_DEVICE_API_URL": "http://127.0.0.1:9",
        "ZEROGPU_OFFLOAD_DIR": str(tmp_path / "packed"),
    }
    command = [sys.executable, "-c", IMITATED, str(tmp_path / "model")]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr[-2000:]
