from __future__ import annotations

from math import exp, inf

import numpy as np
import pytest

from fedwqcp.quantile import conformal_rank
from fedwqcp_lab.studies.simulation import ScoreDistribution, simulate


def many_agents_limit(n: int, alpha: float, family: str) -> float:
    """Return the coverage of FedWQ-CP with many agents that are all alike.

    The mean of their thresholds tends to the expected r-th of n order statistics, which is
    r / (n + 1) for U(0, 1), H_n - H_{n-r} for Exp(1) and H_{r-1} - H_n for -Exp(1). Averaging
    over-covers where the quantile function is convex and under-covers where it is concave.
    """
    r = conformal_rank(n, alpha)
    if r > n:
        return 1.0
    H = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n + 1))])
    mean = {"uniform": r / (n + 1), "exponential": H[n] - H[n - r], "reflected": H[r - 1] - H[n]}
    return float(ScoreDistribution((1.0,), family).cdf(mean[family], [1.0]))


@pytest.mark.parametrize("family", ["uniform", "exponential", "reflected"])
@pytest.mark.parametrize(("n", "alpha"), [(10, 0.1), (19, 0.05)])
def test_like_agents_reach_the_limit(n: int, alpha: float, family: str) -> None:
    scores, rng = ScoreDistribution((1.0,), family), np.random.default_rng(n)
    found = simulate([n], [inf], alpha=alpha, scores=scores, agents=2000, repetitions=50, rng=rng)
    coverage = found.coverage[0, 0]
    # 100,000 thresholds: the mean is within five standard errors, and bias of averaging is 1/2000
    error = 5 * coverage.std() / np.sqrt(50) + 1e-4
    assert coverage.mean() == pytest.approx(many_agents_limit(n, alpha, family), abs=error)


def test_simulation_of_one_agent_by_hand() -> None:
    scores = ScoreDistribution((1.0, 3.0))
    found = simulate([50], [inf], alpha=0.1, scores=scores, agents=1, repetitions=4, rng=_rng())
    draws = scores.sample(50, np.full((4, 1, 2), 0.5), _rng())[:, 0]
    q = np.sort(draws, axis=1)[:, 45]  # rank ceil(51 * 0.9) = 46
    assert found.coverage[0, 0] == pytest.approx(1 - (np.exp(-q) + np.exp(-q / 3)) / 2)
    assert found.limit[0] == pytest.approx([0.9] * 4)
    assert found.error == pytest.approx(np.abs(found.coverage - 0.9).mean(axis=2))


def _rng() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.mark.parametrize(
    ("family", "q", "share"),
    [
        ("uniform", -1.0, 0.0),
        ("uniform", 0.5, (0.5 + 0.25) / 2),
        ("uniform", 1.5, (1 + 0.75) / 2),
        ("exponential", -1.0, 0.0),
        ("exponential", 2.0, (1 - exp(-2) + 1 - exp(-1)) / 2),
        ("reflected", -2.0, (exp(-2) + exp(-1)) / 2),
        ("reflected", 1.0, 1.0),
    ],
)
def test_cdf_by_hand(family: str, q: float, share: float) -> None:
    assert ScoreDistribution((1.0, 2.0), family).cdf(q, [0.5, 0.5]) == pytest.approx(share)


def test_unequal_models_keep_the_worst_agent_away_however_many_points():
    """Scores U(0, 0.1) at 9 of 10 points, U(0, 1) at one: the weak agent's limit is 0.171."""
    scores = ScoreDistribution((1.0,), "uniform")
    unequal = {"agents": 2, "shares": (9, 1), "models": (0.1, 1.0)}
    found = simulate(
        [50, 5000], [inf], alpha=0.1, scores=scores, **unequal, repetitions=40, rng=_rng()
    )
    assert found.worst_limit == pytest.approx(np.full((1, 40), 0.171))
    assert found.limit == pytest.approx(np.full((1, 40), (1 + 0.171) / 2))
    few, many = np.abs(found.worst[0] - 0.171).mean(axis=-1)
    assert many < few  # it converges, to the wrong place
