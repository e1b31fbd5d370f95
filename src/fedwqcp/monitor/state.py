"""A monitor in a file: versioned JSON, replaced in one step, and a log that only grows.

Beside it, as lines of JSON, the rounds that alarms opened: one for each alarm, and not more often
than was allowed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from math import log as ln
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from fedwqcp._io import (
    LOG_BYTES,
    append_line,
    exists,
    from_json,
    is_absent,
    is_file,
    locked,
    opened,
    read,
    to_json,
    write_atomic,
)
from fedwqcp.errors import InputError, RecordError
from fedwqcp.monitor.monitor import REMEMBERED, AgentState, Monitor, MonitorTerms, Standing
from fedwqcp.monitor.sequential_tests import Count

T = TypeVar("T")

VERSION = 1
"""Version of the state file and of the lines of the log."""


class LogEntry(msgspec.Struct, frozen=True):
    """One line of a log: how an agent stood after an update.

    Parameters
    ----------
    update : int
        Number of the update.
    time : str
        Date and time, or any name for that moment.
    streams : tuple of Standing
        The agent, then its classes.
    """

    update: Count
    time: str
    streams: tuple[Standing, ...]

    def __post_init__(self) -> None:
        if len({each.agent for each in self.streams}) != 1:
            raise ValueError("a line is about one agent")


def save_monitor(monitor: Monitor, path: Path, *, replace: bool = True) -> None:
    """Write a monitor whole or not at all.

    Parameters
    ----------
    monitor : Monitor
        What to keep.
    path : Path
        Where.
    replace : bool, optional
        Whether an existing file is replaced.

    Raises
    ------
    InputError
        If the file cannot be written, or is there and must not be replaced.
    """
    state = _State(VERSION, monitor.terms, monitor.updates, monitor.unlogged, monitor.sites)
    if not write_atomic(path, to_json(state, indent=1), replace=replace):
        raise InputError(f"{path} exists already: update it, or choose another name")


def load_monitor(path: Path) -> Monitor:
    """Read a monitor.

    Parameters
    ----------
    path : Path
        What `save_monitor` wrote.

    Returns
    -------
    Monitor
        As it was.

    Raises
    ------
    InputError
        If the file cannot be read.
    RecordError
        If it is damaged, or of another version.
    """
    state = _decoded(
        read(path),
        _State,
        str(path),
        key="fedwqcp-monitor",
        what="the state of a monitor; it is damaged, or another file",
        cure="restore it",
    )
    monitor = Monitor(state.terms)
    monitor.updates, monitor.unlogged = state.updates, state.unlogged
    monitor.sites = {name: state.sites[name] for name in state.terms.agents}
    return monitor


@contextmanager
def changing(path: Path, log: Path | None = None) -> Iterator[Monitor]:
    """Give a monitor from its file, and keep it there if nothing goes wrong.

    Two processes that change files of one folder wait for each other, so that no update is lost.

    Parameters
    ----------
    path : Path
        The state; beside it lies an empty file ``.fedwqcp.lock``.
    log : Path, optional
        Where ``Monitor.unlogged`` is added once the state is kept. The state holds these lines too,
        so that the next change adds what a process did not come to.

    Yields
    ------
    Monitor
        To be updated.

    Raises
    ------
    InputError
        If there is no such file, or one cannot be read or written.
    RecordError
        If the state is damaged, or of another version.
    """
    if not is_file(path):
        raise InputError(f"cannot read {path}: open it first with `fedwqcp monitor open`")
    with locked(path.parent):
        monitor = load_monitor(path)
        if log is not None:
            _add_lines(log, monitor)
        yield monitor
        save_monitor(monitor, path)
        if log is not None and monitor.unlogged:
            _add_lines(log, monitor)
            save_monitor(monitor, path)


def append_log(path: Path, update: int, when: str, standings: Sequence[Standing]) -> None:
    """Add one line to a log: how an agent and its classes stand after an update.

    Parameters
    ----------
    path : Path
        A file of JSON lines; it need not exist.
    update : int
        Number of the update.
    when : str
        Date and time, or any name for this moment.
    standings : sequence of Standing
        What `Monitor.update` returned.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    append_line(path, log_line(update, when, standings).encode())


