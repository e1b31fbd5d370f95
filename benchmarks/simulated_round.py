"""One FedWQ-CP round of many agents in Flower's simulation engine: seconds and memory.

Run: python benchmarks/simulated_round.py 1000 10000 (needs the extra ``simulation``)
Prints, for each number of agents, the seconds from ``flwr run`` to the release at the sites, the
peak memory of all processes together, and both for each agent.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "flower"))


def main() -> None:
    """Print the table."""
    from simulated import simulate

    for agents in map(int, sys.argv[1:] or ["1000"]):
        with tempfile.TemporaryDirectory() as folder:
            found = simulate(Path(folder), agents, seconds=3600.0)
        print(
            f"{agents:,} agents: {found.seconds:.0f} s, {found.seconds / agents * 1e3:.1f} ms each;"
        )
        print(f"  peak memory {found.peak:.0f} MiB, {found.peak / agents * 1024:.0f} KiB each")


if __name__ == "__main__":
    main()
