"""A round of the generated app in Flower's simulation engine, by the printed commands."""

from __future__ import annotations

import urllib.request
from pathlib import Path

from local_federation import LocalFederation, round_ended, wait_until

from fedwqcp.federation.transport.flower.deployment import new_app


class Simulation(LocalFederation):
    """A SuperLink that simulates its sites, without TLS."""

    def start(self) -> None:
        (self.folder / "flwr" / "config.toml").write_text(
            '[superlink]\ndefault = "fed"\n'
            f'[superlink.fed]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )
        command = ("flower-superlink", "--simulation", "--insecure", "--host", "127.0.0.1")
        off = "--disable-runtime-dependency-installation"
        self.processes.start("superlink", (*command, "--port", str(self.port), off), self.folder)
        wait_until(lambda: _answers(self.port), 60, "the SuperLink")


def simulate(folder: Path, sites: int, seconds: float) -> Path:
    """Run the generated app with so many simulated sites, and return the record of its round."""
    new_app(folder / "my-app", sites)
    records = folder / "records"
    with Simulation(folder / "federation", ("agent-0",)) as federation:  # certificates need a name
        said = federation.flwr(
            *("run", str(folder / "my-app"), "fed", "--format", "json"),
            *("--federation-config", f"num-supernodes={sites}", "-c", f'records="{records}"'),
        )
        ended = federation.wait(str(said["run-id"]), seconds, lambda: round_ended(records))
        assert ended == "finished:completed", federation.processes.output("superlink")[-3000:]
    (record,) = records.iterdir()
    return record


def _answers(port: int) -> bool:
    """Whether the SuperLink answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False
