"""The steps of a bracket search, and which rows it settles."""

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from fedwqcp.errors import InputError
from fedwqcp.kernels import LANES, Crossings, bracket, compilation
from fedwqcp.kernels.compilation import Loops
from fedwqcp.kernels.numpy import NOT_RANDOM
from fedwqcp.scores._base import _limits
from fedwqcp.scores.aps import APS
from fedwqcp.scores.raps import RAPS
from kernel_rows import Rows, assert_sets_by_sorting, rows


def pivot(steps: Any, row: list[int], height: float) -> Any:
    """A pivot of sixteen equal rows."""
    above = [x for x in row if x > height]
    return steps.Pivot(*(np.full(LANES, x, float) for x in (height, len(above), sum(above))))


def fitting(row: list[int], limits: list[float], rest: float) -> int:
    """How many of the largest have sums within the limits, without that part of the last."""
    ordered = np.array(sorted(row, reverse=True))
    return int((np.cumsum(ordered) - rest * ordered <= limits[1 : len(row) + 1]).sum())


@pytest.fixture
def steps(uncompiled: Loops) -> Any:
    """The steps of a search, as Python: they are only ever part of a compiled loop."""
    return uncompiled.bracket


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    row=st.lists(st.integers(0, 40), min_size=3, max_size=12),
    share=st.floats(0, 0.999),
    fall=st.sampled_from([0.0, 0.5, 3.0]),
    heights=st.tuples(st.floats(-1, 41), st.floats(-1, 41)),
    rest=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
)
def test_what_two_pivots_settle_is_so(steps, row, share, fall, heights, rest) -> None:
    C = len(row) + (rest > 0)  # with a random part, all labels may fit
    limits = [np.inf, *(share * sum(row) - fall * np.arange(C - 1)), -np.inf, -np.inf]
    everywhere, zero = np.ones(LANES, bool), np.zeros(LANES)
    size, all_of = fitting(row, limits, rest), np.full(LANES, float(C))
    one = limits[1] if fall == 0 else 0.0
    bounds = steps.Bounds(np.array(limits), fall == 0, zero + one, zero, zero + rest)
    ends = steps.Bracket(pivot(steps, row, 50.0), steps.Pivot(zero - 1, all_of, zero + sum(row)))
    with np.errstate(all="ignore"):
        above = ends.upper
        for height in sorted(heights, reverse=True):
            tried = pivot(steps, row, height)
            for other in (above, ends.upper):  # any pivot that is not lower
                if other.height[0] >= height:
                    verdict = steps.judge(tried, other, everywhere, all_of, bounds)
                    ends = steps.tighten(ends, tried, verdict)
            above = tried
        assert ends.upper.count[0] <= size < ends.lower.count[0]
        k, settled, about = steps.settle(ends, all_of, bounds)
        if settled[0]:
            assert ends.upper.count[0] + k[0] == size
        high, low = steps.place_pivots(ends, k, about, settled)
    between = (ends.lower.height[0], ends.upper.height[0])
    assert not np.isfinite(about[0]) or between[0] <= low[0] <= high[0] <= between[1]


def test_a_pivot_between_two_labels_settles_them(steps) -> None:
    row, C = [40, 30, 20, 10], np.full(LANES, 4.0)
    zero = np.zeros(LANES)
    bounds = steps.Bounds(np.zeros(0), True, np.full(LANES, 72.0), zero, zero)
    ends = [pivot(steps, row, height) for height in (45.0, 25.0, 15.0)]
    k, settled, _ = steps.settle(steps.Bracket(ends[1], ends[2]), C, bounds)
    assert settled.all()
    assert (k == 0).all()  # the third would make 90
    k, settled, _ = steps.settle(steps.Bracket(ends[0], ends[2]), C, bounds)
    assert not settled.any()  # 40 + 30 fit, but two of three that weigh 90 could weigh 75


def undecided(
    p: Rows,
    q: float,
    masked: bool = False,
    u: npt.NDArray[np.float64] = NOT_RANDOM.u,
    penalty: float = 0.0,
) -> list[int]:
    """How many rows the search leaves undecided with sums of float32 and of float64."""
    limits, found = _limits(RAPS(penalty=penalty, k_reg=0, randomized=False), q, p.shape[1]), []
    y = np.zeros(0 if masked else len(p), np.int64)
    for dtype in (np.float32, np.float64)[p.dtype == np.float64 :]:
        out = Crossings.allocate(len(p), p.shape[1] if masked else 0, False, not masked)
        penalties = penalty * np.arange(p.shape[1] + 1)
        random = NOT_RANDOM._replace(u=u, penalties=penalties, threshold=np.array([q]))
        pivots = bracket.first_pivots(p.shape[1])
        left = bracket.cross(p, y, limits, random, out, pivots, dtype)
        assert left.tolist() == np.flatnonzero(out.sizes < 0).tolist()
        found.append(len(left))
    return found


