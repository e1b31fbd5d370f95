"""Counting labels in steps: what two cuts settle must be what the exact order says."""

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from fedwqcp.kernels import _search, _wide, compiled, crossing
from fedwqcp.kernels.limits import Limits
from fedwqcp.kernels.ranked import ONE
from fedwqcp.scores._ranked import _limits
from fedwqcp.scores.aps import APS
from fedwqcp.scores.raps import RAPS

STEP = 2**30
quick = settings(max_examples=60, deadline=None)


def fitting(heights: list[int], limit: int) -> int:
    """How many of the largest have a sum within the limit."""
    total, n = 0, 0
    for height in sorted(heights, reverse=True):
        total += height
        n += total <= limit
    return n


@quick
@given(
    fine=st.lists(st.integers(0, 2**12), min_size=3, max_size=9),
    share=st.floats(0, 1),
    cuts=st.tuples(st.integers(0, 2**10), st.integers(0, 2**10)),
)
def test_what_two_cuts_settle_is_so(fine: list[int], share: float, cuts: tuple[int, int]) -> None:
    """Heights are known in steps of four only; the limit and the order are finer."""
    limit = int(share * sum(fine))
    size, steps = fitting(fine, limit), [height // 4 for height in fine]
    limits = np.full(len(fine) + 1, limit // 4)
    limits[0] = STEP
    high, low = max(cuts), min(cuts)
    ends = np.zeros(7, np.int64)
    for at, cut in ((0, high), (3, low)):
        above = [height for height in steps if height > cut]
        ends[at : at + 3] = cut, len(above), sum(above)
    fits = ends[2] + ends[1] <= limits[ends[1]]
    passes = ends[5] > limits[ends[4]]
    if fits and passes:
        found = _search.settled(tuple(ends[:3]), tuple(ends[3:6]), limits)
        assert found in (_search.UNSURE, size)


@quick
@given(heights=st.lists(st.integers(2, 40), min_size=3, max_size=12), data=st.data())
def test_the_lowest_label_that_fits(heights: list[int], data: st.DataObject) -> None:
    r = np.array([*heights, 0, 0], np.int32)
    ordered = sorted(heights, reverse=True)
    size = data.draw(st.integers(0, len(heights) - 1))
    n = data.draw(st.integers(0, size))
    n_low = data.draw(st.integers(size + 1, len(heights)))
    ends = np.zeros(7, np.int64)
    ends[0] = ordered[n - 1] - 1 if n else ordered[0] + 2
    ends[3] = ordered[n_low] if n_low < len(heights) else 0
    ends[1], ends[4] = (r > ends[0]).sum(), (r > ends[3]).sum()
    if not ends[1] <= size < ends[4]:
        return  # equals moved a cut past the crossing
    least = _search.lowest(r, ends, size)
    gap = (ordered[size - 1] if size else ordered[0] + 2) - ordered[size]
    if least >= 0:
        assert (r >= least).sum() == size
        assert gap > 1
    else:
        assert gap <= 1


def probabilities(kind: str, C: int, n: int = 300) -> npt.NDArray[np.floating]:
    """Rows on which a search in steps may stumble."""
    rng = np.random.default_rng(C)
    weights = {
        "spread": np.exp(2 * rng.normal(size=(n, C))),
        "tied": rng.integers(0, 5, (n, C)) + np.eye(C)[rng.integers(0, C, n)],
        "flat": np.ones((n, C)),
        "nearly flat": 1 + 1e-9 * rng.random((n, C)),
        "saturated": np.where(rng.random((n, C)) < 2 / C, 1.0, 1e-12) + 1e-14,
        "steep": np.exp(40 * rng.normal(size=(n, C))),
        "changing": np.exp(rng.choice([0.01, 1, 8], (n, 1)) * rng.normal(size=(n, C))),
    }[kind]
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


KINDS = ["spread", "tied", "flat", "nearly flat", "saturated", "steep", "changing"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_searched_and_sorted_sets_are_the_same(
    monkeypatch: pytest.MonkeyPatch, kind: str, dtype: type
) -> None:
    monkeypatch.setattr(compiled, "SMALL", 0)
    monkeypatch.setattr(compiled, "LARGE", 0)
    for C in (3, 10, 48, 49, 64, 100, 257):
        p = probabilities(kind, C).astype(dtype)
        y = np.random.default_rng(0).integers(0, C, len(p))
        for score in (APS(randomized=False), RAPS(penalty=0.002, randomized=False)):
            own = score.of(p, y)
            for q in (0.0, 0.5, 0.9, 0.999, float(own[0]), float(np.nextafter(own[1], -1))):
                limit = _limits(score, q, C)
                found = crossing.mark(p, limit), *crossing.count(p, limit, y)
                with monkeypatch.context() as patch:
                    patch.setattr(compiled, "_loops", lambda: None)
                    by_sorting = crossing.find(p, limit, labels=y, masked=True)
                np.testing.assert_array_equal(found[0], by_sorting.mask)
                np.testing.assert_array_equal(found[1], by_sorting.ahead)
                np.testing.assert_array_equal(found[2], by_sorting.place.rank - 1)


def test_most_rows_are_settled_in_steps() -> None:
    p = probabilities("spread", 100).astype(np.float32)
    limits = _limits(APS(randomized=False), 0.9, 100).steps()
    near, ends, known = np.zeros(128, np.int32), np.zeros(7, np.int64), np.array([STEP / 100, 0.01])
    sizes = [_wide.count(row, near, limits, ends, known) for row in p]
    assert np.mean(np.array(sizes) >= 0) > 0.95
    assert known[1] != 0.01  # it learned


def test_unsound_rows_are_left_to_others() -> None:
    limits = _limits(APS(randomized=False), 0.9, 64).steps()
    for wrong in (np.nan, -1e-12, 2.0):
        row = np.full(64, 1 / 64)
        row[3] = wrong
        found = _wide.count(row, np.zeros(64, np.int32), limits, np.zeros(7, np.int64), np.ones(2))
        assert found == _search.UNSURE


def test_limits_in_steps_and_as_numbers() -> None:
    one, half = int(ONE), int(ONE) // 2
    limits = Limits(np.array([one, one, half + 1, -1]), by_top=False)
    assert limits.steps().tolist() == [2**40, 2**40, STEP // 2, -1]
    assert limits.reals().tolist() == [np.inf, np.inf, float(Fraction(half + 1, one)), -np.inf]
    assert Limits(limits.at, by_top=True).reals()[-1] == -(2.0**-52)
    assert Limits(limits.at, by_top=True).steps().size == 0
    assert Limits(np.full(4, one), by_top=False).steps().size == 0
    assert Limits(np.full(4, one), by_top=False).reals().tolist() == [np.inf] * 4
