"""Coverage after release as text."""

from __future__ import annotations

from typing import Any

from fedwqcp.metrics import MIN_COUNT


def fallen(one: Any, *, hidden: bool = False) -> str:
    """Say how far the coverage of an agent or class has fallen, and since when."""
    where = one.agent if one.label is None else f"{one.agent}, class {one.label}"
    now = "has dropped"
    if not hidden and min(one.n, one.since_n) >= MIN_COUNT:
        now = f"is {one.current:.3f} of {one.since_n:,} rows"
    return f"{where}: coverage {now} since about {one.since}; the limit is {one.floor:.3f}"
