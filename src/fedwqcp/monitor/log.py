"""The monitor's log, read back: how every agent stood after each update."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Any

from fedwqcp.errors import RecordError
from fedwqcp.federation.files import read
from fedwqcp.monitor.standing import Standing
from fedwqcp.monitor.state import VERSION
from fedwqcp.wire.limits import LOG_BYTES

_WHOLE = ("calibration", "n", "hits", "before", "since_n", "since_hits")
_REAL = ("floor", "low", "high", "evidence", "bar")


@dataclass(frozen=True)
class Entry:
    """One line of a log.

    Parameters
    ----------
    update : int
        Number of the update.
    time : str
        When, as it was told.
    standings : tuple of Standing
        One agent, then its classes.
    """

    update: int
    time: str
    standings: tuple[Standing, ...]


def read_log(path: Path) -> tuple[Entry, ...]:
    """Read a log.

    Parameters
    ----------
    path : Path
        A file that `append_log` wrote.

    Returns
    -------
    tuple of Entry
        In the order of the updates.

    Raises
    ------
    InputError
        If the file cannot be read.
    RecordError
        If a line is damaged or of another version.
    """
    data = read(path, LOG_BYTES)
    lines = data.splitlines()
    if lines and not data.endswith(b"\n") and not lines[-1].endswith(b"}"):
        lines.pop()  # its writer was stopped; the state keeps this line for the next update
    found = [_entry(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]
    return tuple(sorted(found, key=lambda entry: entry.update))


def _entry(line: bytes, where: str) -> Entry:
    """Read one line."""
    try:
        kept = json.loads(line)
        version = kept["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RecordError(f"{where}: must be a line of a monitor's log; remove it") from None
    if version != VERSION:
        raise RecordError(f"{where}: this software reads version {VERSION}, it has {version!r}")
    try:
        standings = tuple(_standing(stream) for stream in kept["streams"])
        if not standings or {each.agent for each in standings} != {standings[0].agent}:
            raise ValueError("a line is about one agent")
        return Entry(_count(kept["update"]), str(kept["time"]), standings)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise RecordError(f"{where} is damaged: {error}; remove it") from None


def _standing(stream: Mapping[str, Any]) -> Standing:
    """Read how one stream stood; what is derived from its fields is computed anew."""
    kept = {field.name: stream[field.name] for field in fields(Standing)}
    kept |= {name: _count(kept[name]) for name in _WHOLE}
    kept |= {name: float(kept[name]) for name in _REAL}
    kept |= {n: None if kept[n] is None else _count(kept[n]) for n in ("label", "alarm")}
    found = Standing(**{**kept, "agent": str(kept["agent"])})
    parts = (found.low, found.high, found.floor)
    if not (found.hits <= found.n and found.since_hits <= found.since_n <= found.n):
        raise ValueError("a stream counts more hits than rows")
    if not all(0 <= part <= 1 for part in parts):
        raise ValueError("a share must be from 0 to 1")
    if not (isfinite(found.evidence) and isfinite(found.bar)):
        raise ValueError("evidence must be a finite number")
    return found


def _count(value: object) -> int:
    """Return a count."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a count must be a whole number of at least 0")
    return value
