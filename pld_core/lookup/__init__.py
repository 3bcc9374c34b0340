"""Where drafts come from: what followed the context's last tokens when they stood before.

The decoder checks every draft, so a lookup decides how many passes a text takes, never the
text. A new policy is one class in one file, named in POLICIES.
"""

from __future__ import annotations

from typing import Sequence

from pld_core.lookup.index import NgramIndex
from pld_core.lookup.longest import LongestLookup
from pld_core.lookup.nearest import NearestLookup
from pld_core.lookup.ngram import NgramLookup, OldestLookup
from pld_core.lookup.protocol import Draft, Lookup, NoLookup
from pld_core.lookup.tree import TreeLookup
from pld_core.lookup.vote import VoteLookup
from pld_core.settings import Settings

__all__ = ["POLICIES", "Draft", "Lookup", "NgramIndex", "NgramLookup", "NoLookup", "TreeLookup", "build"]

POLICIES = {
    "recent": NgramLookup,
    "oldest": OldestLookup,
    "nearest": NearestLookup,
    "vote": VoteLookup,
    "longest": LongestLookup,
}
"""The class of each policy that the settings name."""


def build(settings: Settings, reference: Sequence[int] = ()) -> Lookup:
    """The lookup that the settings ask for."""
    if settings.k == 0:
        return NoLookup()
    lookup = POLICIES[settings.policy](settings, reference)
    if settings.branches == 1 or settings.fixed_width:  # in strict mode a pass has one width
        return lookup
    return TreeLookup(lookup, settings, reference)
