"""A federation of real processes on this machine, for trying out, tests and benchmarks.

``python tools/local_federation.py flower`` (or ``nvflare``) runs one round between four hospitals.
The engines' programs are started as an operator would start them; what needs flwr or nvflare is
imported where it is used. Processes are stopped again, with all that they started, whatever
happens.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from math import nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

from msgspec.structs import asdict

from fedwqcp._io import (
    LOG_BYTES,
    exists,
    from_json,
    in_folder,
    is_file,
    is_folder,
    make_folder,
    read,
    to_json,
    to_toml,
    write_atomic,
)
from fedwqcp.demo.hospitals import write_sites
from fedwqcp.errors import InputError, QuorumError
from fedwqcp.federation.audit import audit
from fedwqcp.federation.certs import make_certs
from fedwqcp.federation.record import LOG, Failed, LogLine, Stored, load_release
from fedwqcp.federation.release import Release
from fedwqcp.federation.site_folder import make_site_folder
from fedwqcp.federation.transport.templates import filled, template
from fedwqcp.readers import load_outputs

HOST = "127.0.0.1"
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


FLWR = PROGRAMS / "flwr"
"""Flower's program in the environment of this Python."""

NVFLARE = PROGRAMS / "nvflare"
"""FLARE's program there."""
FLOWER = "fedwqcp.federation.transport.flower"
SERVER = "coordinator"
ADMIN = "lead@fedwqcp.local"
"""Who submits jobs; FLARE's role ``lead`` may by default bring code, and our kits refuse it."""

_ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
PROJECT = """\
api_version: 3
name: fedwqcp
participants:
  - {name: "@server@", type: server, org: fedwqcp, default_host: "@host@", fed_learn_port: @port@}
@clients@
  - {name: "@admin@", type: admin, org: fedwqcp, role: lead}
builders:
  - path: nvflare.lighter.impl.workspace.WorkspaceBuilder
  - path: nvflare.lighter.impl.static_file.StaticFileBuilder
  - path: nvflare.lighter.impl.cert.CertBuilder
  - path: nvflare.lighter.impl.signature.SignatureBuilder
"""


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


