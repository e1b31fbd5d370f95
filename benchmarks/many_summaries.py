"""What a million answers cost the server: seconds and bytes of memory for each.

Run: python benchmarks/many_summaries.py --agents 1000000
Prints the server's own work in parts: reading and admitting each answer, the aggregation, and the
release with its record of every agent; and the growth of the process from before the first answer
to the release. Seconds are those of the processor. The aim is 10 s for a million, without the
release's bytes.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Iterator

from fedwqcp.federation.server import Server
from fedwqcp.wire.codec import encode, terms
from fedwqcp.wire.envelope import Answer
from fedwqcp.wire.payload import LocalQuantile
from fedwqcp.wire.round import Choice, Round


def answers(round: Round) -> Iterator[bytes]:
    """Encode the answer of each agent."""
    digest = terms(round)
    for at, agent in enumerate(round.agents):
        summary = LocalQuantile(0.9 + at * 1e-9, 100 + at % 7)
        yield encode(
            Answer(round.id, digest, 0, agent, "fedwq-cp", "aps", round.alphas, (summary,))
        )


def resident() -> int:
    """Return the memory of this process in bytes."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, default=100_000)
    n = parser.parse_args().agents
    names = tuple(f"agent-{i}" for i in range(n))
    round = Round("r", Choice("fedwq-cp"), Choice("aps"), (0.05,), names, 1)
    server = Server(round)
    before, spent = resident(), 0.0
    for data, name in zip(answers(round), names, strict=True):
        start = time.process_time()
        refusal = server.receive(data, name, name)
        spent += time.process_time() - start
        assert refusal is None
    held = resident() - before
    parts = {"read and admit": spent}
    for what, work in (("aggregate", server.close_step), ("release", server.release)):
        start = time.process_time()
        released = work()
        parts[what] = time.process_time() - start
    start = time.process_time()
    size = len(encode(released))
    parts["bytes of the release"] = time.process_time() - start
    load = os.getloadavg()[0]
    print(f"{n:,} agents, load {load:.1f}")
    for what, t in parts.items():
        print(f"  {what:22} {t:8.2f} s  {t / n * 1e6:7.2f} us each")
    print(f"  memory held            {held / 2**20:8.1f} MiB {held / n:7.0f} bytes each")
    print(f"  release                {size / 2**20:8.1f} MiB")


if __name__ == "__main__":
    main()
