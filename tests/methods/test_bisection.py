"""The order of float64 numbers as integers, and the search over it."""

from __future__ import annotations

from math import inf, log2, nan, nextafter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.methods._search import Bracket, from_key, to_key
from worked import kth_smallest

numbers = st.floats(allow_nan=False)
wild = st.one_of(numbers.filter(lambda v: v > -inf), st.integers(-3, 3).map(float))


@given(numbers, numbers)
def test_the_order_is_kept(a: float, b: float) -> None:
    assert (a < b) == (to_key(a) < to_key(b))
    assert (a == b) == (to_key(a) == to_key(b))


@given(numbers)
def test_there_and_back(value: float) -> None:
    assert from_key(to_key(value)) == value


@given(st.floats(max_value=1.7e308, allow_nan=False, allow_infinity=False))
def test_neighbours_differ_by_one(value: float) -> None:
    assert to_key(nextafter(value, inf)) == to_key(value) + 1


def test_the_ends() -> None:
    assert to_key(0.0) == to_key(-0.0) == 0
    assert to_key(inf) == -to_key(-inf) == 0x7FF0000000000000
    with pytest.raises(InputError, match="NaN"):
        to_key(nan)
    with pytest.raises(InputError, match="at most"):
        from_key(to_key(inf) + 1)


def search(scores: list[float], rank: int, probes: int) -> tuple[float, int]:
    """Run the search on one sample; the value and the number of steps."""
    bracket, steps = Bracket(), 0
    while bracket.open:
        values = bracket.probes(probes)
        assert 1 <= len(values) <= probes
        assert list(values) == sorted(set(values))
        counts = [sum(s <= v for s in scores) for v in values]
        bracket, steps = bracket.narrow(values, counts, rank), steps + 1
    return bracket.value, steps


@given(st.lists(wild, min_size=1, max_size=12), st.integers(1, 12), st.integers(1, 40))
def test_it_ends_at_the_order_statistic(scores: list[float], rank: int, probes: int) -> None:
    value, steps = search(scores, rank, probes)
    assert value == kth_smallest(scores, rank)
    assert steps <= 64 / log2(probes + 1) + 1


def test_sixteen_steps_of_fifteen_probes_span_every_float() -> None:
    assert search([-1.7e308, 1e-320, 3.0], 2, 15) == (1e-320, 16)


def test_one_probe_halves() -> None:
    low, high = to_key(1.0), to_key(2.0)
    (value,) = Bracket(low, high).probes(1)
    assert value == 1.5
    assert Bracket(low, high).narrow((value,), [4], 5) == Bracket(to_key(1.5) + 1, high)
    assert Bracket(low, high).narrow((value,), [5], 5) == Bracket(low, to_key(1.5))


def test_numpy_agrees_on_the_order() -> None:
    rng = np.random.default_rng(5)
    values = rng.standard_normal(1000) * 10.0 ** rng.integers(-300, 300, 1000)
    assert np.array_equal(np.argsort(values), np.argsort([to_key(v) for v in values.tolist()]))
