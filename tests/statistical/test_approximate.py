"""What is proved only approximately, or not at all: simulations with their exact coverages."""

from __future__ import annotations

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.methods.cphet import CPhet
from fedwqcp.methods.dp_fedcp import DPFedCP
from fedwqcp.methods.fedls_cp import FedLSCP

SIGMAS = 5  # a fair test fails by chance less than once in a million


def near(values, to):
    """Return how far a mean lies from a number at most, and at least, but for chance."""
    error = SIGMAS * np.std(values) / np.sqrt(len(values))
    distance = abs(np.mean(values) - to)
    return distance + error, distance - error


@pytest.mark.guarantee("fedwq-cp", "none in finite samples, not even with identical agents")
@pytest.mark.guarantee("fedavgq-cp", "none in finite samples, not even with identical agents")
@pytest.mark.parametrize("method", ["fedwq-cp", "fedavgq-cp"])
def test_the_mean_undercovers_among_identical_agents(method):
    """Scores -Exp(1) pile up at their upper end; F(q) = exp(q)."""
    rng, alpha, runs = np.random.default_rng(0), 0.5, 200
    rule = fw.methods.get(method)
    covered = []
    for _ in range(runs):
        sent = [rule.summarize(fw.Calibration(-rng.exponential(size=1)), alpha) for _ in range(50)]
        covered.append(np.exp(rule.aggregate(sent, alpha).value))  # near exp(-1) = 0.368
    assert np.mean(covered) + SIGMAS * np.std(covered) / np.sqrt(runs) < 1 - alpha


@pytest.mark.parametrize("method", ["fedcp-qq"])
def test_one_that_differs_may_never_be_covered(method):
    agents = {f"a{k}": np.arange(1, 100) / 100 for k in range(4)} | {"b": np.arange(1, 100) + 10.0}
    release = fw.calibrate(agents, method=method, alpha=0.1)
    assert release.threshold("b") < 1.0  # all scores of b are above 11


def test_a_strong_agent_drags_a_weak_one_down():
    scores = {"strong": np.arange(1, 901) / 9010, "weak": np.arange(1, 101) / 101}  # quantiles
    q = fw.calibrate(scores, method="fedwq-cp", alpha=0.1).threshold("strong")
    assert min(1.0, q / 0.1) == 1.0
    assert q == pytest.approx(0.171, abs=0.0005)


LABELS = np.array([(300, 60, 40), (40, 300, 60), (60, 40, 300)])
POWERS = np.array([2.0, 1.0, 0.4])
"""Scores of class c are U ** POWERS[c] at every agent: only label shares differ."""


def labelled(rng, counts):
    labels = np.repeat(np.arange(3), counts)
    return fw.Calibration(rng.uniform(size=counts.sum()) ** POWERS[labels], labels, n_classes=3)


@pytest.mark.slow
@pytest.mark.guarantee("dp-fedcp", "approximate coverage at the target, if the distribution of X")
@pytest.mark.guarantee("fedls-cp", "With shrinkage coverage is approximate, and right as far as")
@pytest.mark.parametrize("method", [DPFedCP, FedLSCP])
def test_label_shift_is_corrected(method):
    """Nearer to 0.9 at the target than the uncorrected threshold, which label shift misleads."""
    rng, alpha, pi, runs = np.random.default_rng(1), 0.1, np.array([0.1, 0.1, 0.8]), 150
    terms = {"method": method(**({"solver": "exact"} if method is DPFedCP else {}))}
    terms["target"] = tuple(pi)
    corrected, plain = [], []
    for _ in range(runs):
        cals = {f"a{k}": labelled(rng, row) for k, row in enumerate(LABELS)}
        for found, used in ((corrected, terms), (plain, {"method": "fcp"})):
            q = np.broadcast_to(fw.calibrate(cals, **used, alpha=alpha).threshold("a0"), 3)
            found.append(float((pi * np.clip(q, 0, 1) ** (1 / POWERS)).sum()))
    assert near(corrected, 0.9)[0] < near(plain, 0.9)[1]


@pytest.mark.slow
@pytest.mark.guarantee(
    "cphet", "approximate coverage at the target, if the distribution of Y given"
)
def test_covariate_shift_is_corrected():
    """Scores are |x| E with E uniform: large where an agent's inputs lie far out."""
    rng, alpha, runs = np.random.default_rng(2), 0.1, 60
    places, points = (0.0, 2.0, 4.0), 400
    corrected, plain = [], []
    for _ in range(runs):
        cals = {}
        for k, place in enumerate(places):
            x = rng.normal(place, 1.0, size=points)
            cals[f"a{k}"] = fw.Calibration(
                np.abs(x) * rng.uniform(size=points), features=x[:, None]
            )
        test = np.abs(rng.normal(places[2], 1.0, size=4000))
        for found, used in ((corrected, CPhet()), (plain, "fcp")):
            q = float(fw.calibrate(cals, method=used, alpha=alpha).threshold("a2"))
            found.append(float(np.minimum(1.0, q / test).mean()))  # P(score <= q | x)
    assert near(corrected, 0.9)[0] < near(plain, 0.9)[1]
