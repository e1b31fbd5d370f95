"""A monitor in a file: versioned JSON, replaced in one step, and a log that only grows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import log as ln
from pathlib import Path

import msgspec

from fedwqcp._io import (
    LOG_BYTES,
    append_line,
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
from fedwqcp.monitor.sequence import Count

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
    data = read(path)
    if (header := from_json(data, _StateHeader)) is None:
        raise RecordError(f"{path} must be the state of a monitor; it is damaged, or another file")
    if header.version != VERSION:
        raise RecordError(
            f"{path}: this software reads version {VERSION}, the file has {header.version}"
        )
    try:
        state = msgspec.json.decode(data, type=_State)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RecordError(f"{path} is damaged: {error}; restore it") from None
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
    found = [_entry(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]
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


class _StateHeader(msgspec.Struct):
    """What every version of a state holds."""

    version: int = msgspec.field(name="fedwqcp-monitor")


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


class _LineHeader(msgspec.Struct):
    """What every version of a log's line holds."""

    version: int


def _entry(line: bytes, where: str) -> LogEntry:
    """Read one line."""
    if (header := from_json(line, _LineHeader)) is None:
        raise RecordError(f"{where}: must be a line of a monitor's log; remove it")
    if header.version != VERSION:
        raise RecordError(
            f"{where}: this software reads version {VERSION}, it has {header.version}"
        )
    try:
        return msgspec.json.decode(line, type=LogEntry)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RecordError(f"{where} is damaged: {error}; remove it") from None


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
