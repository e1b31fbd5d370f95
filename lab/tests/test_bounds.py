from __future__ import annotations

from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from fedwqcp.errors import InputError
from fedwqcp_lab.bounds import (
    decompose,
    label_shift_bound,
    mixture_quantile,
    spread_bound,
    stability_bound,
)

FAMILIES = {
    "uniform": (lambda x: np.clip(x, 0, 1), lambda level: level),
    "exponential": (lambda x: -np.expm1(-x), lambda level: -np.log1p(-level)),
    "reflected": (lambda x: np.exp(np.minimum(x, 0)), np.log),
}
"""Distribution and quantile function of standard scores; the last piles up at its upper bound."""


def test_label_shift_bound_by_hand() -> None:
    # shares (3/4, 1/4) and (0, 1) against (1/2, 1/2): distances 1/4 and 1/2, sizes 8 and 2
    bound = label_shift_bound([[6, 2], [0, 2], [0, 0]], [0.5, 0.5])
    assert bound.distances[:2] == (0.25, 0.5)
    assert isnan(bound.distances[2])
    assert bound.value == pytest.approx((8 * 0.25 + 2 * 0.5) / 10 + 1 / 11)
    assert bound.pooled == pytest.approx(0.1 + 1 / 11)


def test_label_shift_bound_holds_for_the_oracle() -> None:
    # N points of the pooled distribution, exact coverage of test data, mean over draws
    counts, test = np.array([[80, 10, 10], [0, 60, 39]]), np.array([0.2, 0.3, 0.5])
    scales, rng = np.array([1.0, 2.0, 3.0]), np.random.default_rng(3)
    N, mix = 199, counts.sum(axis=0) / 199
    drawn = scales[rng.choice(3, size=(2000, N), p=mix)] * rng.exponential(size=(2000, N))
    threshold = np.sort(drawn)[:, 179]  # rank ceil(200 * 0.9)
    coverage = (-np.expm1(-threshold[:, None] / scales) @ test).mean()
    bound = label_shift_bound(counts, test)
    assert 0.01 < abs(coverage - 0.9) <= bound.pooled <= bound.value


def decomposed(test: list[float], q_hat: float = 0.5, q_mix: float = 0.5, alpha: float = 0.1):
    return decompose({"a": test}, q_hat, q_mix, alpha)


def stable(sizes: list[int], c: float = 1, L: float = 2):
    return stability_bound([0.1, 0.2], sizes, least_density=c, most_density=L)


@pytest.mark.parametrize(
    "call",
    [
        *(
            lambda counts=counts: label_shift_bound(counts, [0.5, 0.5])
            for counts in ([[0, 0]], [[-1, 2]], [[0.5, 0.5]], [1, 2])
        ),
        *(
            lambda test=test: label_shift_bound([[1, 2]], test)
            for test in ([3, 4], [-0.5, 1.5], [0.2, 0.3, 0.5])
        ),
        *(lambda sizes=sizes: stable(sizes) for sizes in ([0, 0], [-1, 2], [1])),
        *(lambda c=c, L=L: stable([1, 1], c, L) for c, L in ((0, 2), (3, 2), (1, inf))),
        *(lambda ends=ends: spread_bound(ends) for ends in ([], [0.1, inf])),
        *(lambda parts=parts: mixture_quantile(parts, 0.1) for parts in ({"a": []}, {})),
        *(lambda test=test: decomposed(test) for test in ([], [nan])),
        lambda: decomposed([0.1], q_hat=nan),
        lambda: decomposed([0.1], q_mix=nan),
        lambda: decomposed([0.1], alpha=10),
    ],
)
def test_wrong_input_is_refused(call) -> None:
    with pytest.raises(InputError):
        call()


def test_stability_bound_by_hand() -> None:
    # weights 1/2, 1/4, 1/4; pairs 0.1 (2 * 1/8), 0.3 (2 * 1/8), 0.2 (2 * 1/16)
    bound = stability_bound([0.5, 0.6, 0.8], [2, 1, 1], least_density=0.5, most_density=2)
    assert bound == pytest.approx(4 * (0.1 / 4 + 0.3 / 4 + 0.2 / 8))


def test_spread_bound_by_hand() -> None:
    assert spread_bound([0.5, 0.25, 1.0]) == 0.75
    assert spread_bound([0.5]) == 0.0


@given(
    st.lists(st.tuples(st.floats(0.5, 2), st.integers(1, 100)), min_size=1, max_size=5),
    st.sampled_from(sorted(FAMILIES)),
    st.floats(0.05, 0.5),
)
def test_both_bounds_hold_on_known_distributions(agents: list, family: str, alpha: float) -> None:
    scales, sizes = zip(*agents, strict=True)
    cdf, quantile = FAMILIES[family]  # agent k's scores are scales[k] times a standard variable
    q_k = np.array(scales) * quantile(1 - alpha)
    weights = np.array(sizes) / sum(sizes)
    mixture = q_k[0]
    if np.ptp(q_k):
        ends = q_k.min() - 1e-12, q_k.max() + 1e-12
        mixture = brentq(lambda q: weights @ cdf(q / np.array(scales)) - (1 - alpha), *ends)
    apart = abs(weights @ q_k - mixture)
    assert apart <= spread_bound(q_k) + 1e-9
    if family == "exponential":  # densities exp(-q/s)/s, on [min q_k, max q_k]
        grid = np.linspace(q_k.min(), q_k.max(), 400)
        density = np.exp(-grid[:, None] / scales) / scales
        c, L = (density @ weights).min() * 0.99, density.max() * 1.01
        assert apart <= stability_bound(q_k, sizes, least_density=c, most_density=L) + 1e-9


A = [i / 10 for i in range(1, 11)]
B = [0.05, 0.15, 0.25, 0.35, 0.45]
C = [i / 50 for i in range(1, 21)]

scores = st.lists(st.floats(-5, 5), min_size=1, max_size=30)


def test_mixture_quantile_by_hand() -> None:
    # 35 scores at alpha = 0.2: the 28th smallest; above 0.4 lie 0.45 and 0.5 to 1.0, seven in all
    assert mixture_quantile({"a": A, "b": B, "c": C}, 0.2) == 0.4


def test_decompose_by_hand() -> None:
    # alpha = 0.2: FedWQ-CP gives 0.5157, the mixture quantile is 0.4
    first, second = decompose({"a": A, "b": B}, q_hat=18.05 / 35, q_mix=0.4, alpha=0.2)
    assert (first.agent, first.level, first.coverage, first.coverage_mix) == ("a", 0.8, 0.5, 0.4)
    assert (first.total, first.shift, first.aggregation) == pytest.approx((0.3, 0.4, 0.1))
    assert (second.agent, second.coverage, second.coverage_mix) == ("b", 1.0, 0.8)
    assert (second.total, second.shift, second.aggregation) == pytest.approx((0.2, 0.0, 0.2))
