"""The presets, and the runs that were recorded with them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from pld_core.gallery import summary
from pld_core.page.parts import STATIC
from pld_core.trace import TraceError

log = logging.getLogger(__name__)


def recordings(folder: Path) -> dict[str, Path]:
    """Title -> file of each recorded run, in the order of the presets."""
    titles = {preset["id"]: preset["title"] for preset in presets()}
    order = list(titles)
    files = sorted(
        folder.glob("*.ndjson"),
        key=lambda f: (order.index(f.stem) if f.stem in titles else len(order), f.stem),
    )
    return {titles.get(f.stem, f.stem.replace("-", " ").capitalize()): f for f in files}


def summaries(recorded_runs: dict[str, Path]) -> list[dict[str, Any]]:
    """What each recorded run says of itself, for the gallery."""
    found = []
    for title, path in recorded_runs.items():
        try:
            found.append({"title": title, **summary(path)})
        except (TraceError, ValueError) as error:
            log.warning("%s is not in the gallery: %s", path.name, error)
    return found


def presets() -> list[dict[str, Any]]:
    """See static/presets.json; `id` is also the name of its recorded run."""
    return json.loads((STATIC / "presets.json").read_text("utf-8"))
