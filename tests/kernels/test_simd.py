"""Loops on vectors stay within their arrays, and short rows are settled where float32 tells."""

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("numba")

from fedwqcp.errors import InputError
from fedwqcp.kernels import Crossings, compilation, simd
from fedwqcp.kernels.numpy import NOT_RANDOM
from fedwqcp.scores._base import _limits
from fedwqcp.scores.aps import APS
from fedwqcp.scores.raps import RAPS
from kernel_rows import Rows, rows


def undecided(
    p: Rows, q: float, masked: bool = False, u: npt.NDArray[np.float64] = NOT_RANDOM.u
) -> int:
    """How many short rows a search leaves undecided."""
    C = p.shape[1]
    y = np.zeros(0 if masked else len(p), np.int64)
    out = Crossings.allocate(len(p), C if masked else 0, False, not masked)
    scratch = np.empty(simd.SCRATCH_LENGTH, np.float32), (0,) * C
    limits = _limits(APS(randomized=False), q, C)
    left = simd.cross(p, y, limits, NOT_RANDOM._replace(u=u), out, scratch)
    assert left.tolist() == np.flatnonzero(out.sizes < 0).tolist()
    return len(left)


@pytest.mark.usefixtures("always_compiled")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 5, 10, 15, 16, 49, 60])
def test_the_loops_stay_within_their_arrays(uncompiled, n_classes, dtype, monkeypatch) -> None:
    """As Python, an instruction that reads or writes beyond an array fails."""
    monkeypatch.setattr(compilation, "loops", lambda: uncompiled)
    for n in (1, 16, 17, 47):
        p, u = rows("changing", n, n_classes).astype(dtype), np.linspace(0, 1, n)
        y = np.arange(n) % n_classes
        with np.errstate(all="ignore"):
            for score in (APS(), APS(randomized=False), RAPS(penalty=0.003)):
                given = u if score.randomized else None
                mask = score._block(p, np.asarray(0.7), "leq", given)
                assert (score.invert(p, 0.7, u=given).mask == mask).all()
                covered, sizes = score.measure(p, y, 0.7, u=given)
                assert (covered == mask[np.arange(n), y]).all()
                assert (sizes == mask.sum(axis=1)).all()
                score.of(p, y, u=given)


@pytest.mark.usefixtures("always_compiled")
def test_most_short_rows_are_settled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    p = rows("spread", 1600, 10).astype(np.float32)
    for masked in (False, True):
        assert undecided(p, 0.9, masked) < 40  # the last few, and near
        assert undecided(p, 0.9, masked, np.linspace(0, 1, 1600)) < 40


@pytest.mark.usefixtures("always_compiled")
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, -1e-30, -0.0, -0.5, 5.0])
def test_short_rows_that_are_not_surely_valid_are_left_undecided(wrong: float) -> None:
    p = rows("spread", 64, 10).astype(np.float32)
    before = undecided(p, 0.9)
    p[7, 3] = wrong
    assert undecided(p, 0.9) > before
    if wrong != 0:
        with pytest.raises(InputError, match="row 7"):
            APS(randomized=False).invert(p, 0.9)
