from math import inf, nan

import pytest

from fedwqcp.errors import InputError
from fedwqcp.scores.absolute_residual import AbsoluteResidual

SCORE = AbsoluteResidual()


def test_by_hand() -> None:
    assert SCORE.of([1.0, 1.0, 1.0], [1.5, -1.0, 1.0]).tolist() == [0.5, 2.0, 0.0]
    intervals = SCORE.invert([1.0, 4.0], 0.5)
    assert [intervals[0], intervals[1]] == [(0.5, 1.5), (3.5, 4.5)]
    assert intervals.sizes().tolist() == [1.0, 1.0]
    assert SCORE.invert([1.0, 4.0], [[0.5], [1.0]])[1] == (3.0, 5.0)
    assert SCORE.bounds() == (0.0, inf)
    assert (SCORE.columns, SCORE.randomized) == (1, False)


def test_the_whole_line_and_the_empty_set() -> None:
    assert SCORE.invert([1.0], inf)[0] == (-inf, inf)
    for q in (-1.0, -5e-324, -inf):
        empty = SCORE.invert([1.0], q)
        assert empty.sizes().tolist() == [0.0]
        assert not empty.cover([1.0]).any()
    assert SCORE.invert([1.0], 0.0)[0] == (1.0, 1.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: SCORE.of([1.0, nan], [1.0, 1.0]),
        *(lambda y=y: SCORE.of([1.0], y) for y in ([nan], [inf], [1.0, 2.0])),
        lambda: SCORE.of([[1.0]], [1.0]),
        lambda: SCORE.invert([1.0], nan),
        lambda: SCORE.invert([inf], 1.0),
        lambda: SCORE.invert([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]),
    ],
)
def test_wrong_input_is_refused(call) -> None:
    with pytest.raises(InputError):
        call()
