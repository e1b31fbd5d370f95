"""What two cuts settle must be what the exact order says."""

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lanes

Cut = tuple[Any, Any, Any]


def cut(row: list[int], height: float) -> Cut:
    """A cut of sixteen equal rows."""
    above = [x for x in row if x > height]
    return tuple(np.full(lanes.LANES, x, float) for x in (height, len(above), sum(above)))


def fitting(row: list[int], limits: list[float]) -> int:
    """How many of the largest have sums within the limits."""
    sums = np.cumsum(sorted(row, reverse=True))
    return int((sums <= limits[1 : len(row) + 1]).sum())


@pytest.fixture
def search(uncompiled: ModuleType) -> ModuleType:
    """The steps of a search, as Python: they are only ever part of a compiled loop."""
    return sys.modules["fedwqcp.kernels._search"]


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    row=st.lists(st.integers(0, 40), min_size=3, max_size=12),
    share=st.floats(0, 0.999),
    fall=st.sampled_from([0.0, 0.5, 3.0]),
    heights=st.tuples(st.floats(-1, 41), st.floats(-1, 41)),
    data=st.data(),
)
def test_what_two_cuts_settle_is_so(search, row, share, fall, heights, data) -> None:
    C = len(row)
    limits = [np.inf, *(share * sum(row) - fall * np.arange(C - 1)), -np.inf, -np.inf]
    everywhere = np.ones(lanes.LANES, bool)
    size, all_of = fitting(row, limits), np.full(lanes.LANES, float(C))
    bound = np.array(limits), fall == 0, np.full(lanes.LANES, limits[1]), np.zeros(lanes.LANES)
    ends = cut(row, 50.0), (all_of - all_of - 1, all_of, all_of * 0 + sum(row))
    with np.errstate(all="ignore"):
        for height in heights:
            verdict = search.judged(cut(row, height), everywhere, all_of, bound)
            ends = search.take(cut(row, height), ends, verdict)
        assert ends[0][1][0] <= size < ends[1][1][0]
        k, settled, about = search.settle(ends, all_of, bound)
        if settled[0]:
            assert ends[0][1][0] + k[0] == size
        high, low = search.aim(ends, k, about, settled)
    between = (ends[1][0][0], ends[0][0][0])
    assert not np.isfinite(about[0]) or between[0] <= low[0] <= high[0] <= between[1]


def test_a_cut_between_two_labels_settles_them(search) -> None:
    row, C = [40, 30, 20, 10], np.full(lanes.LANES, 4.0)
    bound = np.zeros(0), True, np.full(lanes.LANES, 72.0), np.zeros(lanes.LANES)
    k, settled, _ = search.settle((cut(row, 25.0), cut(row, 15.0)), C, bound)
    assert settled.all()
    assert (k == 0).all()  # the third would make 90
    k, settled, _ = search.settle((cut(row, 45.0), cut(row, 15.0)), C, bound)
    assert not settled.any()  # 40 + 30 fit, but two of three that weigh 90 could weigh 75
