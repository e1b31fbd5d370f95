"""Settings on the command line: ``name=value``."""

from __future__ import annotations

from collections.abc import Sequence

from fedwqcp.errors import InputError
from fedwqcp.wire.round import Setting


def parse_settings(given: Sequence[str]) -> dict[str, Setting]:
    """Turn ``name=value`` into settings.

    Parameters
    ----------
    given : sequence of str
        As typed; a value is true, false, none, a number, numbers with commas, or text.

    Returns
    -------
    dict
        By name.

    Raises
    ------
    InputError
        If an entry has no equals sign or no name.

    Examples
    --------
    >>> parse_settings(["overflow=clip", "points=32", "target=0.5,0.5"])
    {'overflow': 'clip', 'points': 32, 'target': (0.5, 0.5)}
    """
    settings: dict[str, Setting] = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise InputError(f"a setting is written name=value, got {entry!r}")
        key = name.replace("-", "_")
        if key in settings:
            raise InputError(f"setting {key!r} is given twice")
        settings[key] = _value(value)
    return settings


def _value(text: str) -> Setting:
    """Read one value."""
    words: dict[str, Setting] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        if "," in text:
            return tuple(float(part) for part in text.split(","))
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        return text
