"""The rounds that alarms opened: once for each alarm, and not more often than was allowed.

They are kept beside a monitor's state as lines of JSON, and read before another one is opened.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import msgspec

from fedwqcp._io import LOG_BYTES, append_line, exists, from_json, read
from fedwqcp.errors import InputError, RecordError


class OpenedRound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happened to the alarms of some agents."""

    when: datetime
    event: Literal["opened", "failed", "recalibrated"]
    agents: tuple[str, ...]


def claim_round(
    path: Path, alarmed: Collection[str], now: datetime, days: float
) -> tuple[tuple[str, ...], datetime | None]:
    """Return for whose alarms a round is to be opened now, and write that down first.

    A process that is killed before it opened the round leaves the claim behind, so that no alarm
    opens two. Where it is too early, return from when on one may be opened.
    """
    if not 0 <= days < 36500:
        raise InputError(f"days between two rounds must be from 0 to 36500, got {days}")
    answered: set[str] = set()
    opened: list[datetime] = []
    for line in read_rounds(path):
        if line.event == "opened":
            answered |= set(line.agents)
            opened.append(line.when)
        else:
            answered -= set(line.agents)
        if line.event == "failed" and opened:
            opened.pop()
    fresh = tuple(sorted(set(alarmed) - answered))
    if not fresh:
        return (), None
    earliest = opened[-1] + timedelta(days=days) if opened else now
    if now < earliest:
        return (), earliest
    note_round(path, OpenedRound(now, "opened", fresh))
    return fresh, None


def note_round(path: Path, line: OpenedRound) -> None:
    """Add a line."""
    append_line(path, msgspec.json.encode(line))


def read_rounds(path: Path) -> list[OpenedRound]:
    """Return what was written down so far."""
    if not exists(path):
        return []
    lines = [from_json(line, OpenedRound) for line in read(path, LOG_BYTES).splitlines()]
    found = [line for line in lines if line is not None and line.when.tzinfo is not None]
    if len(found) != len(lines):
        raise RecordError(f"{path} is damaged: restore it, or remove it to start again")
    return found
