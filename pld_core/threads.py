"""How many threads a forward pass has, and how they wait for each other."""

from __future__ import annotations

import os


def settle() -> None:
    """Call before torch is imported: OpenMP reads its environment once.

    Threads that spin while another process wants their core ruin a pass (a factor of 30 was
    measured on two busy cores), and beside a web server and a browser a core is always
    wanted. What the environment already says is left alone.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
