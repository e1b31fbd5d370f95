"""Many agents in one round: seconds and memory.

Run: python benchmarks/many_agents.py server 1000000
     python benchmarks/many_agents.py grid 10000

``server``: the server's own work in parts, and the growth of the process from before the first
answer to the last; the goal for a million is 10 s until the thresholds are there. ``grid``:
ServerApp and ClientApp of Flower in one process; the goals for 10,000 are 5 s and 500 MiB. Both
count processor seconds.
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import fedwqcp as fw
from fedwqcp.federation.plan import new_id
from fedwqcp.federation.server import Server
from fedwqcp.methods._averages import weighted_mean
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Answer, Choice, LocalQuantile, Round
from fedwqcp.wire.terms import terms

sys.path[:0] = [str(Path(__file__).parents[1] / part) for part in ("tests/flower", "tools")]

BATCH = 10_000


def round_of(agents: int, score: str, quorum: int) -> Round:
    """A round with so many agents."""
    names = tuple(f"agent-{i}" for i in range(agents))
    return Round(new_id(), Choice("fedwq-cp"), Choice(score), (0.1,), names, quorum)


def summary(at: int) -> LocalQuantile:
    """The summary of one agent."""
    return LocalQuantile(0.9 + at * 1e-9, 100 + at % 7)


def answers(round: Round) -> Iterator[bytes]:
    """Encode the answer of each agent."""
    digest = terms(round)
    for at, agent in enumerate(round.agents):
        own = (summary(at),)
        yield encode(Answer(round.id, digest, 0, agent, "fedwq-cp", "aps", round.alphas, own))


def resident() -> int:
    """Return the memory of this process in bytes."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor's seconds for some work, and what it gave."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def admitted(server: Server, round: Round) -> float:
    """Hand the server every answer; return the seconds, the making of answers not counted."""
    names, coming, spent = iter(round.agents), answers(round), 0.0

    def _receive(batch: Sequence[tuple[str, bytes]]) -> None:
        for name, data in batch:
            assert server.receive(data, name) is None

    while batch := list(zip(islice(names, BATCH), islice(coming, BATCH), strict=True)):
        spent += timed(lambda: _receive(batch))[0]
    return spent


def at_the_server(n: int) -> None:
    """Print what the server alone needs."""
    round = round_of(n, "aps", quorum=1)
    server = Server(round)
    before = resident()
    spent = admitted(server, round)
    held = resident() - before
    closed, _ = timed(server.close_step)
    values = np.array([summary(at).threshold for at in range(n)])
    sizes = np.array([summary(at).n for at in range(n)])
    mean, q_hat = timed(lambda: weighted_mean(values, sizes))
    released, release = timed(server.release)
    assert release.threshold(round.agents[0]) == q_hat
    encoded, data = timed(lambda: encode(release))
    print(f"{n:,} agents, load {os.getloadavg()[0]:.1f}")
    for what, t, goal in (
        ("read and admit", spent, None),
        ("close the step", closed, None),
        ("both together", spent + closed, 10.0),
        ("mean of the arrays", mean, None),
        ("release", released, None),
        ("bytes of the release", encoded, None),
    ):
        ratio = "" if goal is None else f"  {t / (goal * n / 1e6):5.2f} of {goal:g} s per million"
        print(f"  {what:22} {t:8.2f} s  {t / n * 1e6:7.2f} us each{ratio}")
    print(f"  memory of the answers  {held / 2**20:8.1f} MiB {held / n:7.0f} bytes each")
    print(f"  release                {len(data) / 2**20:8.1f} MiB")


def through_the_grid(agents: int) -> None:
    """Print what a round over the in-process grid needs."""
    from inprocess import InProcessGrid

    from fedwqcp.federation.transport.flower import calibrate, client_app

    logging.getLogger("flwr").setLevel(logging.WARNING)
    rng = np.random.default_rng(0)
    data = {f"agent-{i}": fw.Calibration(rng.random(50)) for i in range(agents)}
    app = client_app(lambda context: data[context.node_config["agent"]], watchdog=False)
    configs = {i: {"agent": f"agent-{i}", "folder": ""} for i in range(agents)}
    grid = InProcessGrid(dict.fromkeys(configs, app), configs)
    took, found = timed(lambda: calibrate(grid, round_of(agents, "custom", quorum=agents)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert len(found.stored) == agents
    assert found.release.outcomes == fw.calibrate(data, method="fedwq-cp", alpha=0.1).outcomes
    print(f"{agents:,} agents: {took:.1f} s, {memory:.0f} MiB", end="; ")
    print(f"{took / (5 * agents / 10_000):.2f} of 5 s per 10,000, {memory / 500:.2f} of 500 MiB")


WAYS = {"server": at_the_server, "grid": through_the_grid}


def main() -> None:
    """Measure one way with each number of agents."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("agents", type=int, nargs="+")
    given = parser.parse_args()
    for agents in given.agents:
        WAYS[given.way](agents)


if __name__ == "__main__":
    main()
