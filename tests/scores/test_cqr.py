from math import inf, nan

import numpy as np
import pytest
from hypothesis import given

from fedwqcp.errors import InputError
from fedwqcp.scores.cqr import CQR
from refusals import raises
from strategies import real_arrays

BOTH = CQR()
APART = CQR(symmetric=False)
OUT = [[1.0, 3.0]]


def test_one_score_by_hand() -> None:
    outputs = OUT * 3
    assert BOTH.of(outputs, [2.0, 0.5, 4.0]).tolist() == [-1.0, 0.5, 1.0]
    assert BOTH.invert(OUT, 0.5)[0] == (0.5, 3.5)
    assert BOTH.invert(OUT, -0.5)[0] == (1.5, 2.5)
    assert BOTH.invert(OUT, inf)[0] == (-inf, inf)
    assert BOTH.bounds() == (-inf, inf)
    assert (BOTH.columns, APART.columns) == (1, 2)


def test_a_negative_threshold_may_leave_nothing() -> None:
    empty = BOTH.invert(OUT, -1.5)
    assert empty[0] == (2.5, 1.5)
    assert empty.sizes()[0] == 0
    assert not empty.cover([2.0]).any()
    assert BOTH.invert(OUT, -1.0)[0] == (2.0, 2.0)


def test_two_scores_by_hand() -> None:
    assert APART.of(OUT * 2, [0.5, 3.5]).tolist() == [[0.5, -2.5], [-2.5, 0.5]]
    assert APART.invert(OUT, [0.5, -1.0])[0] == (0.5, 2.0)
    assert APART.invert(OUT, [inf, 0.0])[0] == (-inf, 3.0)
    assert APART.invert(OUT, 0.5)[0] == (0.5, 3.5)
    assert APART.invert(OUT * 2, [[0.5], [1.0]])[1] == (0.0, 4.0)
    assert APART.of(np.empty((0, 2)), []).shape == (0, 2)


def test_crossing_quantiles_change_places() -> None:
    assert BOTH.of([[3.0, 1.0]], [4.0]).tolist() == [1.0]
    assert BOTH.invert([[3.0, 1.0]], 0.0)[0] == (1.0, 3.0)
    assert APART.of([[3.0, 1.0]], [4.0]).tolist() == [[-3.0, 1.0]]


@given(real_arrays((4, 2)), real_arrays(4))
def test_the_one_score_is_the_larger_of_the_two(outputs, y) -> None:
    np.testing.assert_array_equal(BOTH.of(outputs, y), APART.of(outputs, y).max(axis=1))


def test_wrong_input_is_refused() -> None:
    with pytest.raises(InputError):
        BOTH.of([[1.0, 2.0, 3.0]], [1.0])
    with raises(InputError, row=0):
        BOTH.of([[nan, 1.0]], [1.0])
    with pytest.raises(InputError):
        BOTH.invert(OUT, [1.0, 2.0])
    with pytest.raises(InputError, match="got NaN"):
        APART.invert(OUT, [1.0, nan])
