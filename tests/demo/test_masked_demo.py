"""Masked sums give the plain thresholds on every dataset of the demo, negative scores included."""

from __future__ import annotations

import pytest

import fedwqcp as fw

pytest.importorskip("sklearn")

from fedwqcp.demo.agents import prepare
from fedwqcp.demo.embedded import digits, friedman
from fedwqcp.demo.streams import stream

METHODS = (
    fw.methods.get("fedwq-cp"),
    fw.methods.get("fedavgq-cp"),
    fw.methods.get("fcp", probes=255),
)


@pytest.fixture(scope="module", params=["digits", "friedman", "friedman-cqr"])
def scores(request):
    """Every agent's scores; bands of half-width 1 make residuals scores of CQR."""
    data = digits() if request.param == "digits" else friedman(900, stream(0, "friedman"))
    problem = prepare(data, 0, beta=1.0, epochs=1, on_step=lambda _: None)
    shift = 1.0 if request.param == "friedman-cqr" else 0.0
    return {side.recipe.name: side.calibration.scores - shift for side in problem.sides}


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_the_demo_data(scores, method, alpha):
    plain = fw.calibrate(scores, method=method, alpha=alpha)
    secure = fw.calibrate(scores, method=method, alpha=alpha, secure=(-1.0, 60.0))
    (outcome,) = secure.outcomes
    first = next(iter(scores))
    q = plain.threshold(first)
    assert q <= outcome.value <= q + outcome.margin or q == outcome.value
    assert outcome.margin < 1e-5
    assert secure.used == tuple(scores)
