import numpy as np
import pytest

from fedwqcp.arrays import SUM_TOLERANCE
from fedwqcp.errors import InputError
from fedwqcp.kernels import checks

GOOD = np.random.default_rng(0).dirichlet(np.ones(5), 30)


@pytest.mark.parametrize(
    "probs",
    [GOOD, GOOD.astype(np.float32), GOOD[::-1, ::-1], GOOD[:0], GOOD * (1 + 0.99 * SUM_TOLERANCE)],
)
def test_probabilities_pass(backend: str, probs) -> None:
    checks.check(probs)


@pytest.mark.parametrize("wrong", [-1e-30, np.nan, 0.5, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_others_do_not(backend: str, wrong: float, dtype) -> None:
    probs = GOOD.astype(dtype)
    probs[7, 0] = wrong if wrong != 0.5 else probs[7, 0] + 0.5
    with pytest.raises(InputError, match="row 7 "):
        checks.check(probs)


def test_a_sum_of_very_many_is_not_guessed() -> None:
    wide = np.full((2, 2**17), 2.0**-17, np.float32)
    assert not checks._surely(wide)
    checks.check(wide)


def test_the_quick_answer_is_stricter_than_the_full_one() -> None:
    pytest.importorskip("numba")
    from fedwqcp.kernels import _rows

    assert _rows.SURE < SUM_TOLERANCE * 0.9
    assert int(_rows.SURE_FIXED) == int(_rows.SURE * 2**52)
