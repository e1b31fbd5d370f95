"""The same app, unchanged, in Flower's simulation engine."""

from __future__ import annotations

import os
import urllib.request

import pytest

import fedwqcp as fw
from fedwqcp.federation.audit import audit
from fedwqcp.federation.transport.flower.commands import Commands, environment
from fedwqcp.federation.transport.flower.demo import is_over
from fedwqcp.federation.transport.flower.processes import Processes, free_ports, wait_until
from fedwqcp.federation.transport.flower.scaffold import new_app

pytestmark = pytest.mark.nightly

SITES = int(os.environ.get("FEDWQCP_SIMULATED", "100"))


def test_many_simulated_sites(tmp_path):
    pytest.importorskip("ray")
    new_app(tmp_path / "my-app")
    (port,) = free_ports(1)
    env = environment(tmp_path / "flwr")
    (tmp_path / "flwr").mkdir()
    (tmp_path / "flwr" / "config.toml").write_text(
        f'[superlink]\ndefault = "fed"\n[superlink.fed]\naddress = "127.0.0.1:{port}"\n'
        "insecure = true\n"
    )
    records = tmp_path / "records"
    agents = [f"agent-{i}" for i in range(SITES)]
    command = ("flower-superlink", "--simulation", "--insecure", "--host", "127.0.0.1")
    with Processes(tmp_path / "logs", env) as processes:
        off = "--disable-runtime-dependency-installation"
        processes.start("superlink", (*command, "--port", str(port), off), tmp_path)
        wait_until(lambda: answers(port), 60, "the SuperLink")
        commands = Commands(tmp_path, env)
        started = commands.flwr(
            *("run", str(tmp_path / "my-app"), "fed", "--format", "json"),
            *("--federation-config", f"num-supernodes={SITES} client-resources-num-cpus=1"),
            *("-c", f'agents="{",".join(agents)}" records="{records}" deadline=240.0'),
        )
        assert started.get("success"), started
        ended = commands.wait(str(started["run-id"]), 400.0, lambda: is_over(records))
        assert ended.status == "finished:completed", processes.said("superlink")[-3000:]
    (record,) = records.iterdir()
    release = fw.load(record / "release.json")
    assert list(release.used) == agents
    assert audit(record).matches


def answers(port):
    """Whether the SuperLink answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as reply:
            return reply.status == 200
    except OSError:
        return False
