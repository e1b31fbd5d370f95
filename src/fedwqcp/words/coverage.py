"""Coverage after release as text."""

from __future__ import annotations

from typing import Any


def fallen(one: Any, *, counted: bool) -> str:
    """Say how far the coverage of an agent or class has fallen, and since when."""
    kind = "group" if isinstance(one.label, str) else "class"
    where = one.agent if one.label is None else f"{one.agent}, {kind} {one.label}"
    now = f"is {one.current:.3f} of {one.since_n:,} rows" if counted else "has dropped"
    return f"{where}: coverage {now} since about {one.since}; the limit is {one.floor:.3f}"
