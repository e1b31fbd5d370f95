from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.sets import Intervals, LabelSets
from refusals import raises
from strategies import real_arrays

SETS = LabelSets(np.array([[True, False, True], [False, False, False], [False, True, False]]))
INTERVALS = Intervals(np.array([0.0, 2.0, -inf]), np.array([1.0, 1.0, inf]))


def test_sets_of_labels_by_hand() -> None:
    assert len(SETS) == 3
    assert list(SETS) == [(0, 2), (), (1,)]
    assert SETS.sizes().tolist() == [2, 0, 1]
    assert SETS.sizes().dtype == np.int64
    assert SETS.cover([2, 0, 1]).tolist() == [True, False, True]


def test_labels_are_checked() -> None:
    with raises(InputError, row=2):
        SETS.cover([0, 0, 3])
    with pytest.raises(InputError):
        SETS.cover([0])
    assert LabelSets(np.zeros((0, 3), bool)).cover([]).shape == (0,)


def test_intervals_by_hand() -> None:
    assert len(INTERVALS) == 3
    assert INTERVALS[1] == (2.0, 1.0)
    assert INTERVALS.sizes().tolist() == [1.0, 0.0, inf]
    assert INTERVALS.cover([1.0, 1.5, 9e99]).tolist() == [True, False, True]
    assert INTERVALS.cover([0.0, 2.0, -9e99]).tolist() == [True, False, True]
    assert Intervals(np.array([-1e308]), np.array([1e308])).sizes()[0] == inf
    with raises(InputError, row=1):
        INTERVALS.cover([1.0, nan, 1.0])


def test_intervals_are_cut_to_a_known_range() -> None:
    cut = INTERVALS.clip(0.5, 4.0)
    assert [cut[i] for i in range(3)] == [(0.5, 1.0), (2.0, 1.0), (0.5, 4.0)]
    assert INTERVALS.clip(3.0, 4.0).sizes().tolist() == [0.0, 0.0, 1.0]
    for empty in ((1.0, 0.0), (nan, 1.0)):
        with pytest.raises(InputError):
            INTERVALS.clip(*empty)


@given(real_arrays(4, 10), real_arrays(4, 10), real_arrays(4, 10))
def test_cutting_loses_no_value_within_the_range(lower, upper, y) -> None:
    intervals = Intervals(lower, upper)
    inside = (y >= -5) & (y <= 5)
    cut = intervals.clip(-5, 5).cover(y)
    assert cut.tolist() == (intervals.cover(y) & inside).tolist()


def test_labels_within_an_interval_by_hand() -> None:
    intervals = Intervals(
        np.array([-3.0, 0.2, 2.0, 1.1, -inf]), np.array([0.0, 2.9, 2.0, 1.9, inf])
    )
    assert list(intervals.labels(4)) == [(0,), (1, 2), (2,), (), (0, 1, 2, 3)]


@given(real_arrays(3, 8), real_arrays(3, 8), st.lists(st.integers(0, 4), min_size=3, max_size=3))
def test_an_integer_is_covered_where_its_label_is(lower, upper, labels) -> None:
    intervals = Intervals(lower, upper)
    covered = intervals.cover([float(label) for label in labels])
    assert intervals.labels(5).cover(labels).tolist() == covered.tolist()


def test_sets_speak_of_classes_by_name():
    names = ["melanoma", "nevus", "other"]
    sets = LabelSets(np.array([[True, False, True], [False, True, False]]), names)
    assert [sets.names(row) for row in range(2)] == [("melanoma", "other"), ("nevus",)]
    assert sets[0] == (0, 2)  # numbers stay numbers: a label is looked up, and columns are indexed
    assert sets.mask[0, list(sets[0])].all()
    assert sets.cover(["other", "melanoma"]).tolist() == [True, False]
    assert sets.cover([2, 0]).tolist() == [True, False]
    assert sets[1:].names(0) == ("nevus",)
    assert LabelSets(sets.mask).names(0) == ("0", "2")
    with raises(InputError, field="classes"):
        LabelSets(sets.mask, names[:2])
    with raises(InputError, row=1):
        sets.cover(["other", "wart"])


def test_sets_and_intervals_are_tables_of_pandas():
    pytest.importorskip("pandas")
    sets = LabelSets(np.array([[True, False], [False, False]]), ["a", "b"])
    table = sets.to_frame(["p1", "p2"])
    assert table.loc["p1", "labels"] == ("a",)
    assert table["size"].tolist() == [1, 0]
    ends = Intervals(np.array([0.0]), np.array([2.5])).to_frame()
    assert ends.iloc[0].tolist() == [0.0, 2.5, 2.5]
