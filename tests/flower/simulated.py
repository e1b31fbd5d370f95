"""A round of the generated app in Flower's simulation engine, with its time and memory."""

from __future__ import annotations

import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from fedwqcp.federation.transport.flower.deployment import LocalFederation, new_app
from fedwqcp.federation.transport.processes import descendants, round_ended, wait_until


@dataclass(frozen=True)
class Simulated:
    """The record of the round, its seconds, and the peak memory of all processes in MiB."""

    record: Path
    seconds: float
    peak: float


class Meter(threading.Thread):
    """Watches the memory of a process and of all that it started."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.peak, self.over = pid, 0.0, threading.Event()

    def run(self) -> None:
        """Look once a second: the sum of proportional set sizes, which counts no page twice."""
        while not self.over.wait(1.0):
            pids = [self.pid, *descendants(self.pid)]
            self.peak = max(self.peak, sum(map(_pss, pids)) / 1024)


def _pss(pid: int) -> int:
    """Memory of one process in KiB."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


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


def simulate(folder: Path, sites: int, seconds: float) -> Simulated:
    """Run the generated app with so many simulated sites; every process is stopped by its id."""
    new_app(folder / "my-app")
    records = folder / "records"
    agents = ",".join(f"agent-{i}" for i in range(sites))
    with Simulation(folder / "federation", ("agent-0",)) as federation:  # certificates need a name
        meter = Meter(federation.processes._running["superlink"].pid)
        meter.start()
        began = time.monotonic()
        said = federation.flwr(
            *("run", str(folder / "my-app"), "fed", "--format", "json"),
            *("--federation-config", f"num-supernodes={sites} client-resources-num-cpus=1"),
            *("-c", f'agents="{agents}" records="{records}" deadline={seconds / 2}'),
        )
        assert said.get("success"), said
        ended = federation.wait(str(said["run-id"]), seconds, lambda: round_ended(records))
        took = time.monotonic() - began
        meter.over.set()
        assert ended == "finished:completed", federation.processes.output("superlink")[-3000:]
    (record,) = records.iterdir()
    return Simulated(record, took, meter.peak)


def _answers(port: int) -> bool:
    """Whether the SuperLink answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False
