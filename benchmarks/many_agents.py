"""Many agents: the in-process grid, and the server's own work, printed against their limits."""

from __future__ import annotations

import logging
import resource
import sys
import time
from pathlib import Path

import numpy as np

import fedwqcp as fw
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import choose_method, choose_score, new_id
from fedwqcp.federation.server import Server
from fedwqcp.methods.fedwq_cp import FedWQCP
from fedwqcp.scores.custom import Custom
from fedwqcp.wire.payload import LocalQuantile
from fedwqcp.wire.round import Round

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "flower"))


def terms(agents: int) -> Round:
    """A round with so many agents."""
    return Round(
        id=new_id(),
        method=choose_method("fedwq-cp"),
        score=choose_score(Custom()),
        alphas=(0.1,),
        agents=tuple(f"agent-{i}" for i in range(agents)),
        quorum=agents,
    )


def memory() -> float:
    """Peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def through_the_grid(agents: int) -> None:
    """ServerApp and ClientApp over the in-process grid."""
    from inprocess import InProcessGrid

    from fedwqcp.federation.transport.flower import calibrate, client_app

    logging.getLogger("flwr").setLevel(logging.WARNING)
    rng = np.random.default_rng(0)
    data = {f"agent-{i}": fw.Calibration(rng.random(50)) for i in range(agents)}
    app = client_app(lambda context: data[context.node_config["agent"]], watchdog=False)
    configs = {i: {"agent": f"agent-{i}", "folder": ""} for i in range(agents)}
    grid = InProcessGrid(dict.fromkeys(configs, app), configs)
    began = time.perf_counter()
    found = calibrate(grid, terms(agents))
    took = time.perf_counter() - began
    assert len(found.stored) == agents
    assert found.release.outcomes == fw.calibrate(data, alpha=0.1).outcomes
    scale = agents / 10_000
    print(f"grid, {agents} agents: {took:.1f} s, {memory():.0f} MiB", end="; ")
    print(f"{took / (5 * scale):.2f} of 5 s per 10,000, {memory() / 500:.2f} of 500 MiB")


def servers_own_work(messages: int) -> None:
    """Decode and admit encoded summaries, then aggregate."""
    round = terms(messages)
    server = Server(round)
    small = Agent("agent-0", round, fw.Calibration(np.linspace(0, 1, 50))).answer()
    answers = [small.replace(b'"agent-0"', f'"agent-{i}"'.encode()) for i in range(messages)]
    before = memory()
    began = time.perf_counter()
    for answer in answers:
        server.receive(answer, "grid")
    took = time.perf_counter() - began
    kept = (memory() - before) * 2**20 / messages
    print(
        f"server, {messages} answers: {took:.1f} s ({took / messages * 1e6:.1f} us each)", end="; "
    )
    print(f"{took / (messages / 1e5):.2f} of 10 s per million; {kept:.0f} bytes kept per agent")
    began = time.perf_counter()
    server.close_step()
    took = time.perf_counter() - began
    print(f"  close: {took:.2f} s, {took / (0.2 * messages / 1e6):.2f} of 0.2 s per million")
    decoded = [LocalQuantile(threshold=i / messages, n=50) for i in range(messages)]
    began = time.perf_counter()
    FedWQCP().aggregate(decoded, 0.1)
    took = time.perf_counter() - began
    print(
        f"  aggregate alone: {took:.2f} s, {took / (0.2 * messages / 1e6):.2f} of 0.2 s per million"
    )


if __name__ == "__main__":
    through_the_grid(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
    servers_own_work(int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
