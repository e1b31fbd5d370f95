"""Processes that are stopped again, with all that they started, whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from fedwqcp.errors import InputError


def free_ports(count: int) -> tuple[int, ...]:
    """Return ports on this machine that nobody uses now.

    Parameters
    ----------
    count : int
        How many.

    Returns
    -------
    tuple of int
        Different ports.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return tuple(one.getsockname()[1] for one in sockets)


class Processes:
    """Named processes, each in a group of its own; leaving the block stops them all.

    Parameters
    ----------
    logs : Path
        Folder for what they print.
    env : mapping
        Their environment.
    """

    def __init__(self, logs: Path, env: Mapping[str, str]) -> None:
        self._logs = logs
        self._env = dict(env)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        logs.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del kind, error, trace
        for process in self._running.values():
            if process.poll() is None:
                process.terminate()
        for name in reversed(list(self._running)):
            self.stop(name)

    def start(self, name: str, command: Sequence[str | Path], cwd: Path) -> subprocess.Popen[bytes]:
        """Start a process in a group of its own.

        Parameters
        ----------
        name : str
            What to call it; its output goes to NAME.log.
        command : sequence
            Program and arguments.
        cwd : Path
            Where it runs.

        Returns
        -------
        Popen
            The process.

        Raises
        ------
        InputError
            If the program is not there.
        """
        with (self._logs / f"{name}.log").open("ab") as log:
            try:
                process = subprocess.Popen(
                    [str(part) for part in command],
                    cwd=cwd,
                    env=self._env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise InputError(f"the program {command[0]} is not installed here") from None
        self._running[name] = process
        return process

    def alive(self, name: str) -> bool:
        """Tell whether a process still runs.

        Parameters
        ----------
        name : str
            Which one.

        Returns
        -------
        bool
            False once it ended.
        """
        return self._running[name].poll() is None

    def stop(self, name: str, *, gently: bool = True, seconds: float = 5.0) -> None:
        """Stop a process and everything it started.

        Parameters
        ----------
        name : str
            Which one.
        gently : bool, optional
            Ask first; otherwise end it at once.
        seconds : float, optional
            How long to wait after asking.
        """
        process = self._running.pop(name)
        family = descendants(process.pid)
        if gently and process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
        if process.poll() is None:
            process.kill()
            process.wait()
        family |= descendants(process.pid)
        for pid, started in family.items():
            if _started(pid) == started:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(_started(p) == at for p, at in family.items()), 10, name, 0.02)

    def said(self, name: str) -> str:
        """Return what a process printed.

        Parameters
        ----------
        name : str
            Which one.

        Returns
        -------
        str
            Its output so far.
        """
        path = self._logs / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""


def descendants(root: int) -> dict[int, str]:
    """Return every process that a process started, directly or not, or that shares its session.

    Parameters
    ----------
    root : int
        Id of the process.

    Returns
    -------
    dict of int to str
        When each of them was started, by id; empty where the system does not tell.
    """
    stats = {int(p.name): _stat(int(p.name)) for p in Path("/proc").glob("[0-9]*")}
    found: dict[int, str] = {}
    family = {root}
    while True:
        more = {
            pid
            for pid, stat in stats.items()
            if stat and pid not in family and (int(stat[1]) in family or int(stat[3]) in family)
        }
        if not more:
            return found
        family |= more
        found |= {pid: stats[pid][19] for pid in more}


def _stat(pid: int) -> list[str]:
    """Return what the system says of a process, from its state on; nothing of one that ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
    return [] if stat[0] in "ZX" else stat


def _started(pid: int) -> str:
    """Return when a process was started; empty if it is gone."""
    stat = _stat(pid)
    return stat[19] if stat else ""


def wait_until(ready: Callable[[], bool], seconds: float, what: str, every: float = 0.25) -> None:
    """Wait for something, but not for ever.

    Parameters
    ----------
    ready : callable
        Tells whether it is there.
    seconds : float
        How long to wait.
    what : str
        What is waited for, for the error.
    every : float, optional
        Seconds between two looks.

    Raises
    ------
    InputError
        If it did not come in time.
    """
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise InputError(f"{what} did not come within {seconds:g} s")
        time.sleep(every)
