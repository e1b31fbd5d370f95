"""Every transport carries the same bytes, so every method releases the same through each."""

from __future__ import annotations

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import choose_method
from fedwqcp.federation.server import Server
from fedwqcp.federation.transport import folder, local
from fedwqcp.methods import Calibration
from fedwqcp.wire.round import Choice, Round

SETTINGS = {"dp-fedcp": {"rounds": 4, "count_noise": 0.0}}
METHODS = [fw.methods.get(name, **SETTINGS.get(name, {})) for name in fw.methods.available()]


def calibrations():
    rng = np.random.default_rng(8)
    return {
        f"site-{i}": Calibration(
            rng.uniform(size=n), rng.permutation(np.arange(n) % 3), rng.normal(size=(n, 2)), 3
        )
        for i, n in enumerate((30, 45, 25))
    }


def by_files(round, cals, home):
    """Carry a round by files until it ends."""
    path, answers, asks = home / "round.json", [], {}
    folder.open_round(round, path)
    for step in range(100):
        for name, cal in cals.items():
            ask = asks.get(name, asks.get(""))
            answers.append(home / f"{name}.step-{step}.json")
            if round.method.name == "split-cp":
                answers.pop()
                continue
            folder.write_answer(Agent(name, round, cal, limit=None), answers[-1], ask)
        closed = folder.close_round(path, answers, home / "release.json")
        if closed.release is not None:
            return closed.release
        named = {p.name.split(".")[2]: p for p in closed.asks}
        asks = named if len(closed.asks) > 1 else {"": closed.asks[0]}
    raise AssertionError("the round did not end")


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_files_release_what_one_process_releases(method, tmp_path):
    cals = calibrations()
    round = Round("r1", choose_method(method), Choice("lac"), (0.2,), tuple(cals), 3, n_classes=3)
    agents = {name: Agent(name, round, cal, limit=None) for name, cal in cals.items()}
    here = local.run(Server(round), agents)
    there = by_files(round, cals, tmp_path)
    assert there.outcomes == here.outcomes
    assert there.rounds == here.rounds
    assert [a.bytes_up for a in there.agents] == [a.bytes_up for a in here.agents]
    assert there == here
