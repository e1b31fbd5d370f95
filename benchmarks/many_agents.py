"""Many agents over the in-process grid: seconds and memory, printed against their limits.

Run: python benchmarks/many_agents.py 10000
Seconds are those of the processor. What the server alone needs: many_summaries.py.
"""

from __future__ import annotations

import logging
import resource
import sys
import time
from pathlib import Path

import numpy as np

import fedwqcp as fw
from fedwqcp.federation.plan import choose_method, choose_score, new_id
from fedwqcp.scores.custom import Custom
from fedwqcp.wire.messages import Round

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
    began = time.process_time()
    found = calibrate(grid, terms(agents))
    took = time.process_time() - began
    assert len(found.stored) == agents
    assert found.release.outcomes == fw.calibrate(data, alpha=0.1).outcomes
    scale = agents / 10_000
    print(f"grid, {agents} agents: {took:.1f} s, {memory():.0f} MiB", end="; ")
    print(f"{took / (5 * scale):.2f} of 5 s per 10,000, {memory() / 500:.2f} of 500 MiB")


if __name__ == "__main__":
    through_the_grid(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
