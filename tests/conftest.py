"""What every test may ask for."""

import os
import shutil
from collections import Counter
from pathlib import Path

import hypothesis
import pytest

from pld_core.threads import settle

settle()  # before any test file imports torch

# How long an example takes is the machine's business.
hypothesis.settings.register_profile("tests", parent=hypothesis.settings(), deadline=None)
hypothesis.settings.load_profile("tests")

ROOT = Path(__file__).resolve().parent.parent

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")


def pytest_terminal_summary(terminalreporter) -> None:
    """Say every reason for skipping once, however many tests it skipped."""
    skipped = terminalreporter.stats.get("skipped", [])
    for reason, tests in Counter(report.longrepr[2] for report in skipped).items():
        terminalreporter.write_line(f"{tests} skipped: {reason.removeprefix('Skipped: ')}")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real inputs beside the checkout; the test is skipped where there is none."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no folder of real inputs at ../shared/data")
    return folder


@pytest.fixture(scope="session")
def embedded() -> Path:
    """The folder of the real embedded model, fetched and converted by the first run ever."""
    from pld_core.models.embedded import embedded_model

    return embedded_model()


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; without one the test is skipped, on a build machine it fails."""
    for name in CHROMIUM_NAMES:
        if path := shutil.which(name):
            return path
    missing = "no Chromium here: install the Debian package chromium (apt-get install chromium)"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)
