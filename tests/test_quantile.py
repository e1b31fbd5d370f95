from fractions import Fraction
from math import ceil, inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.quantile import (
    conformal_quantile,
    conformal_rank,
    exact_level,
    order_statistic,
    weighted_quantile,
)
from strategies import alphas, scores

A = [k / 10 for k in range(1, 11)]
B = [0.05, 0.15, 0.25, 0.35, 0.45]
C = [k / 50 for k in range(1, 21)]


@pytest.mark.parametrize(
    ("n", "alpha", "rank"),
    [
        (10, 0.2, 9),
        (5, 0.2, 5),
        (20, 0.2, 17),
        (10, 0.1, 10),
        (5, 0.1, 6),
        (20, 0.1, 19),
        (0, 0.05, 1),
        (18, 0.05, 19),
        (19, 0.05, 19),
        (8, 0.1, 9),
        (9, 0.1, 9),
        (9, 0.7, 3),
        (999, 0.059, 941),
        (99, 0.999999, 1),
    ],
)
def test_ranks_by_hand(n: int, alpha: float, rank: int) -> None:
    assert conformal_rank(n, alpha) == rank
    assert conformal_rank(np.int32(n), np.float64(alpha)) == rank


def test_trap_a_level_that_was_subtracted_means_its_decimal() -> None:
    assert 1 - 0.9 != 0.1
    assert conformal_rank(9, 1 - 0.9) == conformal_rank(9, 0.1) == 9
    for alpha in (0.1, 1 - 0.9, Fraction(1, 10), np.float32(0.1)):
        assert exact_level(alpha) == Fraction(9, 10)


@given(
    st.integers(0, 10**7),
    st.integers(1, 6).flatmap(lambda d: st.tuples(st.integers(1, 10**d - 1), st.just(10**d))),
)
def test_the_rank_is_that_of_fractions(n: int, decimal: tuple[int, int]) -> None:
    level = 1 - Fraction(*decimal)
    expected = ceil((n + 1) * level)
    alpha = decimal[0] / decimal[1]
    assert conformal_rank(n, alpha) == expected
    assert conformal_rank(n, 1 - (1 - alpha)) == expected


@given(st.integers(0, 2000), alphas(), st.integers(1, 30))
def test_the_rank_of_a_mixture_counts_its_agents(n: int, alpha: float, agents: int) -> None:
    assert conformal_rank(n, alpha, extra=agents) == conformal_rank(n + agents - 1, alpha)


@pytest.mark.parametrize("n", [-1, 1.0, True, "3", None])
def test_sizes_that_are_none_are_refused(n: object) -> None:
    with pytest.raises(InputError):
        conformal_rank(n, 0.1)


@pytest.mark.parametrize("alpha", [0, 1, 5, nan, True, None])
def test_levels_that_are_none_are_refused(alpha) -> None:
    for call in (
        lambda: conformal_rank(3, alpha),
        lambda: conformal_quantile([1.0], alpha),
        lambda: weighted_quantile([1.0], [1.0], alpha),
        lambda: exact_level(alpha),
    ):
        with pytest.raises(InputError):
            call()


def test_the_worked_example() -> None:
    assert [conformal_quantile(s, 0.2) for s in (A, B, C)] == [0.9, 0.45, 0.34]
    assert [conformal_quantile(s, 0.1) for s in (A, B, C)] == [1.0, inf, 0.38]
    assert conformal_quantile(B, 0.1, "clip") == 0.45
    assert conformal_quantile(B, 0.1, "exclude") == inf
    assert [conformal_quantile(s, 0.05) for s in (A, B, C)] == [inf, inf, 0.40]
    assert conformal_quantile([*A, *B, *C], 0.2) == 0.45


@pytest.mark.parametrize("overflow", ["propagate", "clip", "exclude"])
def test_an_empty_sample_has_no_finite_threshold(overflow) -> None:
    assert conformal_quantile([], 0.3, overflow) == inf


@given(scores(min_size=1, infinite=True), alphas(), st.randoms(use_true_random=False))
def test_the_quantile_is_the_order_statistic(values, alpha: float, random) -> None:
    rank = conformal_rank(len(values), alpha)
    expected = sorted([*values, *[inf] * rank])[rank - 1]
    shuffled = values.tolist()
    random.shuffle(shuffled)
    assert conformal_quantile(shuffled, alpha) == expected
    assert conformal_quantile(values, alpha, "clip") == sorted(values)[min(rank, len(values)) - 1]


@given(scores(min_size=1), alphas(), alphas())
def test_the_quantile_falls_with_alpha(values, one: float, other: float) -> None:
    low, high = sorted((one, other))
    for overflow in ("propagate", "clip"):
        assert conformal_quantile(values, low, overflow) >= conformal_quantile(
            values, high, overflow
        )


def test_order_statistics_end_at_infinity() -> None:
    values = np.array([3.0, 1.0, 2.0])
    assert [order_statistic(values, r) for r in (1, 2, 3, 4)] == [1.0, 2.0, 3.0, inf]
    assert values.tolist() == [3.0, 1.0, 2.0]


def test_the_weighted_example() -> None:
    values, ones = A[:5], [1.0] * 5
    assert weighted_quantile(values, ones, 0.2, weight_at_inf=1) == 0.5
    assert weighted_quantile(values, ones, 0.2) == 0.4
    assert weighted_quantile(values, ones, 0.1, weight_at_inf=1) == inf


def test_ties_enter_together_and_weightless_scores_never() -> None:
    assert weighted_quantile([1.0, 1.0, 2.0], [1, 1, 2], 0.5) == 1.0
    assert weighted_quantile([1.0, 2.0, 3.0], [0, 0, 1], 0.9) == 3.0
    assert weighted_quantile([1.0, 5.0], [1, 0], 0.001) == 1.0


@given(scores(infinite=True), alphas())
def test_unit_weights_give_the_conformal_quantile(values, alpha: float) -> None:
    ones = np.ones(len(values))
    assert weighted_quantile(values, ones, alpha, 1.0) == conformal_quantile(values, alpha)


@given(scores(min_size=1), alphas(4), st.integers(0, 6), st.data())
def test_integer_weights_are_repetitions(values, alpha: float, top: int, data) -> None:
    sizes = st.lists(st.integers(0, 5), min_size=len(values), max_size=len(values))
    weights = np.array(data.draw(sizes.filter(any)))
    repeated = np.sort(np.repeat(values, weights))
    rank = ceil((len(repeated) + top) * (1 - Fraction(str(alpha))))
    expected = repeated[rank - 1] if rank <= len(repeated) else inf
    assert weighted_quantile(values, weights, alpha, top) == expected
    assert weighted_quantile(values, weights / 3, alpha, top / 3) == expected


@pytest.mark.parametrize(
    ("values", "weights", "top"),
    [
        *(([1.0, 2.0], [1.0, odd], 0) for odd in (-1.0, nan, inf)),
        *(([1.0, 2.0], [1.0, 1.0], odd) for odd in (-1, inf, nan)),
        ([1.0, 2.0], [1.0], 0),
        ([nan], [1.0], 0),
    ],
)
def test_weights_and_scores_that_are_none_are_refused(values, weights, top: float) -> None:
    with pytest.raises(InputError):
        weighted_quantile(values, weights, 0.1, top)
    for call in (
        lambda: conformal_quantile([nan], 0.1),
        lambda: conformal_quantile([1.0], 0.1, "cut"),
    ):
        with pytest.raises(InputError):
            call()
    assert weighted_quantile([1.0], [0.0], 0.1) == weighted_quantile([], [], 0.1, 1.0) == inf
