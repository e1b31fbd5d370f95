from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedwqcp.errors import InputError
from fedwqcp.metrics import Rate, band
from fedwqcp.quantile import conformal_rank

levels = st.sampled_from([0.5, 0.9, 0.95, 0.99, 1 - 2e-6])


def test_rate_by_hand() -> None:
    rate = Rate(n=10, hits=8)
    assert rate.coverage == 0.8
    assert (rate.low, rate.high) == pytest.approx((0.44390453, 0.97478927), abs=1e-8)


@pytest.mark.parametrize("n", [1, 19, 100_000])
def test_ends_are_exact_without_hits_and_without_misses(n: int) -> None:
    edge = 0.025 ** (1 / n)  # P(n hits) = p^n at the end of the interval
    none, every = Rate(n=n, hits=0), Rate(n=n, hits=n)
    assert (none.coverage, none.low, none.high) == (0.0, 0.0, pytest.approx(1 - edge, rel=1e-9))
    assert (every.coverage, every.low, every.high) == (1.0, pytest.approx(edge, rel=1e-9), 1.0)


def test_a_rate_of_nothing_knows_nothing() -> None:
    rate = Rate(n=0, hits=0)
    assert isnan(rate.coverage)
    assert (rate.low, rate.high) == (0.0, 1.0)


@given(st.integers(1, 3000), st.floats(0, 1), levels)
def test_interval_agrees_with_scipy(n: int, share: float, level: float) -> None:
    hits = round(n * share)
    expected = stats.binomtest(hits, n).proportion_ci(level, method="exact")
    rate = Rate(n=n, hits=hits, level=level)
    assert (rate.low, rate.high) == pytest.approx((expected.low, expected.high), abs=1e-10)
    assert rate.low <= rate.coverage <= rate.high


@given(st.integers(1, 60), st.floats(0.01, 0.99), levels)
def test_interval_covers_at_its_level(n: int, p: float, level: float) -> None:
    rates = [Rate(n=n, hits=hits, level=level) for hits in range(n + 1)]
    held = [rate.low <= p <= rate.high for rate in rates]
    probability = stats.binom.pmf(np.arange(n + 1), n, p)[held].sum()
    assert probability >= level - 1e-9


@pytest.mark.parametrize(
    ("n", "hits", "level", "says"),
    [(3, 4, 0.95, "hits must be from 0 to n=3"), (3, -1, 0.95, "hits"), (3, 1, 1.0, "level")],
)
def test_rate_refuses(n: int, hits: int, level: float, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Rate(n=n, hits=hits, level=level)


def test_band_by_hand() -> None:
    # one calibration point, rank 1: hits are uniform on 0..9
    assert band(9, rank=1, n=1, level=0.8) == (0, 9)
    assert band(9, rank=1, n=1, level=0.7) == (1, 8)


@given(st.integers(1, 400), st.integers(1, 300), st.floats(0.01, 0.99), levels)
def test_band_agrees_with_scipy(m: int, n: int, share: float, level: float) -> None:
    rank = max(1, round(share * n))
    law = stats.betabinom(m, rank, n + 1 - rank)
    low, high = band(m, rank, n, level)
    tail = (1 - level) / 2
    slack = 1e-9  # where the mass of a tail is the level itself, rounding decides
    assert law.cdf(low - 1) <= tail + slack
    assert law.cdf(low) >= tail - slack
    assert law.sf(high) <= tail + slack
    assert law.sf(high - 1) >= tail - slack


def test_band_of_many_points_is_stable() -> None:
    m, n = 100_000, 5000
    rank = conformal_rank(n, 0.05)
    law = stats.betabinom(m, rank, n + 1 - rank)
    low, high = band(m, rank, n, 1 - 2e-6)
    mass = law.pmf(np.arange(m + 1))
    assert mass[:low].sum() < 1e-6 < mass[: low + 1].sum()
    assert mass[high + 1 :].sum() < 1e-6 < mass[high:].sum()


def test_band_holds_the_hits_of_split_conformal() -> None:
    rng = np.random.default_rng(20)
    n, m = 99, 500
    rank = conformal_rank(n, 0.1)
    low, high = band(m, rank, n, 1 - 2e-6)
    for _ in range(50):
        threshold = np.sort(rng.random(n))[rank - 1]
        assert low <= np.count_nonzero(rng.random(m) <= threshold) <= high


def test_band_beyond_the_sample_is_certain() -> None:
    assert band(50, rank=conformal_rank(18, 0.05), n=18) == (50, 50)
    assert band(50, rank=1, n=0) == (50, 50)


@pytest.mark.parametrize(
    ("m", "rank", "n", "level", "says"),
    [
        (0, 1, 1, 0.9, "m must be an integer of at least 1, got 0"),
        (1, 0, 1, 0.9, "rank must be"),
        (1, 1, -1, 0.9, "n must be an integer of at least 0"),
        (1.5, 1, 1, 0.9, "m must be"),
        (1, 1, 1, 95, "level must be strictly between 0 and 1, got 95"),
    ],
)
def test_band_refuses(m: int, rank: int, n: int, level: float, says: str) -> None:
    with pytest.raises(InputError, match=says):
        band(m, rank, n, level)
