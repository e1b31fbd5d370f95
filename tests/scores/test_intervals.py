"""The exact pairs that every interval score is made of, over all floats."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from fedwqcp.scores._intervals import distance, ratio, reach, stretch

Pair = Callable[[npt.NDArray[np.float64], npt.NDArray[np.float64]], npt.NDArray[np.float64]]

finite = st.floats(allow_nan=False, allow_infinity=False)
thresholds = st.floats(allow_nan=False)
scales = st.floats(min_value=5e-324, allow_infinity=False)
near_one = st.floats(0.5, 2)


def around(value: np.float64) -> Iterator[float]:
    """A float and its two neighbours."""
    with np.errstate(over="ignore"):
        yield from map(float, (value, np.nextafter(value, np.inf), np.nextafter(value, -np.inf)))


def call(function: Pair, *values: float) -> np.float64:
    """Apply a function of arrays to numbers."""
    with np.errstate(over="ignore", invalid="raise"):
        return function(*(np.array([value]) for value in values))[0]


def assert_reached(base: float, y: float, q: float) -> None:
    """y is within reach exactly where its distance is at most q."""
    for threshold in (q, *around(call(distance, base, y))):
        end = call(reach, base, threshold)
        for value in (y, *around(end)):
            if np.isfinite(value):
                assert (call(distance, base, value) <= threshold) == (value <= end)


def assert_stretched(length: float, scale: float, q: float) -> None:
    """A length is within q units exactly where its ratio is at most q."""
    for threshold in (q, *around(call(ratio, length, scale))):
        end = call(stretch, threshold, scale)
        for value in (length, *around(end)):
            assert (call(ratio, value, scale) <= threshold) == (value <= end)


@settings(max_examples=200, deadline=None)
@given(finite, finite, thresholds)
def test_distance_and_reach_agree_on_all_floats(base: float, y: float, q: float) -> None:
    assert_reached(base, y, q)


@settings(max_examples=200, deadline=None)
@given(near_one, near_one, near_one)
def test_distance_and_reach_agree_where_rounding_is_common(base: float, y: float, q: float) -> None:
    assert_reached(base, y, q)
    assert_reached(-base, y, q)
    assert_reached(base, y, q * 2.0**-50)


@settings(max_examples=200, deadline=None)
@given(finite, scales, thresholds)
def test_ratio_and_stretch_agree_on_all_floats(length: float, scale: float, q: float) -> None:
    assert_stretched(length, scale, q)


@settings(max_examples=200, deadline=None)
@given(near_one, near_one, near_one)
def test_ratio_and_stretch_agree_where_rounding_is_common(
    length: float, scale: float, q: float
) -> None:
    assert_stretched(length, scale, q)
    assert_stretched(length * 5e-324, scale, q)


@given(finite, finite)
def test_a_distance_is_the_difference_or_its_upper_neighbour(base: float, y: float) -> None:
    with np.errstate(over="ignore"):
        difference = np.float64(y) - np.float64(base)
        neighbour = np.nextafter(difference, np.inf)
    assert call(distance, base, y) in (difference, neighbour)


def test_both_nudges_are_needed() -> None:
    base, y = -1e10, 1e-7  # y - base rounds to 1e10, and base + 1e10 is 0
    assert call(distance, base, y) == np.nextafter(1e10, np.inf)
    base, q = 1.0, 1.5 * 2.0**-53  # base + q rounds up to a number whose distance passes q
    assert base + q > 1
    assert call(reach, base, q) == 1