def read_log(path: Path) -> tuple[LogEntry, ...]:
    """Read a log.

    Parameters
    ----------
    path : Path
        A file that `append_log` wrote.

    Returns
    -------
    tuple of LogEntry
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
    what, cure = "a line of a monitor's log; remove it", "remove it"
    found = [
        _decoded(line, LogEntry, f"{path}, line {number}", key="version", what=what, cure=cure)
        for number, line in enumerate(lines, 1)
    ]
    return tuple(sorted(found, key=lambda entry: entry.update))


def log_line(update: int, when: str, standings: Sequence[Standing]) -> str:
    """Return a line of the log, as `append_log` adds it."""
    rows = [record_of(standing) for standing in standings]
    line = {"version": VERSION, "update": update, "time": when, "streams": rows}
    return msgspec.json.encode(line).decode()


def record_of(standing: Standing) -> dict[str, object]:
    """Return a standing as the log and ``monitor show --json`` hold it, with its estimates."""
    estimates = {"coverage": standing.coverage, "current": standing.current}
    return {**msgspec.structs.asdict(standing), "status": standing.status, **estimates}


class _State(msgspec.Struct, forbid_unknown_fields=True):
    """The file of a monitor."""

    version: int = msgspec.field(name="fedwqcp-monitor")
    terms: MonitorTerms
    updates: Count
    unlogged: tuple[str, ...]
    sites: dict[str, AgentState]

    def __post_init__(self) -> None:
        if set(self.sites) != set(self.terms.agents):
            raise ValueError("its agents are not those of its terms")
        for site in self.sites.values():
            if len(site.classes) != self.terms.n_classes or len(site.batches) > REMEMBERED:
                raise ValueError("an agent has another number of classes than its terms")
            for label, test in ((None, site.rows), *enumerate(site.classes)):
                if test.alarm is None and test.evidence >= -ln(self.terms.share(label)):
                    raise ValueError("a test has the evidence of an alarm, and none was raised")


def _decoded(data: bytes, kind: type[T], where: str, *, key: str, what: str, cure: str) -> T:
    """Read a state or a line of a log; in every version ``key`` holds its number."""
    header = from_json(data, dict[str, object]) or {}
    if type(version := header.get(key)) is not int:
        raise RecordError(f"{where} must be {what}")
    if version != VERSION:
        raise RecordError(f"{where}: this software reads version {VERSION}, it has {version}")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RecordError(f"{where} is damaged: {error}; {cure}") from None


def _add_lines(log: Path, monitor: Monitor) -> None:
    """Add the unlogged lines to a log; those that it ends with already were added before."""
    lines = [line.encode() for line in monitor.unlogged]
    if lines:
        last = _tail(log, 2 * sum(len(line) + 1 for line in lines)).splitlines(keepends=True)
        for line in lines:
            if line + b"\n" not in last:
                append_line(log, line)
    monitor.unlogged = ()


def _tail(path: Path, size: int) -> bytes:
    """Return the last bytes of a file; none where there is no file."""
    if is_absent(path):
        return b""
    try:
        with opened(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


# The rounds that alarms opened --------------------------------------------------------------------


class RoundEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happened to the alarms of some agents."""

    when: datetime
    event: Literal["opened", "failed", "recalibrated"]
    agents: tuple[str, ...]


def check_days(days: float) -> None:
    """Refuse what cannot be a number of days between two rounds."""
    if not 0 <= days < 36500:
        raise InputError(f"days between two rounds must be from 0 to 36500, got {days}")


def claim_round(
    path: Path, alarmed: Collection[str], now: datetime, days: float
) -> tuple[tuple[str, ...], datetime | None]:
    """Return for whose alarms a round is to be opened now, and record that first.

    A process that is killed before it opened the round leaves the claim behind, so that no alarm
    opens two. A run that failed counts too: sites may have answered it, and spent. Where it is too
    early, return from when on one may be opened.
    """
    check_days(days)
    answered: set[str] = set()
    opened: list[datetime] = []
    for line in read_rounds(path):
        if line.event == "opened":
            answered |= set(line.agents)
            opened.append(line.when)
        else:
            answered -= set(line.agents)
    fresh = tuple(sorted(set(alarmed) - answered))
    if not fresh:
        return (), None
    earliest = max(opened) + timedelta(days=days) if opened else now
    if now < earliest:
        return (), earliest
    note_round(path, RoundEvent(now, "opened", fresh))
    return fresh, None


def note_round(path: Path, line: RoundEvent) -> None:
    """Append an event."""
    append_line(path, msgspec.json.encode(line))


def read_rounds(path: Path) -> list[RoundEvent]:
    """Return the events so far."""
    if not exists(path):
        return []
    lines = [from_json(line, RoundEvent) for line in read(path, LOG_BYTES).splitlines()]
    found = [line for line in lines if line is not None and line.when.tzinfo is not None]
    if len(found) != len(lines):
        raise RecordError(f"{path} is damaged: restore it, or remove it to start again")
    return found
