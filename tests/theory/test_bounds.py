from math import inf, isnan

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedwqcp.errors import InputError
from fedwqcp.theory import (
    ScoreLaw,
    label_shift_bound,
    spread_bound,
    stability_bound,
    total_variation,
)

tables = hnp.arrays(np.int64, st.tuples(st.integers(1, 5), st.just(3)), elements=st.integers(0, 50))


def test_total_variation_by_hand() -> None:
    assert total_variation([1, 0], [0, 1]) == 1.0
    assert total_variation([0.2, 0.3, 0.5], [0.5, 0.3, 0.2]) == pytest.approx(0.3)
    assert total_variation([0.5, 0.5], [0.5, 0.5]) == 0.0


def test_label_shift_bound_by_hand() -> None:
    # shares (3/4, 1/4) and (0, 1) against (1/2, 1/2): distances 1/4 and 1/2, sizes 8 and 2
    bound = label_shift_bound([[6, 2], [0, 2], [0, 0]], [0.5, 0.5])
    assert bound.distances[:2] == (0.25, 0.5)
    assert isnan(bound.distances[2])
    assert bound.value == pytest.approx((8 * 0.25 + 2 * 0.5) / 10 + 1 / 11)
    assert bound.pooled == pytest.approx(0.1 + 1 / 11)


@given(tables)
def test_label_shift_bound_is_made_of_distances(counts: np.ndarray) -> None:
    N = counts.sum()
    assume(N > 0)
    law = [0.2, 0.3, 0.5]
    bound = label_shift_bound(counts, law)
    some = counts[counts.sum(axis=1) > 0]
    distances = [total_variation(row / row.sum(), law) for row in some]
    assert [d for d in bound.distances if not isnan(d)] == pytest.approx(distances, abs=1e-12)
    mean = sum(n * d for n, d in zip(some.sum(axis=1), distances, strict=True)) / N
    assert bound.value == pytest.approx(mean + 1 / (N + 1))
    assert bound.pooled <= bound.value + 1e-12


def test_label_shift_bound_holds_for_the_oracle() -> None:
    # N points of the pooled law, exact coverage under the test law, mean over draws
    counts, test = np.array([[80, 10, 10], [0, 60, 39]]), np.array([0.2, 0.3, 0.5])
    law, rng = ScoreLaw((1.0, 2.0, 3.0)), np.random.default_rng(3)
    N, mix = 199, counts.sum(axis=0) / 199
    drawn = law.sample(N, np.broadcast_to(mix, (2000, 3)), rng)
    coverage = law.cdf(np.sort(drawn)[:, 179], test).mean()  # rank ceil(200 * 0.9)
    bound = label_shift_bound(counts, test)
    assert 0.01 < abs(coverage - 0.9) <= bound.pooled <= bound.value


@pytest.mark.parametrize(
    ("counts", "law", "says"),
    [
        ([[0, 0]], [0.5, 0.5], "counts"),
        ([[-1, 2]], [0.5, 0.5], "counts"),
        ([[0.5, 0.5]], [0.5, 0.5], "counts must be integers"),
        ([[1, 2]], [3, 4], "test_law must hold probabilities that sum to 1, got a sum of 7"),
        ([[1, 2]], [-0.5, 1.5], "test_law"),
        ([[1, 2]], [0.2, 0.3, 0.5], "test_law must have shape"),
        ([1, 2], [0.5, 0.5], "counts must have shape"),
    ],
)
def test_label_shift_bound_refuses(counts: list[object], law: list[float], says: str) -> None:
    with pytest.raises(InputError, match=says):
        label_shift_bound(counts, law)


def test_stability_bound_by_hand() -> None:
    # weights 1/2, 1/4, 1/4; pairs 0.1 (2 * 1/8), 0.3 (2 * 1/8), 0.2 (2 * 1/16)
    bound = stability_bound([0.5, 0.6, 0.8], [2, 1, 1], least_density=0.5, most_density=2)
    assert bound == pytest.approx(4 * (0.1 / 4 + 0.3 / 4 + 0.2 / 8))


def test_spread_bound_by_hand() -> None:
    assert spread_bound([0.5, 0.25, 1.0]) == 0.75
    assert spread_bound([0.5]) == 0.0


@given(
    st.lists(st.tuples(st.floats(0.5, 2), st.integers(1, 100)), min_size=1, max_size=5),
    st.sampled_from(["uniform", "exponential", "reflected"]),
    st.floats(0.05, 0.5),
)
def test_both_bounds_hold_on_known_laws(agents: list, family: str, alpha: float) -> None:
    scales, sizes = zip(*agents, strict=True)
    law = ScoreLaw(scales, family)
    own = np.eye(len(scales))  # agent k draws from class k alone
    q_k = law.quantile(1 - alpha, own)
    weights = np.array(sizes) / sum(sizes)
    apart = abs(weights @ q_k - law.quantile(1 - alpha, weights))
    assert apart <= spread_bound(q_k) + 1e-9
    if family == "exponential":  # densities exp(-q/s)/s, on [min q_k, max q_k]
        grid = np.linspace(q_k.min(), q_k.max(), 400)
        density = np.exp(-grid[:, None] / scales) / scales
        c, L = (density @ weights).min() * 0.99, density.max() * 1.01
        assert apart <= stability_bound(q_k, sizes, least_density=c, most_density=L) + 1e-9


@pytest.mark.parametrize(
    ("sizes", "c", "L", "says"),
    [
        ([0, 0], 1, 2, "sizes must be at least 0, some of them positive"),
        ([-1, 2], 1, 2, "sizes"),
        ([1], 1, 2, "sizes must have shape"),
        ([1, 1], 0, 2, "densities"),
        ([1, 1], 3, 2, "densities"),
        ([1, 1], 1, inf, "densities"),
    ],
)
def test_stability_bound_refuses(sizes: list[int], c: float, L: float, says: str) -> None:
    with pytest.raises(InputError, match=says):
        stability_bound([0.1, 0.2], sizes, least_density=c, most_density=L)


def test_spread_bound_refuses() -> None:
    with pytest.raises(InputError, match="at least one"):
        spread_bound([])
    with pytest.raises(InputError, match="finite"):
        spread_bound([0.1, inf])
