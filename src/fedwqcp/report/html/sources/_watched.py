"""What is known of a monitor: how its agents stand, and its log as steps and alarms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from math import ceil
from pathlib import Path

from fedwqcp.errors import InputError
from fedwqcp.federation.files import read
from fedwqcp.metrics import FEWEST
from fedwqcp.monitor import Standing, Terms, load_monitor
from fedwqcp.monitor.state import Entry, read_log
from fedwqcp.report.html.history import Step

MOST = 120
"""Steps of an agent that are drawn, at most."""

_ALL = 9_000
"""Steps of all agents, where there are many of them."""


@dataclass(frozen=True)
class Watched:
    """A monitor as far as its files tell.

    Parameters
    ----------
    now : tuple of Standing
        Each agent, followed by its classes.
    log : tuple of Entry
        How they came to stand so; empty where there is no log.
    terms : Terms or None
        What the monitor promises; None where only the log is there.
    updates : int
        How many updates there were.
    """

    now: tuple[Standing, ...]
    log: tuple[Entry, ...]
    terms: Terms | None
    updates: int

    @property
    def agents(self) -> tuple[Standing, ...]:
        """How the agents stand, all their rows together."""
        return tuple(each for each in self.now if each.label is None)

    @property
    def classes(self) -> tuple[Standing, ...]:
        """How the watched classes stand."""
        return tuple(each for each in self.now if each.label is not None)

    @property
    def alarms(self) -> tuple[Standing, ...]:
        """The streams with an alarm."""
        return tuple(each for each in self.now if each.alarm is not None)


@dataclass(frozen=True)
class Raised:
    """An alarm in the log.

    Parameters
    ----------
    standing : Standing
        How the stream stood when the alarm was first seen.
    update : int
        In which update.
    time : str
        When.
    """

    standing: Standing
    update: int
    time: str


def holds_state(path: Path) -> bool:
    """Tell a monitor's state from other files."""
    try:
        return path.is_file() and "fedwqcp-monitor" in json.loads(read(path))
    except (InputError, ValueError, TypeError, RecursionError):
        return False


def holds_log(path: Path) -> bool:
    """Tell a monitor's log from other files."""
    try:
        with path.open("rb") as file:
            first = json.loads(file.readline(1_000_000))
        return {"version", "update", "streams"} <= set(first)
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def watched(path: Path) -> Watched:
    """Read a state with the log beside it, or a log with the state beside it."""
    if holds_state(path):
        state, log = path, path.with_name(f"{path.name}.log")
    else:
        state, log = path.with_name(path.name.removesuffix(".log")), path
    entries = read_log(log) if log.is_file() else ()
    if state != log and holds_state(state):
        monitor = load_monitor(state)
        return Watched(monitor.standings(), entries, monitor.terms, monitor.updates)
    latest = {entry.standings[0].agent: entry.standings for entry in entries}
    now = tuple(each for standings in latest.values() for each in standings)
    return Watched(now, entries, None, entries[-1].update)


def steps(log: Sequence[Entry], now: Standing, agents: int) -> list[Step]:
    """Return an agent's way in steps of at least ten rows, so that no single row can be told."""
    seen = [(e.update, e.time, e.standings[0]) for e in log if e.standings[0].agent == now.agent]
    if not seen or seen[-1][2].n != now.n or seen[-1][2].calibration != now.calibration:
        seen.append((log[-1].update if log else 0, "now", now))
    rows = starts(log, now)
    most = min(MOST, max(12, _ALL // agents))
    least = max(FEWEST, ceil((rows[now.calibration] + now.n) / most))
    found: list[Step] = []
    for calibration, own in groupby(seen, key=lambda one: one[2].calibration):
        kept: list[Step] = []
        for update, time, at in reversed(list(own)):
            enough = not kept or kept[-1].rows - at.n >= least
            if at.n >= FEWEST and enough and at.coverage is not None:
                row = rows[calibration] + at.n
                counts = (calibration, row, at.n, at.hits)
                kept.append(Step(update, when(time), *counts, at.coverage, at.low, at.high))
        found += reversed(kept)
    return found


def starts(log: Sequence[Entry], now: Standing) -> dict[int, int]:
    """Return how many rows of an agent came before each of its calibrations."""
    own = [e.standings[0] for e in log if e.standings[0].agent == now.agent] + [now]
    most: dict[int, int] = {}
    for at in own:
        most[at.calibration] = max(most.get(at.calibration, 0), at.n)
    found, before = {}, 0
    for calibration in sorted(most):
        found[calibration] = before
        before += most[calibration]
    return found


def raised(log: Sequence[Entry]) -> list[Raised]:
    """Return every alarm of the log, once, when it was first seen."""
    found: dict[tuple[str, int | None, int], Raised] = {}
    for entry in log:
        for each in entry.standings:
            if each.alarm is not None:
                key = (each.agent, each.label, each.calibration)
                found.setdefault(key, Raised(each, entry.update, when(entry.time)))
    return list(found.values())


def when(time: str) -> str:
    """Write a date and time shortly; another name for a moment stays as it is."""
    try:
        return f"{datetime.fromisoformat(time):%Y-%m-%d %H:%M %Z}".strip()
    except ValueError:
        return time
