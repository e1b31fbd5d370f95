from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.theory import ScoreLaw

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
    assert ScoreLaw((1.0, 2.0), family).cdf(q, [0.5, 0.5]) == pytest.approx(share)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_score_is_below_infinity(family: str) -> None:
    assert ScoreLaw((1.0, 2.0), family).cdf(inf, [0.25, 0.75]) == 1.0


def test_quantile_by_hand() -> None:
    one = [[1.0, 0.0], [0.0, 1.0]]
    assert ScoreLaw((0.1, 1.0), "uniform").quantile(0.9, one) == pytest.approx([0.09, 0.9])
    assert ScoreLaw((1.0, 3.0)).quantile(0.9, one) == pytest.approx([log(10), 3 * log(10)])
    assert ScoreLaw((1.0, 3.0), "reflected").quantile(0.5, one) == pytest.approx(
        [-log(2), -3 * log(2)]
    )


@given(st.sampled_from(FAMILIES), st.floats(0.05, 0.95), st.floats(0.01, 0.99))
def test_quantile_inverts_the_cdf(family: str, level: float, share: float) -> None:
    law, weights = ScoreLaw((0.5, 4.0), family), np.array([share, 1 - share])
    q = law.quantile(level, weights)
    assert law.cdf(q, weights) == pytest.approx(level, abs=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_samples_follow_the_law(family: str) -> None:
    law, weights = ScoreLaw((1.0, 3.0), family), np.array([[0.3, 0.7], [0.9, 0.1]])
    drawn = law.sample(4000, weights, np.random.default_rng(8))
    assert drawn.shape == (2, 4000)
    for row, own in zip(drawn, weights, strict=True):
        ranks = np.sort(law.cdf(row, own))  # uniform if the law is right
        distance = np.abs(ranks - (np.arange(4000) + 0.5) / 4000).max()
        assert distance < 2.8 / np.sqrt(4000)  # Kolmogorov: passed with probability 3e-7


def test_laws_that_are_none_are_refused() -> None:
    for scales in ((), (1.0, 0.0), (-1.0,), (inf,)):
        with pytest.raises(InputError, match="scales must be positive"):
            ScoreLaw(scales)
    with pytest.raises(InputError, match="family must be one of uniform, exponential, reflected"):
        ScoreLaw((1.0,), "normal")
