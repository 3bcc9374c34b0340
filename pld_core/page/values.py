"""What the form's values mean: a request, and the settings of other engines."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Mapping

from pld_core.configuration import configurations
from pld_core.links import RANGES, TEXTS
from pld_core.serving import Request, Rival
from pld_core.settings import Settings

_RIVAL = "rival_"
_WHOLE = {name for name, field in RANGES.items() if type(field.default) is int}


def requested(values: Mapping[str, Any]) -> Request:
    """What the form's values, by the names of links.FORM, ask for. A field that was emptied may
    hold None."""
    mine, rivals = {}, {}
    for name, value in values.items():
        value = _whole(value) if name in _WHOLE else value
        if name.startswith(_RIVAL):
            rivals[name.removeprefix(_RIVAL)] = value
        else:
            mine[name] = value
    texts = {name: mine[name] or "" for name in TEXTS}
    mine |= texts | {
        "system": texts["system"] or None,
        "temperature": 0.0 if mine["temperature"] is None else mine["temperature"],
        "rival": Rival(**rivals) if mine["rival"] else None,
    }
    return Request(**mine)


def configured(n_max: Any, n_min: Any, k: Any, branches: Any, policy: str) -> str:
    """The configurations for these settings, or why there are none, as JSON."""
    try:
        numbers = {"n_max": n_max, "n_min": n_min, "k": k, "branches": branches}
        whole = {name: _whole(number) for name, number in numbers.items()}
        settings = Settings(**whole, policy=policy)
        return json.dumps({"engines": [asdict(made) for made in configurations(settings)]})
    except ValueError as error:
        return json.dumps({"problem": str(error), "engines": []})


def _whole(value: Any) -> Any:
    """A number field's value: its whole number, or what it is, for the settings to refuse."""
    return int(value) if isinstance(value, (int, float)) and value == value // 1 else value
