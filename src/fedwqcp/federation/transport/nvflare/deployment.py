"""A FLARE federation: jobs from templates, startup kits that run no foreign code, a demonstration.

FLARE's programs are started as an operator would start them; nothing here imports nvflare.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import msgspec

from fedwqcp._io import exists, from_json, is_file, is_folder, read, to_json, to_toml, write_atomic
from fedwqcp.errors import InputError
from fedwqcp.federation.site_folder import make_site_folder
from fedwqcp.federation.transport.processes import (
    PROGRAMS,
    Deployment,
    free_ports,
    json_of,
    listens,
    make_named_folder,
    template,
    wait_until,
    write_templates,
)
from fedwqcp.federation.transport.site import load_settings

OLDEST = (2, 9)
"""The first FLARE that refuses what a job says of itself."""
SETTINGS = "fedwqcp.toml"
"""Name of the site's own settings, in the folder ``local`` of its startup kit."""
HOST = "localhost"
"""Everything stays on this machine."""
CONTROLLER = "fedwqcp.federation.transport.nvflare.controller.CalibrationController"
EXECUTOR = "fedwqcp.federation.transport.nvflare.executor.CalibrationExecutor"
"""The classes that a startup kit allows: one of a coordinator, one of a site."""
_LOCK = {
    "id": "app_deployer",
    "path": "fedwqcp.federation.transport.nvflare.lock.SiteLock",
    "args": {},
}
"""What FLARE hands each job to, before it writes anything at a site."""
SERVER = "coordinator"
ADMIN = "lead@fedwqcp.local"
"""Who submits jobs; FLARE's role ``lead`` may by default bring code, and our kits refuse it."""

NVFLARE = PROGRAMS / "nvflare"
"""FLARE's program in the environment of this Python."""
_FILES = {
    "meta.json.in": "meta.json",
    "README.md.in": "README.md",
    "config_fed_server.conf.in": "app/config/config_fed_server.conf",
    "config_fed_client.json.in": "app/config/config_fed_client.json",
}


def new_job(folder: Path) -> tuple[Path, ...]:
    """Write a FLARE job into a new or empty folder, which names the job."""
    name = folder.resolve().name
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,40}", name):
        raise InputError(f"the folder names the job: letters, digits, '_' and '-', got {name!r}")
    return write_templates(__package__, folder, _FILES, name=name)


def check_flare() -> None:
    """Refuse a FLARE that runs the coordinator's code at a locked site, as 2.8 does."""
    here = version("nvflare")
    if tuple(int(part) for part in re.findall(r"\d+", here)[:2]) < OLDEST:
        raise InputError(
            f"must be at least 2.9, got {here}: older ones run code of a job in a locked kit; "
            "pip install 'nvflare>=2.9'",
            field="nvflare",
        )


def allow(kit: Path) -> tuple[Path, ...]:
    """Let a startup kit run one class of this package, no other, and no code of a job.

    Writes ``local/resources.json`` (the allow-list, and no streaming of logs to the coordinator)
    and ``local/authorization.json`` (nobody may bring code, or list and read the kit's files from
    afar). At a site also ``local/fedwqcp.toml`` for its own settings, where it has none, and the
    folder that these name, outside the kit.
    """
    check_flare()
    written = _lock(kit)
    if _is_site(kit):
        settings = kit / "local" / SETTINGS
        if not exists(settings):
            write_atomic(settings, template(__package__, "fedwqcp.toml.in").encode(), shared=True)
            written.append(settings)
        folder = load_settings(settings, kit)["folder"]
        if folder and make_site_folder(Path(str(folder))):
            written.append(Path(str(folder)))
    return tuple(written)


def _is_site(kit: Path) -> bool:
    return exists(kit / "startup" / "fed_client.json")


def _lock(kit: Path) -> list[Path]:
    """Write the allow-list and the rights of a startup kit."""
    local = kit / "local"
    given = local / "resources.json.default"
    if not is_file(given):
        raise InputError(f"{kit} must be a startup kit of FLARE: it has no local/{given.name}")
    current = local / "resources.json"
    held = _own_json(current if exists(current) else given, _Resources)
    held |= {
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [EXECUTOR if _is_site(kit) else CONTROLLER],
        "allow_log_streaming": False,
    }
    dropped = ("site_log_streamer", _LOCK["id"])
    held["components"] = [c for c in held["components"] if c.get("id") not in dropped]
    if _is_site(kit):
        held["components"].append(_LOCK)
    rights = _own_json(local / "authorization.json.default", _Authorization)
    rights["permissions"] = {
        role: {**(_EVERYTHING if may == "any" else may), "byoc": "none", "shell_commands": "none"}
        for role, may in rights["permissions"].items()
    }
    written = [current, local / "authorization.json"]
    for path, value in zip(written, (held, rights), strict=True):
        write_atomic(path, to_json(value, indent=2), shared=True)
    return written


class _Resources(msgspec.Struct):
    components: list[dict[str, Any]]


class _Authorization(msgspec.Struct):
    permissions: dict[str, Literal["any"] | dict[str, Any]]


def _own_json(path: Path, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Read a file of FLARE's own, which operators may have edited."""
    data = read(path)
    table = from_json(data, dict[str, Any])
    if table is None or from_json(data, kind) is None:
        (key,) = kind.__struct_fields__
        raise InputError(
            f"{path} must be JSON with {key!r}, as FLARE writes it: restore it from the startup kit"
        )
    return table


_EVERYTHING = dict.fromkeys(
    ("submit_job", "clone_job", "manage_job", "download_job", "view", "operate"), "any"
)
"""What is left to a role that may do anything."""


def write_job(folder: Path, terms: Mapping[str, object]) -> Path:
    """Write a job from the template, on other terms."""
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
        line = '  - {name: "%s", type: client, org: fedwqcp}'
        words = {"server": SERVER, "host": HOST, "port": str(self.port), "admin": ADMIN}
        words["clients"] = "\n".join(line % name for name in self.agents)
        project = template(__package__, "project.yml.in", **words)
        write_atomic(self.folder / "project.yml", project.encode(), shared=True)
        reply = self._run("provision", "-p", "project.yml", "-w", "kits", "--format", "json")
        if not is_folder(self.kits):
            raise InputError(f"the startup kits could not be made: {reply}")
        for name in (SERVER, *self.agents):
            _lock(self.kits / name)
        # FLARE keeps jobs and snapshots in /tmp/nvflare, where other federations have theirs too
        path = self.kits / SERVER / "local" / "resources.json"
        jobs = f"{self.folder / 'server'}/".encode()
        write_atomic(path, read(path).replace(b"/tmp/nvflare/", jobs), shared=True)

    def _run(self, *arguments: str) -> dict[str, Any]:
        """Run one ``nvflare`` command, and return the JSON that it printed."""
        return json_of((NVFLARE, *arguments), self.folder, self.env)
