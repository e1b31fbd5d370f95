"""A tail gives the thresholds of the whole stream, whatever its order and batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.quantile import conformal_quantile, conformal_rank
from fedwqcp.streaming import Tail, conformal_quantiles, order_statistics
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


def test_unsound_input_is_refused():
    with pytest.raises(InputError, match="at least 1"):
        Tail(0)
    with pytest.raises(InputError, match="NaN"):
        Tail().update([np.nan])
    with pytest.raises(InputError):
        Tail().order_statistic(1)


@settings(max_examples=40)  # each tries every rank, over arrays of 65,536 counts
@given(scores(min_size=1, infinite=True), st.integers(1, 9), st.integers(0, 5))
def test_every_rank_is_exact_with_any_room(values, size, room):
    source = [values[at : at + size] for at in range(0, len(values), size)]
    ranks = range(1, len(values) + 1)
    assert order_statistics(source, ranks, room) == tuple(np.sort(values))


class Counting:
    """A source that counts how often it is read."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.reads = values, 0

    def __iter__(self):
        self.reads += 1
        return iter(np.array_split(self.values, 10))


def test_two_passes_are_enough_for_spread_scores_and_four_for_equal_ones():
    spread = Counting(np.random.default_rng(0).random(10_000))
    order_statistics(spread, [9_500], room=1_000)
    assert spread.reads == 2
    equal = Counting(np.ones(10_000))
    assert order_statistics(equal, [9_500], room=1_000) == (1.0,)
    assert equal.reads == 4


def test_a_source_that_is_spent_is_refused():
    with pytest.raises(InputError):
        order_statistics(iter([[0.1, 0.2]]), [1], room=0)
    with pytest.raises(InputError):
        order_statistics(iter([[0.1, 0.2]]), [1])


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


def test_one_level_alone_is_refused_before_anything_is_read():
    batches = iter([np.arange(10.0)])
    with pytest.raises(InputError):
        conformal_quantiles(batches, 0.2)  # type: ignore[arg-type]
    assert len(list(batches)) == 1