class LocalFederation(Deployment):
    """A SuperLink and its SuperNodes with TLS; leaving the block stops every process.

    Each site gets a key, but no node yet.
    """

    starting = "starting a SuperLink with TLS, registering the sites' keys"
    sites_run = "SuperNodes"

    def __init__(self, folder: Path, agents: Sequence[str]) -> None:
        super().__init__(folder, agents)
        (self.port,) = free_ports(1)
        make_certs(self.folder / "certs", self.agents, ("localhost", HOST))
        make_folder(self.folder / "flwr")
        authority = to_toml(self.folder / "certs" / "server.pem")
        address = f"{HOST}:{self.port}"
        config = template(FLOWER, "config.toml.in", address=address, authority=authority)
        write_atomic(self.folder / "flwr" / "config.toml", config.encode(), shared=True)

    def environment(self) -> dict[str, str]:
        kept = super().environment()
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        return {**kept, **_ENVIRONMENT, "FLWR_HOME": str(self.folder / "flwr")}

    def start(self) -> None:
        self.start_superlink()
        self._register()

    def start_superlink(self) -> None:
        """Start the SuperLink, and wait until it answers."""
        certs = self.folder / "certs"
        command: tuple[str | Path, ...] = (
            *("flower-superlink", "--host", HOST, "--port", str(self.port)),
            *("--disable-runtime-dependency-installation", "--enable-supernode-auth"),
            *("--database", self.folder / "state.db", "--ssl-ca-certfile", certs / "server.pem"),
            *("--ssl-certfile", certs / "server.pem", "--ssl-keyfile", certs / "server.key"),
        )
        self.processes.start("superlink", command, self.folder)
        trust = ssl.create_default_context(cafile=str(certs / "server.pem"))

        def _answers() -> bool:
            """Tell whether it answers; a process that ended never will."""
            if not self.processes.alive("superlink"):
                raise InputError(f"the SuperLink ended: see {self.folder / 'logs'}")
            try:
                url = f"https://{HOST}:{self.port}/health"
                with urllib.request.urlopen(url, timeout=2, context=trust) as reply:
                    return bool(reply.status == 200)
            except (urllib.error.URLError, OSError):
                return False

        wait_until(_answers, 60, "the SuperLink's first answer")

    def start_site(
        self,
        agent: str,
        settings: Mapping[str, object],
        *,
        key: Path | None = None,
        ca: Path | None = None,
        port: int | None = None,
    ) -> None:
        """Start the SuperNode of a site, named like its agent, with its own node configuration.

        Key, authority and port are by default those of the federation.
        """
        certs = self.folder / "certs"
        (free,) = free_ports(1)
        command: tuple[str | Path, ...] = (
            *("flower-supernode", "--superlink", f"{HOST}:{port or self.port}"),
            *("--host", HOST, "--port", str(free)),
            *("--node-config", _stated({"agent": agent, **settings})),
            *("--root-certificates", ca or certs / "server.pem"),
            *("--auth-supernode-private-key", key or certs / "keys" / agent),
        )
        make_named_folder(settings)
        self.processes.start(agent, command, self.folder)

    def online(self) -> int:
        listed = self.flwr("supernode", "list", "fed", "--format", "json")
        return sum(node.get("status") == "online" for node in listed.get("nodes", []))

    def submit_round(self, folder: Path, terms: Mapping[str, object]) -> str:
        from fedwqcp.federation.transport.flower.deployment import new_app

        new_app(folder / "app")
        return self.submit(folder / "app", terms)

    def submit(self, app: Path, config: Mapping[str, object]) -> str:
        """Start an app without waiting for it, and return Flower's id of the run."""
        started = self.flwr("run", str(app), "fed", "--format", "json", "-c", _stated(config))
        if not started.get("success"):
            raise InputError(f"the run could not be started: {started.get('error-message')}")
        return str(started["run-id"])

    def status(self, run: str) -> str:
        """Return Flower's status, such as ``finished:completed`` or ``finished:failed``."""
        listed = self.flwr("list", "fed", "--run-id", run, "--format", "json")
        return next((str(entry.get("status", "")) for entry in listed.get("runs", [])), "")

    def flwr(self, *arguments: str) -> dict[str, Any]:
        """Run one ``flwr`` command, and return the JSON that it printed."""
        return json_of((FLWR, *arguments), self.folder, self.env)

    def _register(self) -> None:
        """Make the sites' public keys known to the SuperLink."""
        keys = self.folder / "certs" / "keys"
        for name in self.agents:
            command = (FLWR, "supernode", "register", keys / f"{name}.pub", "fed")
            self.processes.start(f"register-{name}", command, self.folder)
        for name in self.agents:
            what = f"the registration of {name}"
            wait_until(lambda n=name: not self.processes.alive(f"register-{n}"), 60, what)  # type: ignore[misc]  # bound now
            self.processes.stop(f"register-{name}")


def _stated(config: Mapping[str, object]) -> str:
    """Return a configuration as Flower's command line says it."""
    return " ".join(f"{name}={to_toml(value)}" for name, value in config.items())


def write_job(folder: Path, terms: Mapping[str, object]) -> Path:
    """Write a job from the template, on other terms."""
    from fedwqcp.federation.transport.nvflare.deployment import CONTROLLER, new_job

    new_job(folder)
    server = {
        "format_version": 2,
        "server": {"task_request_interval": 0.25},
        "workflows": [{"id": "calibrate", "path": CONTROLLER, "args": {"terms": dict(terms)}}],
        "components": [],
    }
    config = folder / "app" / "config"
    (config / "config_fed_server.conf").unlink()
    write_atomic(config / "config_fed_server.json", to_json(server, indent=2), shared=True)
    return folder


