"""Samples in weighted points: order statistics, everything."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.methods._sketches import (
    PooledScores,
    WeightedPoints,
    order_sketch,
    pooled_quantile,
    pooled_scores,
    weighted_points,
)
from strategies import scores
from worked import C, kth_smallest


@pytest.mark.parametrize(
    ("values", "weights", "n", "field"),
    [
        ((0.1,), (1, 2), 3, "weights"),
        *((odd, (1, 2), 3, "values") for odd in ((0.1, 0.1), (0.2, 0.1))),
        *(((0.1, 0.2), *odd, "weights") for odd in (((1, 2), 4), ((0, 3), 3), ((-1, 4), 3))),
        ((0.1,), (True,), 1, "weights"),
        ((0.1,), (1,), True, "n"),
        ((), (), -1, "n"),
        *(((odd,), (1,), 1, "values") for odd in (nan, -inf, "0.1")),
    ],
)
def test_points_that_break_their_invariants(values, weights, n, field) -> None:
    with pytest.raises(InputError, match=f"^{field}: must"):
        WeightedPoints(values, weights, n)


def test_only_all_scores_count_as_samples() -> None:
    assert WeightedPoints((0.1, inf), (2, 1), 3).reveals == "statistic"
    assert pooled_scores(np.array([0.2, 0.1, 0.2])) == PooledScores((0.1, 0.2), (1, 2), 3)
    assert PooledScores((), (), 0).reveals == "samples"
    assert WeightedPoints((0.1, inf), (2, 1), 3).scores() == (0.1, inf)


def test_evenly_spaced_order_statistics() -> None:
    # n = 20, four points: ranks 5, 10, 15, 20
    assert order_sketch(C[::-1], 4, 5) == WeightedPoints((0.1, 0.2, 0.3, 0.4), (5, 5, 5, 5), 20)
    # three points: ranks ceil(20/3) = 7, ceil(40/3) = 14, 20
    assert order_sketch(C, 3, 5) == WeightedPoints((0.14, 0.28, 0.4), (7, 7, 6), 20)


def test_a_small_agent_does_not_send_its_whole_sample() -> None:
    assert order_sketch(C[:9], 64, 5) == WeightedPoints((0.18,), (9,), 9)
    assert order_sketch(C[:3], 64, 5) == WeightedPoints((0.06,), (3,), 3)
    assert order_sketch(C[:0], 64, 5) == WeightedPoints((), (), 0)


def test_neighbours_join_until_each_point_stands_for_enough() -> None:
    points = [(0.1, 2), (0.2, 2), (0.3, 4), (0.3, 1), (0.4, 7), (0.5, 1)]
    assert weighted_points(points, 4) == WeightedPoints((0.2, 0.3, 0.5), (4, 5, 8), 17)
    assert weighted_points(points, 100) == WeightedPoints((0.5,), (17,), 17)
    assert weighted_points([], 4) == WeightedPoints((), (), 0)


@given(scores(max_size=60, infinite=True), st.integers(1, 70), st.integers(1, 20))
def test_order_points_undercount_by_less_than_a_gap(
    sample: np.ndarray, points: int, gap: int
) -> None:
    sketch = order_sketch(sample, points, gap)
    for v in sample:
        counted = sum(w for u, w in zip(sketch.values, sketch.weights, strict=True) if u <= v)
        true = int((sample <= v).sum())
        assert counted <= true < counted + max(sketch.weights)


def test_the_smallest_point_that_reaches_the_rank() -> None:
    one, two = WeightedPoints((0.1, 0.4), (3, 2), 5), WeightedPoints((0.1, 0.3), (1, 2), 3)
    assert [pooled_quantile([one, two], r) for r in (1, 4, 5, 6, 7, 8, 9)] == [
        0.1, 0.1, 0.3, 0.3, 0.4, 0.4, inf,
    ]  # fmt: skip


@given(st.lists(scores(max_size=20, infinite=True), max_size=4), st.integers(1, 50))
def test_all_scores_give_the_order_statistic(many: list, rank: int) -> None:
    together = np.concatenate([*many, []])
    assert pooled_quantile([pooled_scores(v) for v in many], rank) == kth_smallest(together, rank)
