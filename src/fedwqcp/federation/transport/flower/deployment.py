"""A Flower federation on this machine: an app from templates, processes with TLS, a demonstration.

Flower's programs are started as an operator would start them; nothing here imports flwr.
"""

from __future__ import annotations

import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedwqcp._io import make_folder, to_toml, write_atomic
from fedwqcp.errors import FedwqcpError, InputError, MissingExtraError
from fedwqcp.federation.transport.processes import (
    PROGRAMS,
    Deployment,
    free_ports,
    json_of,
    make_named_folder,
    template,
    wait_until,
    write_templates,
)

HOST = "127.0.0.1"
"""Everything stays on this machine."""
FLWR = PROGRAMS / "flwr"
"""Flower's program in the environment of this Python."""

_ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
_FILES = {
    "init.py.in": "@package@/__init__.py",
    "pyproject.toml.in": "pyproject.toml",
    "README.md.in": "README.md",
    "LICENSE.in": "LICENSE",
    "gitignore.in": ".gitignore",
    "server_app.py.in": "@package@/server_app.py",
    "client_app.py.in": "@package@/client_app.py",
    "config.toml.in": ".flwr/config.toml",
}


TESTED = "1.40 to 1.41"
"""The oldest and the newest Flower that the tests ran on."""


def unusable_flower(error: ImportError) -> FedwqcpError:
    """Say that Flower is missing, or that this one lacks a name that is used here."""
    try:
        here = version("flwr")
    except PackageNotFoundError:
        return MissingExtraError("a federation over Flower", "flower")
    return InputError(f"must be {TESTED}, got {here}, which lacks a name: {error}", field="flwr")


def new_app(folder: Path, sites: int = 2, publisher: str = "your-organisation") -> tuple[Path, ...]:
    """Write a Flower app that runs as it is into a new or empty folder, which names the app.

    Its roster has so many sites: agent-0, agent-1, ..., as simulated sites are called. Beside the
    app lies the connection ``fed`` for ``flwr``. The app has what Flower Hub asks for; there the
    publisher is the name of an account.
    """
    if sites < 1:
        raise InputError(f"an app needs at least one site, got {sites}")
    name = folder.resolve().name.lower().replace("_", "-")
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,31}", name):
        raise InputError(
            "the folder names the app: at most 32 letters, digits and '-', a letter first, got "
            f"{folder.resolve().name!r}"
        )
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", publisher):
        raise InputError(
            f"publisher must be a name of letters, digits, '.', '_' and '-', got {publisher!r}"
        )
    return write_templates(
        __package__,
        folder,
        _FILES,
        name=name,
        package=name.replace("-", "_"),
        publisher=publisher,
        sites=str(sites),
        agents=",".join(f"agent-{site}" for site in range(sites)),
        last=str(sites - 1),
        address=f"{HOST}:8000",
        authority=to_toml(folder.resolve().parent / "certs" / "server.pem"),
    )


class LocalFederation(Deployment):
    """A SuperLink and its SuperNodes with TLS; leaving the block stops every process.

    Each site gets a key, but no node yet.
    """

    starting = "starting a SuperLink with TLS, registering the sites' keys"
    sites_run = "SuperNodes"

    def __init__(self, folder: Path, agents: Sequence[str]) -> None:
        super().__init__(folder, agents)
        (self.port,) = free_ports(1)
        from fedwqcp.federation.certs import make_certs

        make_certs(self.folder / "certs", self.agents, ("localhost", HOST))
        make_folder(self.folder / "flwr")
        authority = to_toml(self.folder / "certs" / "server.pem")
        address = f"{HOST}:{self.port}"
        config = template(__package__, "config.toml.in", address=address, authority=authority)
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
