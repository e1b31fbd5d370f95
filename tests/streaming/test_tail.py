"""A tail gives the thresholds of the whole stream, whatever its order and batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.quantile import conformal_quantile, conformal_rank
from fedwqcp.streaming import Tail
from strategies import alphas, scores

OVERFLOWS = st.sampled_from(["propagate", "clip", "exclude"])


def batches(values: np.ndarray, size: int) -> list[np.ndarray]:
    return [values[at : at + size] for at in range(0, len(values), size)]


@given(scores(infinite=True), alphas(3), OVERFLOWS, st.integers(1, 9), st.integers(0, 5))
def test_thresholds_are_exact_with_no_more_room_than_needed(values, alpha, overflow, size, spare):
    needed = len(values) + 1 - min(conformal_rank(len(values), alpha), len(values))
    tail = Tail(capacity=max(1, needed) + spare)
    for batch in batches(values, size):
        tail.update(batch)
    assert tail.n == len(values)
    assert tail.threshold(alpha, overflow) == conformal_quantile(values, alpha, overflow)
    assert len(tail.largest()) <= tail.capacity


@given(scores(min_size=1), st.integers(1, 9), st.data())
def test_what_was_not_kept_is_refused(values, size, data):
    capacity = data.draw(st.integers(1, len(values)))
    tail = Tail(capacity)
    for batch in batches(values, size):
        tail.update(batch)
    for rank in range(1, len(values) + 1):
        if len(values) + 1 - rank > capacity:
            with pytest.raises(InputError, match="-th largest score"):
                tail.order_statistic(rank)
        else:
            assert tail.order_statistic(rank) == np.sort(values)[rank - 1]


@given(scores(), scores(), st.integers(1, 50))
def test_two_streams_merge_into_one(one, other, capacity):
    first, second, both = Tail(capacity), Tail(capacity), Tail(capacity)
    first.update(one)
    second.update(other)
    both.update(np.concatenate([one, other]))
    first.merge(second)
    assert first.n == both.n
    np.testing.assert_array_equal(np.sort(first.largest()), np.sort(both.largest()))


def test_trap_small_scores_at_the_end_move_the_threshold_down():
    tail = Tail(capacity=5)
    tail.update(np.arange(1.0, 11.0))
    tail.update(np.zeros(10))
    assert conformal_quantile(np.r_[np.arange(1.0, 11.0), np.zeros(10)], 0.5) == 1.0
    with pytest.raises(InputError, match="capacity=10"):
        tail.threshold(0.5)
    assert tail.threshold(0.2) == 7.0


def test_memory_does_not_grow_with_the_stream():
    tail = Tail(capacity=100)
    for _ in range(50):
        tail.update(np.random.default_rng(0).random(1000))
    assert len(tail._kept) <= 200


def test_nothing_came():
    assert Tail().threshold(0.1) == Tail().threshold(0.1, "clip") == np.inf


def test_unsound_input_is_refused():
    with pytest.raises(InputError, match="at least 1"):
        Tail(0)
    with pytest.raises(InputError, match="NaN"):
        Tail().update([np.nan])
    with pytest.raises(InputError, match="capacity must be 4"):
        Tail(4).merge(Tail(5))
    with pytest.raises(InputError, match="rank must be from 1"):
        Tail().order_statistic(1)
