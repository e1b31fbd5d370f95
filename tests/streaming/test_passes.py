"""Order statistics of a source that can be read again are exact, ties and signs included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.streaming import order_statistics
from fedwqcp.streaming.passes import count
from strategies import scores


@given(scores(min_size=1, infinite=True), st.integers(1, 9), st.integers(0, 5))
def test_every_rank_is_exact_with_any_room(values, size, room):
    source = [values[at : at + size] for at in range(0, len(values), size)]
    ranks = range(1, len(values) + 1)
    assert order_statistics(source, ranks, room) == tuple(np.sort(values))
    assert count(source) == len(values)


def test_close_scores_are_told_apart_in_the_last_pass():
    values = [1.0, np.nextafter(1.0, 2.0), -0.0, 0.0, -1.0, np.nextafter(-1.0, 0.0)]
    assert order_statistics([values], range(1, 7), room=0) == tuple(np.sort(values))


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


def test_a_rank_outside_is_refused():
    for rank in (0, 3):
        with pytest.raises(InputError, match="from 1 to 2"):
            order_statistics([[0.1, 0.2]], [rank])


def test_a_source_that_is_spent_is_refused():
    with pytest.raises(InputError, match="same scores each time"):
        order_statistics(iter([[0.1, 0.2]]), [1], room=0)
    with pytest.raises(InputError, match="same scores each time"):
        order_statistics(iter([[0.1, 0.2]]), [1])
