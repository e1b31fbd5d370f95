from __future__ import annotations

from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
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


def test_uniform_scores_cover_r_over_n_plus_one_with_any_number_of_agents() -> None:
    scores, rng = ScoreDistribution((1.0,), "uniform"), np.random.default_rng(1)
    for n in (10, 40):
        found = simulate(
            [n], [inf], alpha=0.1, scores=scores, agents=3, repetitions=20_000, rng=rng
        )
        r = conformal_rank(n, 0.1)
        variance = r * (n + 1 - r) / ((n + 1) ** 2 * (n + 2)) / 3
        error = 5 * np.sqrt(variance / 20_000)
        assert found.coverage.mean() == pytest.approx(r / (n + 1), abs=error)


def test_simulation_of_one_agent_by_hand() -> None:
    scores = ScoreDistribution((1.0, 3.0))
    found = simulate([50], [inf], alpha=0.1, scores=scores, agents=1, repetitions=4, rng=_rng())
    draws = scores.sample(50, np.full((4, 1, 2), 0.5), _rng())[:, 0]
    q = np.sort(draws, axis=1)[:, 45]  # rank ceil(51 * 0.9) = 46
    assert found.coverage[0, 0] == pytest.approx(1 - (np.exp(-q) + np.exp(-q / 3)) / 2)
    assert found.limit[0] == pytest.approx([0.9] * 4)
    assert found.error == pytest.approx(np.abs(found.coverage - 0.9).mean(axis=2))


def test_shapes_and_seeds() -> None:
    scores = ScoreDistribution((1.0, 2.0, 3.0))
    first, second = (
        simulate([5, 20], [0.3, 3, inf], alpha=0.1, scores=scores, repetitions=7, rng=_rng())
        for _ in range(2)
    )
    assert (first.sizes, first.betas, first.alpha) == ((5, 20), (0.3, 3, inf), 0.1)
    assert (first.coverage.shape, first.limit.shape) == ((3, 2, 7), (3, 7))
    assert first.error.shape == (3, 2)
    assert np.array_equal(first.coverage, second.coverage)
    assert (first.coverage[:, 0] == 1).all()  # five points at alpha = 0.1: the threshold is +inf
    assert (first.coverage[:, 1] < 1).all()


def test_extreme_skew_has_a_known_limit() -> None:
    # each agent holds one class alone: its population quantile is s log(10)
    scores = ScoreDistribution((1.0, 4.0))
    found = simulate([10], [1e-6], alpha=0.1, scores=scores, agents=1, repetitions=20, rng=_rng())
    known = [float(scores.cdf(s * log(10), [0.5, 0.5])) for s in scores.scales]
    nearest = np.abs(found.limit[0][:, None] - known).min(axis=1)
    assert nearest.max() < 1e-6
    assert np.ptp(found.limit[0]) > 0.1


@pytest.mark.slow
def test_error_falls_with_n_and_beta() -> None:
    scores = ScoreDistribution((0.2, 0.5, 1.0, 2.0, 4.0))
    sizes, betas = [50, 400, 6400], [0.1, 1, 10, 1000]
    found = simulate(
        sizes, betas, alpha=0.1, scores=scores, repetitions=300, rng=np.random.default_rng(11)
    )
    assert (np.diff(found.error, axis=0) < 0).all()  # less skew, less error, at every size
    assert (np.diff(found.error[-1]) < 0).all()  # more points, less error, where skew is gone
    assert found.error[-1, -1] < 0.005 < 0.02 < found.error[0, -1]
    # at fixed beta the error does not vanish: it goes to that of the population quantiles
    gap = np.abs(found.coverage - found.limit[:, None]).mean(axis=2)
    assert (np.diff(gap, axis=1) < 0).all()
    assert gap[:, -1].max() < 0.005
    assert np.abs(found.limit[0] - 0.9).mean() > 0.02


@pytest.mark.parametrize(
    "change",
    [{"sizes": [0]}, {"betas": [0.0]}, {"betas": [-1.0]}, {"agents": 0}, {"repetitions": 0}],
)
def test_simulate_refuses(change: dict) -> None:
    settings = {
        "sizes": [10],
        "betas": [1.0],
        "alpha": 0.1,
        "scores": ScoreDistribution((1.0,)),
    } | change
    with pytest.raises(InputError, match="must be positive"):
        simulate(**settings, rng=_rng())


def _rng() -> np.random.Generator:
    return np.random.default_rng(5)


FAMILIES = ("uniform", "exponential", "reflected")


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


@given(st.sampled_from(FAMILIES), st.floats(0.05, 0.95), st.floats(0.01, 0.99))
def test_quantile_inverts_the_cdf(family: str, level: float, share: float) -> None:
    scores, weights = ScoreDistribution((0.5, 4.0), family), np.array([share, 1 - share])
    q = scores.quantile(level, weights)
    assert scores.cdf(q, weights) == pytest.approx(level, abs=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_samples_follow_the_distribution(family: str) -> None:
    scores, weights = ScoreDistribution((1.0, 3.0), family), np.array([[0.3, 0.7], [0.9, 0.1]])
    drawn = scores.sample(4000, weights, np.random.default_rng(8))
    assert drawn.shape == (2, 4000)
    for row, own in zip(drawn, weights, strict=True):
        ranks = np.sort(scores.cdf(row, own))  # uniform if the distribution is right
        distance = np.abs(ranks - (np.arange(4000) + 0.5) / 4000).max()
        assert distance < 2.8 / np.sqrt(4000)  # Kolmogorov: passed with probability 3e-7


def test_distributions_that_are_none_are_refused() -> None:
    for scales in ((), (1.0, 0.0), (-1.0,), (inf,)):
        with pytest.raises(InputError):
            ScoreDistribution(scales)
    with pytest.raises(InputError):
        ScoreDistribution((1.0,), "normal")


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


def test_shares_and_models_are_one_positive_number_for_each_agent():
    scores = ScoreDistribution((1.0,), "uniform")
    for wrong in ({"shares": (1, 2)}, {"models": (1, 0, 1)}):
        with pytest.raises(InputError, match="each agent"):
            simulate([5], [1.0], alpha=0.1, scores=scores, agents=3, **wrong, rng=_rng())
