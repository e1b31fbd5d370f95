"""A monitor in a file: versioned JSON, replaced in one step, and a log that only grows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from math import inf, isfinite, log
from pathlib import Path
from typing import Any

from fedwqcp._io import LOG_BYTES, append_line, locked, read, write_atomic
from fedwqcp.errors import InputError, RecordError
from fedwqcp.monitor.monitor import REMEMBERED, AgentState, Monitor, Standing, Terms
from fedwqcp.monitor.sequence import ODDS, Track

VERSION = 1
"""Version of the state file and of the lines of the log."""


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
    state = {
        "fedwqcp-monitor": VERSION,
        "terms": asdict(monitor.terms),
        "updates": monitor.updates,
        "unlogged": list(monitor.unlogged),
        "sites": {name: _without_inf(asdict(site)) for name, site in monitor.sites.items()},
    }
    if not write_atomic(path, json.dumps(state, indent=1).encode() + b"\n", replace=replace):
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
    try:
        state = json.loads(data)
        version = state.get("fedwqcp-monitor")
    except (ValueError, AttributeError, RecursionError):
        raise RecordError(f"{path} must be the state of a monitor; it cannot be read") from None
    if version != VERSION:
        raise RecordError(
            f"{path}: this software reads version {VERSION}, the file has {version!r}"
        )
    try:
        monitor = Monitor(Terms(**{key: _tupled(value) for key, value in state["terms"].items()}))
        sites = {name: _site(monitor.terms, kept) for name, kept in state["sites"].items()}
        monitor.updates = _count(state["updates"])
        monitor.unlogged = tuple(map(str, state["unlogged"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RecordError(f"{path} is damaged: {error}; restore it") from None
    if set(sites) != set(monitor.sites):
        raise RecordError(f"{path} is damaged: its agents are not those of its terms; restore it")
    monitor.sites = {name: sites[name] for name in monitor.terms.agents}
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
    if not path.is_file():
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


def _add_lines(log: Path, monitor: Monitor) -> None:
    """Add the lines that wait to a log; those that it ends with already were added before."""
    lines = [line.encode() for line in monitor.unlogged]
    if lines:
        last = _tail(log, 2 * sum(len(line) + 1 for line in lines)).splitlines(keepends=True)
        for line in lines:
            if line + b"\n" not in last:
                append_line(log, line)
    monitor.unlogged = ()


def _tail(path: Path, size: int) -> bytes:
    """Return the last bytes of a file; none where there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


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


def log_line(update: int, when: str, standings: Sequence[Standing]) -> str:
    """Return a line of the log, as `append_log` adds it."""
    rows = [shown(standing) for standing in standings]
    return json.dumps({"version": VERSION, "update": update, "time": when, "streams": rows})


def shown(standing: Standing) -> dict[str, object]:
    """Return a standing as the log and ``monitor show --json`` hold it.

    Parameters
    ----------
    standing : Standing
        How a stream stands.

    Returns
    -------
    dict
        Its fields, its status and its estimates of coverage.
    """
    estimates = {"coverage": standing.coverage, "current": standing.current}
    return {**asdict(standing), "status": standing.status, **estimates}


def _site(terms: Terms, kept: dict[str, Any]) -> AgentState:
    """Read what is kept of one agent."""
    site = AgentState(
        classes=tuple(_track(t, terms.share(c)) for c, t in enumerate(kept["classes"])),
        rows=_track(kept["rows"], terms.share()),
        calibration=_count(kept["calibration"]),
        batches=tuple(str(digest) for digest in kept["batches"]),
    )
    if len(site.classes) != terms.n_classes or len(site.batches) > REMEMBERED:
        raise ValueError("an agent has another number of classes than its terms")
    return site


def _track(kept: dict[str, Any], share: float) -> Track:
    """Read one track, and hold it to what a track can be."""
    track = Track(
        n=_count(kept["n"]),
        hits=_count(kept["hits"]),
        wealth=tuple(-inf if value is None else float(value) for value in kept["wealth"]),
        runs=tuple(float(value) for value in kept["runs"]),
        run_n=tuple(_count(value) for value in kept["run_n"]),
        run_hits=tuple(_count(value) for value in kept["run_hits"]),
        evidence=float(kept["evidence"]),
        alarm=None if kept["alarm"] is None else _count(kept["alarm"]),
    )
    parts = (track.wealth, track.runs, track.run_n, track.run_hits)
    numbers = (*track.runs, track.evidence, *(value for value in track.wealth if value != -inf))
    if any(len(part) != len(ODDS) for part in parts) or not all(map(isfinite, numbers)):
        raise ValueError("a track does not have its numbers")
    if not track.hits <= track.n or max(track.run_n) > track.n or max(track.run_hits) > track.hits:
        raise ValueError("a track counts more hits than rows")
    if track.evidence >= -log(share) and track.alarm is None:
        raise ValueError("a track has the evidence of an alarm, and none was raised")
    return track


def _count(value: object) -> int:
    """Return a count."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
        raise ValueError("a count must be a whole number of at least 0")
    return value


def _without_inf(value: Any) -> Any:
    """Write -inf as JSON can hold it."""
    if isinstance(value, dict):
        return {key: _without_inf(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_without_inf(item) for item in value]
    return None if value == -inf else value


def _tupled(value: Any) -> Any:
    """Return a list as the tuple it was."""
    return tuple(value) if isinstance(value, list) else value


_WHOLE = ("calibration", "n", "hits", "before", "since_n", "since_hits")
_REAL = ("floor", "low", "high", "evidence", "bar")


@dataclass(frozen=True)
class LogEntry:
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


def _entry(line: bytes, where: str) -> LogEntry:
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
        return LogEntry(_count(kept["update"]), str(kept["time"]), standings)
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
