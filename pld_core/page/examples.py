"""The presets, and the runs that were recorded with them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, Iterable

from pld_core.gallery import summary
from pld_core.page.parts import STATIC
from pld_core.trace import TraceError

log = logging.getLogger(__name__)


class Examples:
    """Presets and recorded runs, each by its title."""

    def __init__(self, folder: Path = STATIC / "examples") -> None:
        self.presets = {preset["title"]: preset for preset in presets()}
        self.recorded = _recorded(folder, self.presets.values())

    @property
    def first(self) -> dict[str, Any]:
        """The preset that a visitor finds in the form."""
        return next(iter(self.presets.values()))

    @property
    def shown(self) -> str | None:
        """The recorded run that a visitor finds on the page."""
        return next(iter(self.recorded), None)

    def stream(self, title: str | None) -> str:
        return self.recorded[title].read_text("utf-8") if title in self.recorded else ""

    def about(self, title: str | None) -> str:
        return self.presets[title]["about"] if title in self.presets else ""

    def about_prompt(self, prompt: str) -> str:
        known = {preset["prompt"]: preset["about"] for preset in self.presets.values()}
        return known.get(prompt, "")

    def titled(self, name: str | None) -> str | None:
        """The title of the recorded run that a link or the gallery calls so."""
        return next((title for title, file in self.recorded.items() if file.stem == name), None)

    def name(self, title: str | None, prompt: str) -> str | None:
        """What a link calls the recorded run that is shown, or the preset that is asked."""
        if title in self.recorded:
            return self.recorded[title].stem
        known = {preset["prompt"]: preset["id"] for preset in self.presets.values()}
        return known.get(prompt)

    def summaries(self) -> list[dict[str, Any]]:
        """What each recorded run says of itself, for the gallery."""
        found = []
        for title, path in self.recorded.items():
            try:
                found.append({"title": title, **summary(path)})
            except (TraceError, ValueError) as error:
                log.warning("%s is not in the gallery: %s", path.name, error)
        return found


def _recorded(folder: Path, presets: Iterable[dict[str, Any]]) -> dict[str, Path]:
    """Title -> file of each recorded run, in the order of the presets."""
    titles = {preset["id"]: preset["title"] for preset in presets}
    order = list(titles)
    files = sorted(
        folder.glob("*.ndjson"),
        key=lambda f: (order.index(f.stem) if f.stem in titles else len(order), f.stem),
    )
    return {titles.get(f.stem, f.stem.replace("-", " ").capitalize()): f for f in files}


def presets() -> list[dict[str, Any]]:
    """See static/presets.json; `id` is also the name of its recorded run."""
    return json.loads((STATIC / "presets.json").read_text("utf-8"))
