"""An answer that fits its type but not its question costs its sender the seat, not the round."""

from __future__ import annotations

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import choose_method
from fedwqcp.federation.server import Server
from fedwqcp.methods import Calibration
from fedwqcp.methods._pinball import Step
from fedwqcp.methods._search import Sums
from fedwqcp.methods._sketches import order_sketch
from fedwqcp.methods.cphet import density_of
from fedwqcp.methods.cphet.densities import FittedDensity
from fedwqcp.methods.dp_fedcp.label_shift import LabelCounts
from fedwqcp.methods.fcp import Counts
from fedwqcp.methods.fedcp_qq import SampleSize
from fedwqcp.wire.codec import encode, terms
from fedwqcp.wire.envelope import Answer
from fedwqcp.wire.round import Choice, Round

SORTED = order_sketch(np.array([0.1, 0.2, 0.3, 0.4]), 2, 2)
CASES = [
    ("fcp", {}, 1, Counts(5, (1,))),
    ("fcp", {}, 2, SORTED),
    ("fcp", {"sketch": "order"}, 0, Counts(5)),
    ("fedcp-qq", {}, 0, SampleSize(40)),
    ("fedcp-qq", {"selection": "truncate_min"}, 1, SampleSize(40)),
    ("dp-fedcp", {"solver": "exact"}, 0, LabelCounts((1,))),
    ("dp-fedcp", {"solver": "exact"}, 1, LabelCounts((1, 2, 3))),
    ("dp-fedcp", {"rounds": 5}, 2, Step((0.1,), (0.1,))),
    ("cphet", {}, 0, Sums((1.0,))),
    ("cphet", {}, 0, FittedDensity(9, density_of(np.eye(3)))),
    ("cphet", {}, 1, Sums((1.0,))),
    ("cphet", {}, 2, Sums((1.0,))),
    ("cphet", {"solver": "rounds", "rounds": 5}, 3, Step((0.1,), (0.1,))),
]


def calibrations():
    rng = np.random.default_rng(0)
    return {
        name: Calibration(
            rng.uniform(size=40), rng.permutation(np.arange(40) % 3), rng.normal(size=(40, 2)), 3
        )
        for name in "abcd"
    }


@pytest.mark.parametrize(("name", "settings", "bad_step", "wrong"), CASES)
def test_the_round_goes_on_without_it(name, settings, bad_step, wrong):
    method = fw.methods.get(name, **settings)
    round = Round("r1", choose_method(method), Choice("lac"), (0.2,), tuple("abcd"), 3, n_classes=3)
    cals = calibrations()
    agents = {who: Agent(who, round, cal, limit=None) for who, cal in cals.items()}
    server = Server(round)
    while not server.ended:
        for who, ask in server.asks().items():
            data = agents[who].answer(ask if server.step else None)
            if who == "b" and server.step == bad_step:
                data = encode(
                    Answer("r1", terms(round), server.step, "b", name, "lac",
                           (0.2,), (wrong,))
                )  # fmt: skip
            server.receive(data, who, who)
        server.close_step()
    release = server.release()
    assert release.used == ("a", "c", "d")
    assert list(release.refused) == ["b"]
    del cals["b"]
    alone = fw.calibrate(cals, method=method, alpha=0.2, score="lac")
    for who in cals:
        np.testing.assert_allclose(release.threshold(who), alone.threshold(who), atol=1e-9)
