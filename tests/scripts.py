"""The programs of benchmarks/: their parts, and as a stranger runs them."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def parts(name: str) -> dict:
    """What the program defines, by name."""
    return runpy.run_path(str(_path(name)))


def run(name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs it to its end, which must be a good one, in a folder of its own."""
    command = [sys.executable, _path(name), *arguments]
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran


def _path(name: str) -> Path:
    return ROOT / "benchmarks" / f"{name}.py"
