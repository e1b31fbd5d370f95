"""Samples in weighted points: order statistics, KLL, t-digest, everything."""

from __future__ import annotations

import sys
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.methods._sketches import (
    KLL_SIZE,
    TDIGEST_SIZE,
    PooledScores,
    WeightedPoints,
    centroids,
    kll_error,
    kll_sketch,
    order_sketch,
    pooled_quantile,
    pooled_scores,
    tdigest_sketch,
    weighted_points,
)
from strategies import scores
from worked import C, kth_smallest

datasketches = pytest.importorskip("datasketches")


@pytest.mark.parametrize(
    ("values", "weights", "n", "field"),
    [
        ((0.1,), (1, 2), 3, "weights"),
        ((0.1, 0.1), (1, 2), 3, "values"),
        ((0.2, 0.1), (1, 2), 3, "values"),
        ((0.1, 0.2), (1, 2), 4, "weights"),
        ((0.1, 0.2), (0, 3), 3, "weights"),
        ((0.1, 0.2), (-1, 4), 3, "weights"),
        ((0.1,), (True,), 1, "weights"),
        ((0.1,), (1,), True, "n"),
        ((), (), -1, "n"),
        ((nan,), (1,), 1, "values"),
        ((-inf,), (1,), 1, "values"),
        (("0.1",), (1,), 1, "values"),
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


def test_ties_are_joined() -> None:
    assert order_sketch(np.ones(40), 8, 5) == WeightedPoints((1.0,), (40,), 40)


def test_neighbours_join_until_each_point_stands_for_enough() -> None:
    points = [(0.1, 2), (0.2, 2), (0.3, 4), (0.3, 1), (0.4, 7), (0.5, 1)]
    assert weighted_points(points, 4) == WeightedPoints((0.2, 0.3, 0.5), (4, 5, 8), 17)
    assert weighted_points(points, 100) == WeightedPoints((0.5,), (17,), 17)
    assert weighted_points([], 4) == WeightedPoints((), (), 0)


SKETCHES = {
    "order": lambda v, gap: order_sketch(v, 16, gap),
    "kll": kll_sketch,
    "tdigest": tdigest_sketch,
}


@pytest.mark.parametrize("name", SKETCHES)
@given(scores(max_size=60, infinite=True), st.integers(2, 9))
def test_what_every_sketch_keeps(name: str, sample: np.ndarray, gap: int) -> None:
    sketch = SKETCHES[name](sample, gap)
    assert sketch.n == sum(sketch.weights) == len(sample)
    if len(sample):
        assert sketch.values[-1] == sample.max()
        assert sketch.values[0] >= sample.min()
        assert min(sketch.weights) >= min(gap, len(sample))


@given(scores(max_size=60, infinite=True), st.integers(1, 70), st.integers(1, 20))
def test_order_points_undercount_by_less_than_a_gap(
    sample: np.ndarray, points: int, gap: int
) -> None:
    sketch = order_sketch(sample, points, gap)
    for v in sample:
        counted = sum(w for u, w in zip(sketch.values, sketch.weights, strict=True) if u <= v)
        true = int((sample <= v).sum())
        assert counted <= true < counted + max(sketch.weights)


def test_kll_error_is_the_library_s() -> None:
    eps = datasketches.kll_doubles_sketch.get_normalized_rank_error(KLL_SIZE, False)
    assert kll_error(10**6) == np.ceil(eps * 10**6)
    assert kll_error(KLL_SIZE) == 0


def test_a_small_kll_sketch_is_exact() -> None:
    sample = np.random.default_rng(0).random(KLL_SIZE)
    assert kll_sketch(sample, 2).n == KLL_SIZE
    ordered = np.sort(sample)
    assert kll_sketch(sample, 2).values == tuple(ordered[1::2].tolist())


def test_a_large_kll_sketch_stays_near() -> None:
    sample = np.random.default_rng(1).standard_normal(20_000)
    sketch = kll_sketch(sample, 5)
    assert len(sketch.values) < 1000
    true = np.searchsorted(np.sort(sample), sketch.values, side="right")
    # four times the error that holds with confidence 99 %: its randomness has no seed
    assert np.abs(np.cumsum(sketch.weights) - true).max() < 4 * kll_error(20_000)


@pytest.mark.parametrize("n", [0, 1, 2, 50, 10_000])
def test_centroids_are_those_of_the_library(n: int) -> None:
    digest = datasketches.tdigest_double(TDIGEST_SIZE)
    digest.update(np.random.default_rng(n).standard_normal(n))
    digest.compress()
    found = centroids(digest.serialize())
    assert sum(w for _, w in found) == digest.get_total_weight() == n
    assert [m for m, _ in found] == sorted(m for m, _ in found)
    weights = np.array([w for _, w in found])
    middles = np.cumsum(weights) - weights / 2
    for i in range(1, len(found) - 1):
        # half of a centroid's weight lies below its mean
        assert digest.get_rank(found[i][0]) * n == pytest.approx(middles[i], abs=1e-6)
        near = digest.get_quantile(middles[i] / n)
        assert found[i - 1][0] - 1e-9 <= near <= found[i + 1][0] + 1e-9


@pytest.mark.parametrize("data", [b"", b"\x02\x02\x14\0\0\0\0\0", b"\x02\x01\x15\0\0\0\0\0"])
def test_another_layout_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="another version"):
        centroids(data)


def test_a_tdigest_does_not_depend_on_order() -> None:
    sample = np.random.default_rng(2).standard_normal(5000)
    assert tdigest_sketch(sample, 5) == tdigest_sketch(sample[::-1], 5)


@pytest.mark.parametrize("sketch", [kll_sketch, tdigest_sketch])
def test_a_missing_library_is_named(sketch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(MissingExtraError, match=r"fcp with sketch='\w+'.*fedwqcp\[sketch\]"):
        sketch(C, 5)


def test_the_smallest_point_that_reaches_the_rank() -> None:
    one, two = WeightedPoints((0.1, 0.4), (3, 2), 5), WeightedPoints((0.1, 0.3), (1, 2), 3)
    assert [pooled_quantile([one, two], r) for r in (1, 4, 5, 6, 7, 8, 9)] == [
        0.1, 0.1, 0.3, 0.3, 0.4, 0.4, inf,
    ]  # fmt: skip


@given(st.lists(scores(max_size=20, infinite=True), max_size=4), st.integers(1, 50))
def test_all_scores_give_the_order_statistic(many: list, rank: int) -> None:
    together = np.concatenate([*many, []])
    assert pooled_quantile([pooled_scores(v) for v in many], rank) == kth_smallest(together, rank)
