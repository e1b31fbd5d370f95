"""A federation of real processes on this machine, for demonstrations and tests of any engine.

Processes are stopped again, with all that they started, whatever happens.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Self

from fedwqcp._io import (
    LOG_BYTES,
    exists,
    from_json,
    in_folder,
    is_file,
    is_folder,
    make_folder,
    read,
    write_atomic,
)
from fedwqcp.errors import InputError
from fedwqcp.federation.record import LOG, Failed, LogLine, Stored
from fedwqcp.federation.site_folder import make_site_folder

PROGRAMS = Path(sys.executable).parent
"""Where the engines' programs are, in the environment of this Python."""
ASK_EVERY = 10.0
"""Seconds after which an engine is asked whether a run ended, though nothing else says so."""


class Processes:
    """Named processes, each in a group of its own; leaving the block stops them all."""

    def __init__(self, logs: Path, env: Mapping[str, str]) -> None:
        self._logs = logs
        self._env = dict(env)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        make_folder(logs)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.terminate()
        with contextlib.ExitStack() as stack:  # all are stopped, also where one does not end
            for name in self._running:
                stack.callback(self.stop, name)

    def start(self, name: str, command: Sequence[str | Path], cwd: Path) -> subprocess.Popen[bytes]:
        """Start a process in a group of its own; its output goes to NAME.log."""
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
                raise InputError(f"{command[0]} is not installed here") from None
        self._running[name] = process
        return process

    def alive(self, name: str) -> bool:
        """Tell whether a process still runs."""
        return self._running[name].poll() is None

    def stop(self, name: str, *, gently: bool = True) -> None:
        """Stop a process and everything it started; gently asks first and waits a while."""
        process = self._running.pop(name)
        family = descendants(process.pid)
        if gently and process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5.0)
        if process.poll() is None:
            process.kill()
            process.wait()
        family |= descendants(process.pid)
        for pid, started in family.items():
            if _started(pid) == started:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        ended = f"the end of {name}"
        wait_until(
            lambda: not any(_started(pid) == when for pid, when in family.items()), 10, ended, 0.02
        )

    def output(self, name: str) -> str:
        """Return what a process printed so far."""
        path = self._logs / f"{name}.log"
        return path.read_text(errors="replace") if exists(path) else ""


class Deployment(ABC):
    """Processes of an engine on this machine; leaving the block stops them all."""

    starting: ClassVar[str]
    """What is started first, as the demonstration prints it."""
    sites_run: ClassVar[str]
    """What runs at the sites, as the demonstration prints it."""

    def __init__(self, folder: Path, agents: Sequence[str]) -> None:
        self.folder = folder.resolve()
        self.agents = tuple(agents)
        self.env = self.environment()
        self.processes = Processes(self.folder / "logs", self.env)

    def environment(self) -> dict[str, str]:
        """Return the environment of the engine's programs; those of this Python come first."""
        path = os.pathsep.join((str(PROGRAMS), os.environ.get("PATH", "")))
        return {**os.environ, "PATH": path, "COLUMNS": "200"}

    @abstractmethod
    def start(self) -> None:
        """Start what the sites connect to, and wait until they can."""

    @abstractmethod
    def start_site(self, agent: str, settings: Mapping[str, object]) -> None:
        """Start the process of a site, with settings of its own."""

    @abstractmethod
    def online(self) -> int:
        """Return how many sites are connected."""

    @abstractmethod
    def submit_round(self, folder: Path, terms: Mapping[str, object]) -> str:
        """Submit a round, written into a folder, and return the engine's id of the run."""

    @abstractmethod
    def status(self, run: str) -> str:
        """Return the status of a run, as the engine words it; empty where it is not known."""

    def wait(self, run: str, seconds: float, done: Callable[[], bool] = lambda: True) -> str:
        """Wait until a run ends, and return its status, or ``timeout``.

        `done` tells cheaply that the end is near. Asking the engine starts a program, so until then
        it is asked only now and then: a run that failed early leaves nothing that `done` could see.
        """
        end, asked = time.monotonic() + seconds, time.monotonic()
        while time.monotonic() < end:
            if done() or time.monotonic() >= asked + ASK_EVERY:
                asked = time.monotonic()
                status = self.status(run)
                if status.lower().startswith("finished"):
                    return status
            time.sleep(0.5)
        return "timeout"

    def wait_online(self, count: int) -> None:
        """Wait until this many sites are connected."""
        wait_until(lambda: self.online() >= count, 90, f"{count} sites")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.processes.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.processes.__exit__(*error)