@pytest.mark.usefixtures("always_compiled")
def test_most_rows_are_settled_at_once() -> None:
    p = rows("spread", 1600, 100).astype(np.float32)
    for masked, u in product((False, True), (np.empty(0), np.linspace(0, 1, 1600))):
        assert undecided(p, 0.9, masked, u)[0] < 0.01 * len(p)
        assert undecided(p, 0.9, masked, u)[-1] <= 0.002 * len(p)
        assert undecided(p.astype(float), 0.9, masked, u)[0] <= 0.002 * len(p)
    assert undecided(p[:5], 0.9)[-1] == 0


@pytest.mark.usefixtures("always_compiled")
def test_first_pivots_come_back_from_rows_that_all_cross_at_the_top() -> None:
    sure = np.tile(np.eye(60, dtype=np.float32), (500, 1))
    spread = rows("spread", 3200, 60).astype(np.float32)
    limits = _limits(APS(randomized=False), 0.9, 60)
    pivots = bracket.first_pivots(60)
    for p in (sure, spread):
        out = Crossings.allocate(len(p), 0, False, True)
        y = np.zeros(len(p), np.int64)
        bracket.cross(p, y, limits, NOT_RANDOM, out, pivots, np.float32)
        assert (pivots > 0).all()
        assert (pivots <= 1).all()
    crossing_at = np.sort(spread, axis=1)[np.arange(3200), -1 - out.sizes]
    shares = [(crossing_at < pivot).mean() for pivot in np.sort(pivots)]
    np.testing.assert_allclose(shares, [0.05, 0.35, 0.65, 0.95], atol=0.15)


@pytest.mark.usefixtures("always_compiled")
def test_sums_that_float32_cannot_tell_from_a_limit_are_weighed_exactly() -> None:
    p = rows("spread", 160, 100).astype(np.float32)
    for q in np.cumsum(-np.sort(-p[5].astype(np.float64)))[[3, 30, 60]]:
        for limit in (q, np.nextafter(q, 0), np.nextafter(q, 1)):
            assert undecided(p, limit) == [0, 0]
            assert_sets_by_sorting(APS(randomized=False), p, float(limit))


@pytest.mark.usefixtures("always_compiled")
def test_a_score_that_equals_the_threshold_needs_no_other_loop() -> None:
    p, u = rows("spread", 160, 100).astype(np.float32), np.linspace(0, 1, 160)
    for y, penalty in product((3, 30, 60), (0.0, 0.003)):
        q = float(RAPS(penalty=penalty, k_reg=0).of(p[5:6], [y], u=u[5:6])[0])
        for threshold in (q, np.nextafter(q, 0), np.nextafter(q, 9)):
            assert undecided(p, float(threshold), u=u, penalty=penalty) == [0, 0]


@pytest.mark.usefixtures("always_compiled")
def test_limits_beyond_mass_one_tell_where_rows_cross() -> None:
    p = rows("spread", 160, 1000).astype(np.float32)
    for u in (np.empty(0), np.linspace(0, 1, 160)):
        assert undecided(p, 3.4, u=u, penalty=0.01) == [0, 0]


@pytest.mark.usefixtures("always_compiled")
def test_numbers_that_float32_does_not_put_in_order_are_left_to_float64() -> None:
    single, double = undecided(rows("steep", 160, 100).astype(np.float32), 1 - 1e-9)
    assert 0 < double < single


@pytest.mark.usefixtures("always_compiled")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, -1e-30, -0.0, -0.5, 5.0])
def test_rows_that_are_not_surely_valid_are_left_undecided(wrong: float, dtype: type) -> None:
    p = rows("spread", 64, 60).astype(dtype)
    before = undecided(p, 0.9)[-1]
    p[7, 3] = wrong
    assert undecided(p, 0.9)[-1] > before
    if wrong != 0:
        with pytest.raises(InputError, match="row 7"):
            APS(randomized=False).invert(p, 0.9)


def near_zeros(n: int, C: int) -> Rows:
    """Rows of which most labels have probability 0."""
    p = np.zeros((n, C), np.float32)
    p[:, : C // 10] = rows("spread", n, C // 10)
    return p


@pytest.mark.usefixtures("always_compiled")
@pytest.mark.parametrize("n_classes", [300, 1000])
def test_pivots_among_zeros(n_classes: int) -> None:
    p, score = near_zeros(48, n_classes), RAPS(penalty=1e-4, randomized=False)
    for rank in (n_classes // 2, n_classes * 17 // 20):
        q = 1 + 1e-4 * (rank - 1)
        for threshold in (q, np.nextafter(q, 0), np.nextafter(np.nextafter(q, 0), 0)):
            assert_sets_by_sorting(score, p, float(threshold))


@pytest.mark.usefixtures("always_compiled")
def test_pivots_among_zeros_stay_within_their_arrays(uncompiled, monkeypatch) -> None:
    monkeypatch.setattr(compilation, "loops", lambda: uncompiled)
    q = float(np.nextafter(1 + 1e-4 * 149, 0))
    assert_sets_by_sorting(APS(randomized=False), near_zeros(16, 300), 0.9)
    assert_sets_by_sorting(RAPS(penalty=1e-4, randomized=False), near_zeros(16, 300), q)