class FlareFederation(Deployment):
    """A server and its clients with mutual TLS, as FLARE provisions them, on this machine.

    Leaving the block stops every process. No site is started yet on entering it.
    """

    starting = "provisioning startup kits with certificates; starting the server"
    sites_run = "clients, which refuse code that a job brings"

    def __init__(self, folder: Path, agents: Sequence[str]) -> None:
        super().__init__(folder, agents)
        (self.port,) = free_ports(1)
        (self.folder / "home").mkdir()
        self.kits = self.folder / "kits" / "fedwqcp" / "prod_00"
        self._logged = 0
        self._provision()

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "HOME": str(self.folder / "home")}

    def start(self) -> None:
        self._logged = len(self.processes.output(SERVER))  # by a server that ran before
        self._start(SERVER)

        def _listens() -> bool:
            if not self.processes.alive(SERVER):
                raise InputError(f"the server ended: see {self.folder / 'logs'}")
            return listens(self.port)

        wait_until(_listens, 60, "the server's port")

    def start_site(self, agent: str, settings: Mapping[str, object]) -> None:
        from fedwqcp.federation.transport.nvflare.deployment import SETTINGS

        lines = [f"{key} = {to_toml(value)}\n" for key, value in settings.items()]
        write_atomic(self.kits / agent / "local" / SETTINGS, "".join(lines).encode(), shared=True)
        make_named_folder(settings)
        self._start(agent)

    def _start(self, name: str) -> None:
        """Start what a startup kit starts, without its loop that would start it again."""
        kit = self.kits / name
        self.processes.start(name, ("bash", kit / "startup" / "sub_start.sh", "--once"), kit)

    def online(self) -> int:
        """Return how many clients have registered since the server's start, as its log says."""
        log = self.processes.output(SERVER)[self._logged :]
        return len(set(re.findall(r"(?:New client|Re-activate the client:) ?([^@\s]+)", log)))

    def submit_round(self, folder: Path, terms: Mapping[str, object]) -> str:
        return self.submit(write_job(folder / "job", terms))

    def submit(self, job: Path) -> str:
        """Submit a job without waiting for it, and return FLARE's id of it."""
        reply = self.nvflare("job", "submit", "-j", str(job))
        number = (reply.get("data") or {}).get("job_id")
        if not number:
            raise InputError(f"the job could not be submitted: {reply}")
        return str(number)

    def status(self, run: str) -> str:
        return str((self.nvflare("job", "meta", run).get("data") or {}).get("status", ""))

    def nvflare(self, *arguments: str) -> dict[str, Any]:
        """Run one ``nvflare`` command as the person who submits jobs; return its JSON."""
        return self._run(*arguments, "--startup-kit", str(self.kits / ADMIN), "--format", "json")

    def _provision(self) -> None:
        """Let FLARE make certificates and startup kits, and lock them."""
        from fedwqcp.federation.transport.nvflare.deployment import lock

        line = '  - {name: "%s", type: client, org: fedwqcp}'
        words = {"server": SERVER, "host": "localhost", "port": str(self.port), "admin": ADMIN}
        words["clients"] = "\n".join(line % name for name in self.agents)
        project = filled(PROJECT, words)
        write_atomic(self.folder / "project.yml", project.encode(), shared=True)
        reply = self._run("provision", "-p", "project.yml", "-w", "kits", "--format", "json")
        if not is_folder(self.kits):
            raise InputError(f"the startup kits could not be made: {reply}")
        for name in (SERVER, *self.agents):
            lock(self.kits / name)
        # FLARE keeps jobs and snapshots in /tmp/nvflare, where other federations have theirs too
        path = self.kits / SERVER / "local" / "resources.json"
        jobs = f"{self.folder / 'server'}/".encode()
        write_atomic(path, read(path).replace(b"/tmp/nvflare/", jobs), shared=True)

    def _run(self, *arguments: str) -> dict[str, Any]:
        """Run one ``nvflare`` command, and return the JSON that it printed."""
        return json_of((NVFLARE, *arguments), self.folder, self.env)


