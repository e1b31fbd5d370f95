from math import exp, inf, log

import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp.quantile import conformal_rank
from fedwqcp.theory import ScoreLaw, many_agents_limit, simulate


@pytest.mark.parametrize(
    ("n", "alpha", "family", "coverage"),
    [
        (10, 0.1, "exponential", 0.9465),
        (19, 0.05, "exponential", 0.9712),
        (19, 0.05, "reflected", 0.9487),
        (19, 0.05, "uniform", 0.95),
        (10, 0.1, "uniform", 10 / 11),
        (18, 0.05, "uniform", 1.0),
    ],
)
def test_many_agents_limit_by_known_values(
    n: int, alpha: float, family: str, coverage: float
) -> None:
    assert many_agents_limit(n, alpha, family) == pytest.approx(coverage, abs=5e-5)


def test_many_agents_limit_by_harmonic_numbers() -> None:
    H = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, 31))])
    r = conformal_rank(30, 0.2)
    assert many_agents_limit(30, 0.2, "exponential") == pytest.approx(1 - exp(H[30 - r] - H[30]))
    assert many_agents_limit(30, 0.2, "reflected") == pytest.approx(exp(H[r - 1] - H[30]))


@pytest.mark.parametrize("family", ["uniform", "exponential", "reflected"])
@pytest.mark.parametrize(("n", "alpha"), [(10, 0.1), (19, 0.05)])
def test_like_agents_reach_the_limit(n: int, alpha: float, family: str) -> None:
    law, rng = ScoreLaw((1.0,), family), np.random.default_rng(n)
    found = simulate([n], [inf], alpha=alpha, law=law, agents=2000, repetitions=50, rng=rng)
    coverage = found.coverage[0, 0]
    # 100,000 thresholds: the mean is within five standard errors, and bias of averaging is 1/2000
    error = 5 * coverage.std() / np.sqrt(50) + 1e-4
    assert coverage.mean() == pytest.approx(many_agents_limit(n, alpha, family), abs=error)


def test_uniform_scores_cover_r_over_n_plus_one_with_any_number_of_agents() -> None:
    law, rng = ScoreLaw((1.0,), "uniform"), np.random.default_rng(1)
    for n in (10, 40):
        found = simulate([n], [inf], alpha=0.1, law=law, agents=3, repetitions=20_000, rng=rng)
        r = conformal_rank(n, 0.1)
        variance = r * (n + 1 - r) / ((n + 1) ** 2 * (n + 2)) / 3
        error = 5 * np.sqrt(variance / 20_000)
        assert found.coverage.mean() == pytest.approx(r / (n + 1), abs=error)


def test_simulation_of_one_agent_by_hand() -> None:
    law = ScoreLaw((1.0, 3.0))
    found = simulate([50], [inf], alpha=0.1, law=law, agents=1, repetitions=4, rng=_rng())
    draws = law.sample(50, np.full((4, 1, 2), 0.5), _rng())[:, 0]
    q = np.sort(draws, axis=1)[:, 45]  # rank ceil(51 * 0.9) = 46
    assert found.coverage[0, 0] == pytest.approx(1 - (np.exp(-q) + np.exp(-q / 3)) / 2)
    assert found.limit[0] == pytest.approx([0.9] * 4)
    assert found.error == pytest.approx(np.abs(found.coverage - 0.9).mean(axis=2))


def test_shapes_and_seeds() -> None:
    law = ScoreLaw((1.0, 2.0, 3.0))
    first, second = (
        simulate([5, 20], [0.3, 3, inf], alpha=0.1, law=law, repetitions=7, rng=_rng())
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
    law = ScoreLaw((1.0, 4.0))
    found = simulate([10], [1e-6], alpha=0.1, law=law, agents=1, repetitions=20, rng=_rng())
    known = [float(law.cdf(s * log(10), [0.5, 0.5])) for s in law.scales]
    nearest = np.abs(found.limit[0][:, None] - known).min(axis=1)
    assert nearest.max() < 1e-6
    assert np.ptp(found.limit[0]) > 0.1


@pytest.mark.slow
def test_error_falls_with_n_and_beta() -> None:
    law = ScoreLaw((0.2, 0.5, 1.0, 2.0, 4.0))
    sizes, betas = [50, 400, 6400], [0.1, 1, 10, 1000]
    found = simulate(
        sizes, betas, alpha=0.1, law=law, repetitions=300, rng=np.random.default_rng(11)
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
    settings = {"sizes": [10], "betas": [1.0], "alpha": 0.1, "law": ScoreLaw((1.0,))} | change
    with pytest.raises(InputError, match="must be positive"):
        simulate(**settings, rng=_rng())


def _rng() -> np.random.Generator:
    return np.random.default_rng(5)
