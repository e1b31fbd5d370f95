"""Thresholds of batches are those of all scores together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.quantile import conformal_quantile
from fedwqcp.streaming import conformal_quantiles
from strategies import alphas, scores


@given(
    scores(infinite=True),
    st.lists(alphas(3), min_size=1, max_size=3),
    st.sampled_from(["propagate", "clip", "exclude"]),
    st.integers(1, 9),
    st.integers(1, 50),
)
def test_any_capacity_gives_the_same_thresholds(values, levels, overflow, size, capacity):
    source = [values[at : at + size] for at in range(0, len(values), size)]
    found = conformal_quantiles(source, levels, overflow, capacity=capacity)
    assert found == tuple(conformal_quantile(values, alpha, overflow) for alpha in levels)


def test_an_iterator_is_read_once_and_refused_where_that_is_not_enough():
    batches = [np.arange(10.0), np.arange(10.0)]
    assert conformal_quantiles(iter(batches), [0.2], capacity=4) == (8.0,)
    with pytest.raises(InputError, match="capacity=10"):
        conformal_quantiles(iter(batches), [0.2, 0.5], capacity=4)


def test_progress_is_told():
    seen: list[int] = []
    conformal_quantiles([[0.1, 0.2], [0.3]], [0.5], progress=seen.append)
    assert seen == [2, 3]