def write_templates(
    package: str, folder: Path, files: Mapping[str, str], /, **words: str
) -> tuple[Path, ...]:
    """Write the templates of an engine's package into a new or empty folder.

    `files` are their names there; each ``@word@`` in a name or a text stands for one of the words.
    """
    if exists(folder) and (not is_folder(folder) or in_folder(folder)):
        raise InputError(f"{folder} must be a new or an empty folder")
    written = []
    for source, target in files.items():
        text = template(package, source, **words)
        written.append(folder / _filled(target, words))
        make_folder(written[-1].parent)
        write_atomic(written[-1], text.encode(), shared=True)
    return tuple(written)


def template(package: str, name: str, /, **words: str) -> str:
    """Return the text of a template of an engine's package, with these words."""
    return _filled(resources.files(package).joinpath("template", name).read_text("utf-8"), words)


def _filled(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text


def json_of(command: Sequence[str | Path], folder: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Run an engine's program, and return the JSON object that it printed.

    Where it printed none, all that it printed is there as ``error-message``.
    """
    try:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except OSError as error:
        raise InputError(f"{command[0]} cannot be run here: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        return {"error-message": f"{command[0]} did not end within 60 s"}
    try:
        printed = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        return {"error-message": done.stdout + done.stderr}
    return printed if isinstance(printed, dict) else {}


def make_named_folder(settings: Mapping[str, object]) -> None:
    """Make the folder that a site's settings name, as whoever starts a site by hand does."""
    if folder := settings.get("folder"):
        make_site_folder(Path(str(folder)))


def free_ports(count: int) -> tuple[int, ...]:
    """Return ports on this machine that nobody uses at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return tuple(one.getsockname()[1] for one in sockets)


def listens(port: int) -> bool:
    """Tell whether some process takes connections on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(ready: Callable[[], bool], seconds: float, what: str, every: float = 0.25) -> None:
    """Wait until something is ready, or the seconds are over."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise InputError(f"{what} did not come within {seconds:g} s")
        time.sleep(every)


def descendants(root: int) -> dict[int, str]:
    """Return the processes that a process started, directly or not: the start time of each by id.

    Processes of the same session count too; empty where there is no ``/proc``.
    """
    stats = {int(p.name): _stat(int(p.name)) for p in Path("/proc").glob("[0-9]*")}
    started: dict[int, str] = {}
    family = {root}
    while True:
        more = {
            pid
            for pid, stat in stats.items()
            if stat and pid not in family and (int(stat[1]) in family or int(stat[3]) in family)
        }
        if not more:
            return started
        family |= more
        started |= {pid: stats[pid][19] for pid in more}


def round_ended(records: Path) -> bool:
    """Tell whether a round with its record in this folder was handed over, or failed."""
    logs = (path for folder in in_folder(records) if is_file(path := folder / LOG))
    lines = (line for path in logs for line in read(path, LOG_BYTES).splitlines())
    return any(isinstance(from_json(line, LogLine), Stored | Failed) for line in lines)  # type: ignore[arg-type]  # a union


def _stat(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` from the state on; none of a process that ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
    return [] if stat[0] in "ZX" else stat


def _started(pid: int) -> str:
    """Return when a process was started; empty if it is gone."""
    stat = _stat(pid)
    return stat[19] if stat else ""
