"""A whole Flower federation on this machine: TLS, authenticated nodes, processes of its own."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from fedwqcp.errors import InputError
from fedwqcp.federation.certs import make_certs
from fedwqcp.federation.transport.flower.commands import FLWR, Commands, as_toml, environment
from fedwqcp.federation.transport.flower.processes import Processes, free_ports, wait_until

HOST = "127.0.0.1"
"""Everything stays on this machine."""


class Loopback(AbstractContextManager["Loopback"]):
    """A SuperLink and its SuperNodes; leaving the block stops every process.

    Parameters
    ----------
    folder : Path
        For certificates, logs and Flower's own files.
    agents : sequence of str
        Names of the sites; each gets a key, but no node yet.
    """

    def __init__(self, folder: Path, agents: Sequence[str]) -> None:
        self.folder = folder.resolve()
        self.agents = tuple(agents)
        (self.port,) = free_ports(1)
        env = environment(self.folder / "flwr")
        self.commands = Commands(self.folder, env)
        self.processes = Processes(self.folder / "logs", env)
        make_certs(self.folder / "certs", self.agents, ("localhost", HOST))
        (self.folder / "flwr").mkdir(exist_ok=True)
        (self.folder / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "fed"\n\n[superlink.fed]\naddress = "{HOST}:{self.port}"\n'
            f'root-certificates = "{self.folder / "certs" / "ca.crt"}"\n'
        )

    def __enter__(self) -> Loopback:
        try:
            self.start_superlink()
            self._register()
        except BaseException:
            self.processes.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.processes.__exit__(kind, error, trace)

    def start_superlink(self) -> None:
        """Start the SuperLink, and wait until it answers."""
        certs = self.folder / "certs"
        command = (
            *("flower-superlink", "--host", HOST, "--port", str(self.port)),
            *("--disable-runtime-dependency-installation", "--enable-supernode-auth"),
            *("--database", self.folder / "state.db", "--ssl-ca-certfile", certs / "ca.crt"),
            *("--ssl-certfile", certs / "server.pem", "--ssl-keyfile", certs / "server.key"),
        )
        self.processes.start("superlink", command, self.folder)
        trust = ssl.create_default_context(cafile=str(certs / "ca.crt"))

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

    def start_node(
        self,
        agent: str,
        config: Mapping[str, object],
        *,
        key: Path | None = None,
        ca: Path | None = None,
        port: int | None = None,
    ) -> None:
        """Start the SuperNode of a site; it is called like its agent.

        Parameters
        ----------
        agent : str
            The site.
        config : mapping
            Its node configuration besides ``agent``.
        key : Path, optional
            Its private key; by default the one that was registered.
        ca : Path, optional
            The authority it trusts; by default the federation's.
        port : int, optional
            Port of this machine that it calls; by default the SuperLink's own.
        """
        certs = self.folder / "certs"
        (own,) = free_ports(1)
        whole = {"agent": agent, **config}
        said = " ".join(f"{name}={as_toml(value)}" for name, value in whole.items())
        command = (
            *("flower-supernode", "--superlink", f"{HOST}:{port or self.port}"),
            *("--host", HOST, "--port", str(own), "--node-config", said),
            *("--root-certificates", ca or certs / "ca.crt"),
            *("--auth-supernode-private-key", key or certs / "keys" / agent),
        )
        self.processes.start(agent, command, self.folder)

    def wait_online(self, count: int, seconds: float = 90.0) -> None:
        """Wait until so many nodes are online.

        Parameters
        ----------
        count : int
            How many.
        seconds : float, optional
            How long to wait.
        """
        wait_until(lambda: self.commands.online() >= count, seconds, f"{count} nodes")

    def _register(self) -> None:
        """Make the sites' public keys known to the SuperLink."""
        keys = self.folder / "certs" / "keys"
        for name in self.agents:
            command = (FLWR, "supernode", "register", keys / f"{name}.pub", "fed", "--name", name)
            self.processes.start(f"register-{name}", command, self.folder)
        for name in self.agents:
            wait_until(lambda n=name: not self.processes.alive(f"register-{n}"), 60, name)  # type: ignore[misc]  # bound now
            self.processes.stop(f"register-{name}")
