"""What a million answers cost the server: seconds and bytes of memory, beside their goals.

Run: python benchmarks/many_summaries.py --agents 1000000
Prints the server's own work in parts: reading and admitting each answer, closing the step, of that
the mean over the arrays of thresholds and sizes, and the release with its record of every agent;
and the growth of the process from before the first answer to the last. Seconds are those of the
processor. Ratios are to the goals for a million: 10 s for the work until the thresholds are there,
0.2 s for the mean.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from fedwqcp.federation.server import Server
from fedwqcp.methods._averages import weighted_mean
from fedwqcp.wire.codec import encode, terms
from fedwqcp.wire.messages import Answer, Choice, LocalQuantile, Round

BATCH = 10_000


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
            assert server.receive(data, name, name) is None

    while batch := list(zip(islice(names, BATCH), islice(coming, BATCH), strict=True)):
        spent += timed(lambda: _receive(batch))[0]
    return spent


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, default=100_000)
    n = parser.parse_args().agents
    names = tuple(f"agent-{i}" for i in range(n))
    round = Round("r", Choice("fedwq-cp"), Choice("aps"), (0.05,), names, 1)
    server = Server(round)
    before = resident()
    spent = admitted(server, round)
    held = resident() - before
    closed, _ = timed(server.close_step)
    values = np.array([summary(at).threshold for at in range(n)])
    sizes = np.array([summary(at).n for at in range(n)])
    mean, q_hat = timed(lambda: weighted_mean(values, sizes))
    released, release = timed(server.release)
    assert release.threshold(names[0]) == q_hat
    encoded, data = timed(lambda: encode(release))
    millions = n / 1e6
    print(f"{n:,} agents, load {os.getloadavg()[0]:.1f}")
    for what, t, goal in (
        ("read and admit", spent, None),
        ("close the step", closed, None),
        ("both together", spent + closed, 10.0),
        ("mean of the arrays", mean, 0.2),
        ("release", released, None),
        ("bytes of the release", encoded, None),
    ):
        ratio = "" if goal is None else f"  {t / (goal * millions):5.2f} of {goal:g} s per million"
        print(f"  {what:22} {t:8.2f} s  {t / n * 1e6:7.2f} us each{ratio}")
    print(f"  memory of the answers  {held / 2**20:8.1f} MiB {held / n:7.0f} bytes each")
    print(f"  release                {len(data) / 2**20:8.1f} MiB")


if __name__ == "__main__":
    main()