def demo(engine: type[Deployment], out: Path | None = None, **terms: object) -> dict[str, Any]:
    """Run one round in a folder that is kept, or in a temporary one; print and return its facts."""
    if out is not None and in_folder(out):
        raise InputError(f"--out must be a new or an empty folder, got {out}")
    temporary = TemporaryDirectory(prefix="fedwqcp-") if out is None else nullcontext(str(out))
    with temporary as name:
        folder = Path(name).resolve()
        make_folder(folder)
        record, seconds = _round_between(engine, folder, terms)
        release, checked = load_release(record / "record.json"), audit(record)
        sites = [_site(release, agent.name, folder / "sites") for agent in release.agents]
    print(release)
    print(f"{'site':14} {'stored':8} {'coverage':10} mean size")
    for site in sites:
        stored = "yes" if site["stored"] else "no"
        print(f"{site['agent']:14} {stored:8} {site['coverage']:<10.3f} {site['size']:.2f}")
    print(
        f"round trips: {release.rounds}; start {seconds['start']:.0f} s, "
        f"run {seconds['run']:.0f} s; recomputed from the accepted answers: "
        f"{'the same release' if checked.matches else checked.difference}"
    )
    if out is not None:
        print(f"kept: {out}; try `fedwqcp audit {out}/records/*`")
    return {"sites": sites, "matches": checked.matches}


def _round_between(
    engine: type[Deployment], folder: Path, terms: Mapping[str, object]
) -> tuple[Path, dict[str, float]]:
    """Start an engine and a process for each site, run one round, and stop everything."""
    print("training the models of four hospitals")
    sites, records = write_sites(folder / "sites"), folder / "records"
    clock, seconds = time.monotonic(), dict[str, float]()
    print(engine.starting)
    with engine(folder / "federation", sites) as federation:
        print(f"starting {len(sites)} {engine.sites_run}")
        for name in sites:
            home = folder / "sites" / name
            federation.start_site(name, {"outputs": home / "cal.npz", "folder": home / "kept"})
        federation.wait_online(len(sites))
        seconds["start"] = time.monotonic() - clock
        print("calibrating; then handing over the release")
        clock = time.monotonic()
        roster = {"agents": ",".join(sites), "n-classes": 2, "records": str(records)}
        run = federation.submit_round(folder, {**terms, **roster})
        status = federation.wait(run, 180.0, lambda: round_ended(records))
        seconds["run"] = time.monotonic() - clock
        print("stopping every process")
    kept = sorted(records.glob("*/record.json"))
    if status.lower() != "finished:completed" or not kept:
        raise QuorumError(f"the run ended as {status}; see {folder / 'federation' / 'logs'}")
    return kept[0].parent, seconds


def _site(release: Release, name: str, sites: Path) -> dict[str, Any]:
    """Return what became of a site, with its stored release measured on its test outputs."""
    path, record = sites / name / "kept" / "release.json", asdict(release.record(name))
    facts = {"agent": record.pop("name"), **record, "stored": exists(path)}
    if not exists(path):
        return {**facts, "coverage": nan, "size": nan}
    calibration, test = (load_outputs(sites / name / file) for file in ("cal.npz", "test.npz"))
    measured = load_release(path).measure(name, test, calibration=calibration)
    return {**facts, "coverage": measured.coverage, "size": measured.size}


def main() -> None:
    """Run the demonstration that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=("flower", "nvflare"))
    parser.add_argument("--out", type=Path, help="folder to keep; else a temporary one is removed")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--deadline", type=float, default=60.0, help="seconds of a step")
    given = vars(parser.parse_args())
    if given.pop("engine") == "flower":
        demo(LocalFederation, **given)
    else:
        demo(FlareFederation, **given)


if __name__ == "__main__":
    main()
