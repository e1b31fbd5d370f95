"""A monitor in a file: versioned JSON, replaced in one step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from fedwqcp._io import is_file, locked, read, to_json, write_atomic
from fedwqcp.errors import InputError, RecordError
from fedwqcp.monitor.monitor import REMEMBERED, AgentState, Monitor, MonitorTerms, Standing
from fedwqcp.monitor.sequential_tests import ODDS, SLOPES


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
    state = _State(1, monitor.terms, monitor.sites)
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
    try:
        state = msgspec.json.decode(read(path), type=_State)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RecordError(
            f"{path} is no monitor that this version reads, or it is damaged: {error}"
        ) from None
    monitor = Monitor(state.terms)
    monitor.sites = {name: state.sites[name] for name in state.terms.agents}
    return monitor


@contextmanager
def changing(path: Path) -> Iterator[Monitor]:
    """Give a monitor from its file, and keep it there if nothing goes wrong.

    Two processes that change files of one folder wait for each other, so that no update is lost.

    Parameters
    ----------
    path : Path
        The state; beside it lies an empty file ``.fedwqcp.lock``.

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
        yield monitor
        save_monitor(monitor, path)


def record_of(standing: Standing) -> dict[str, object]:
    """Return a standing as ``monitor show --json`` prints it, with its estimates."""
    estimates = {"coverage": standing.coverage, "current": standing.current}
    return {**msgspec.structs.asdict(standing), "state": standing.state, **estimates}


class _State(msgspec.Struct, forbid_unknown_fields=True):
    """The file of a monitor."""

    version: Literal[1] = msgspec.field(name="fedwqcp-monitor")
    terms: MonitorTerms
    sites: dict[str, AgentState]

    def __post_init__(self) -> None:
        if set(self.sites) != set(self.terms.agents):
            raise ValueError("its agents are not those of its terms")
        for site in self.sites.values():
            lengths = {len(site.tests), len(site.tolerances), len(self.terms.streams)}
            if len(lengths) > 1 or len(site.batches) > REMEMBERED:
                raise ValueError("an agent has another number of classes than its terms")
            self.terms.check_tolerance(max(site.tolerances))
            bets = [(site.inputs.test, SLOPES), *((test, ODDS) for test in site.tests)]
            if any(len(test.runs) != len(of) for test, of in bets):
                raise ValueError("a test does not have its numbers")
