from math import inf, nan

import numpy as np
import pytest
from hypothesis import given

from fedwqcp.errors import InputError
from fedwqcp.scores.absolute_residual import AbsoluteResidual
from fedwqcp.scores.normalized_residual import NormalizedResidual
from refusals import raises
from strategies import real_arrays

SCORE = NormalizedResidual()


def test_by_hand() -> None:
    outputs = [[1.0, 0.5], [1.0, 2.0]]
    assert SCORE.of(outputs, [2.0, 2.0]).tolist() == [2.0, 0.5]
    intervals = SCORE.invert(outputs, 1.0)
    assert [intervals[0], intervals[1]] == [(0.5, 1.5), (-1.0, 3.0)]
    assert SCORE.invert(outputs, [[2.0], [0.5]])[0] == (0.0, 2.0)
    assert SCORE.bounds() == (0.0, inf)


def test_the_floor_holds_in_score_and_interval_alike() -> None:
    score = NormalizedResidual(floor=0.5)
    assert score.of([[1.0, 0.0]], [2.0])[0] == 2.0
    assert score.invert([[1.0, 0.0]], 2.0)[0] == (0.0, 2.0)
    assert SCORE.of([[1.0, 0.0]], [1.0])[0] == 0.0


@given(real_arrays(5), real_arrays(5))
def test_a_spread_of_1_gives_the_absolute_residual(f, y) -> None:
    ones = np.column_stack([f, np.ones(5)])
    np.testing.assert_array_equal(SCORE.of(ones, y), AbsoluteResidual().of(f, y))


def test_wrong_outputs_are_refused() -> None:
    with raises(InputError, row=1):
        SCORE.of([[1.0, 1.0], [1.0, -1.0]], [1.0, 1.0])
    with raises(InputError, row=0):
        SCORE.invert([[1.0, nan]], 1.0)
    with pytest.raises(InputError):
        SCORE.of([1.0, 1.0], [1.0, 1.0])
