from math import inf, nan

import numpy as np
import pytest
from hypothesis import given

from fedwqcp.errors import InputError
from fedwqcp.scores.aps import APS
from fedwqcp.scores.raps import RAPS
from strategies import Labelled, labelled

P = [[0.6, 0.3, 0.1]]


def test_by_hand() -> None:
    whole = RAPS(penalty=0.1, randomized=False)
    np.testing.assert_allclose(whole.of_every_label(P), [[0.6, 1.0, 1.2]], rtol=1e-15)
    # the random part scales p_y and not the penalty
    np.testing.assert_allclose(
        RAPS(penalty=0.1).of_every_label(P, u=[0.3]), [[0.18, 0.79, 1.13]], rtol=1e-15
    )
    np.testing.assert_allclose(
        RAPS(penalty=0.1, k_reg=2).of(P, [2], u=[0.3]), [0.93 + 0.1], rtol=1e-15
    )
    assert RAPS(penalty=0.5, k_reg=0, randomized=False).of([[0.5, 0.5]], [0])[0] == 1.0


def test_sets_by_hand() -> None:
    whole = RAPS(penalty=0.1, randomized=False)
    assert whole.invert(P, 0.7)[0] == (0,)
    assert whole.invert(P, 0.7, rule="until")[0] == (0, 1)
    assert whole.invert(P, 1.05, rule="until")[0] == (0, 1, 2)  # label 1 ends at 1.0
    assert whole.invert(P, 0.95, rule="until")[0] == (0, 1)


def test_bounds_by_hand() -> None:
    assert RAPS(penalty=0.25, k_reg=2).bounds(6) == (0.0, 2.0)
    assert RAPS(penalty=0.25, k_reg=9).bounds(6) == (0.0, 1.0)
    assert RAPS(penalty=0.25).bounds() == (0.0, inf)
    assert RAPS(penalty=0.0).bounds() == (0.0, 1.0)


@given(labelled())
def test_without_a_penalty_it_is_aps(case: Labelled) -> None:
    free = RAPS(penalty=0.0).of_every_label(case.probs, u=case.u)
    np.testing.assert_array_equal(free, APS().of_every_label(case.probs, u=case.u))
    late = RAPS(k_reg=case.probs.shape[1], randomized=False).of_every_label(case.probs)
    np.testing.assert_array_equal(late, APS(randomized=False).of_every_label(case.probs))


@pytest.mark.parametrize("penalty", [-0.1, nan, inf, "1", True, None])
def test_a_wrong_penalty_is_refused(penalty) -> None:
    with pytest.raises(InputError):
        RAPS(penalty=penalty)
