"""Text for people: the one place where findings, verdicts and guarantees become sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable


def counted(count: int, what: str) -> str:
    """Write how many there are of something, such as ``"1 agent"`` or ``"1,797 points"``."""
    ending = "es" if what.endswith(("s", "ch")) else "s"
    return f"{count:,} {what}{'' if count == 1 else ending}"


def sentence(text: str, names: Iterable[str] = ()) -> str:
    """Begin with a capital, unless with one of some names, and end with a full stop.

    >>> sentence("few points at zurich"), sentence("zurich sent +inf", ["zurich"])
    ('Few points at zurich.', 'zurich sent +inf.')
    """
    if not any(re.match(rf"{re.escape(name)}(?!\w)", text) for name in names):
        text = text[:1].upper() + text[1:]
    return text + ("" if text.endswith(".") else ".")
