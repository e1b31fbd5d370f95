"""A sketch errs upwards alone, and by no more ranks than it says."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.quantile import conformal_quantile, conformal_rank
from fedwqcp.streaming import RankSketch
from strategies import alphas, scores


def assert_within(sketch: RankSketch, values: np.ndarray, alpha: float) -> None:
    n, rank = len(values), conformal_rank(len(values), alpha)
    found = sketch.threshold(alpha)
    if rank > n:
        assert found == np.inf
        return
    ordered = np.sort(values)
    assert ordered[rank - 1] <= found <= ordered[min(rank + sketch.error, n) - 1]
    assert found in values


@given(scores(max_size=120, infinite=True), alphas(2), st.integers(1, 30), st.integers(1, 4))
def test_a_threshold_lies_within_the_stated_ranks(values, alpha, batch, half):
    sketch = RankSketch(size=2 * half)
    for at in range(0, len(values), batch):
        sketch.update(values[at : at + batch])
    assert_within(sketch, values, alpha)
    points, weights = sketch.points()
    assert weights.sum() == sketch.n == len(values)
    assert (points[1:] >= points[:-1]).all()


@given(st.lists(scores(max_size=40), min_size=2, max_size=4), alphas(2))
def test_merged_sketches_keep_their_word(streams, alpha):
    whole = RankSketch(size=4)
    for values in streams:
        part = RankSketch(size=4)
        part.update(values)
        whole.merge(part)
    assert_within(whole, np.concatenate(streams), alpha)


def test_the_error_is_what_the_formula_allows():
    values = np.random.default_rng(0).random(100_000)
    sketch = RankSketch(size=256)
    for part in np.array_split(values, 7):
        sketch.update(part)
    assert 0 < sketch.error <= len(values) * log2(len(values) / 256) / 512
    assert len(sketch.points()[0]) <= 256 * 12
    exact = conformal_quantile(values, 0.1)
    assert exact <= sketch.threshold(0.1) <= np.sort(values)[90_000 + sketch.error]


def test_a_small_sample_is_kept_whole():
    sketch = RankSketch(size=8)
    sketch.update([0.3, 0.1, 0.2])
    assert sketch.error == 0
    assert sketch.threshold(0.2) == np.inf
    assert sketch.threshold(0.2, "clip") == 0.3
    assert sketch.threshold(0.5) == 0.2


def test_unsound_input_is_refused():
    for size in (0, 3):
        with pytest.raises(InputError, match="even"):
            RankSketch(size)
    with pytest.raises(InputError, match="size must be 4"):
        RankSketch(4).merge(RankSketch(6))
    assert RankSketch().threshold(0.1) == np.inf
