from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.sets import Intervals, LabelSets
from strategies import real_arrays

SETS = LabelSets(np.array([[True, False, True], [False, False, False], [False, True, False]]))
INTERVALS = Intervals(np.array([0.0, 2.0, -inf]), np.array([1.0, 1.0, inf]))


def test_sets_of_labels_by_hand() -> None:
    assert len(SETS) == 3
    assert list(SETS) == [(0, 2), (), (1,)]
    assert SETS.sizes().tolist() == [2, 0, 1]
    assert SETS.sizes().dtype == np.int64
    assert SETS.cover([2, 0, 1]).tolist() == [True, False, True]


def test_printed_sets_show_counts_of_sizes_and_the_first_rows() -> None:
    assert str(SETS) == (
        "3 sets, of 3 possible labels; mean size 1\nsize  0  1  2\nsets  1  1  1\n"
        "row 0: 0 2\nrow 1: (empty)\nrow 2: 1"
    )
    lines = str(LabelSets(np.tri(40, 40, -1) > 0)).splitlines()
    assert lines[:2] == [
        "40 sets, of 40 possible labels; mean size 19.5",
        "sizes 0 to 39, median 19.5; 1 empty",
    ]
    assert (len(lines), lines[-2:]) == (13, ["row 9: 0 1 2 3 4 5 6 7 8", "..."])
    assert str(LabelSets(np.ones((1, 12), bool))).endswith("8 9 ... (12 labels)")
    assert str(LabelSets(np.zeros((0, 3), bool))) == "no sets, of 3 possible labels"


def test_printed_intervals_show_lengths_and_the_first_rows() -> None:
    assert str(INTERVALS[:2]) == (
        "2 intervals, length 0.5 on average, median 0.5; 1 empty, 0 infinite\n"
        "row 0: 0 to 1\nrow 1: 2 to 1"
    )
    assert "1 empty, 1 infinite" in str(INTERVALS)
    assert str(INTERVALS[:0]) == "no intervals"


def test_labels_are_checked() -> None:
    with pytest.raises(InputError, match="row 2: labels must be integers from 0 to 2"):
        SETS.cover([0, 0, 3])
    with pytest.raises(InputError, match="one for each row"):
        SETS.cover([0])
    assert LabelSets(np.zeros((0, 3), bool)).cover([]).shape == (0,)


def test_intervals_by_hand() -> None:
    assert len(INTERVALS) == 3
    assert INTERVALS[1] == (2.0, 1.0)
    assert INTERVALS.sizes().tolist() == [1.0, 0.0, inf]
    assert INTERVALS.cover([1.0, 1.5, 9e99]).tolist() == [True, False, True]
    assert INTERVALS.cover([0.0, 2.0, -9e99]).tolist() == [True, False, True]
    assert Intervals(np.array([-1e308]), np.array([1e308])).sizes()[0] == inf
    with pytest.raises(InputError, match="y must be finite"):
        INTERVALS.cover([1.0, nan, 1.0])


def test_intervals_are_cut_to_a_known_range() -> None:
    cut = INTERVALS.clip(0.5, 4.0)
    assert [cut[i] for i in range(3)] == [(0.5, 1.0), (2.0, 1.0), (0.5, 4.0)]
    assert INTERVALS.clip(3.0, 4.0).sizes().tolist() == [0.0, 0.0, 1.0]
    for empty in ((1.0, 0.0), (nan, 1.0)):
        with pytest.raises(InputError, match="the range must not be empty, got"):
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
    assert str(sets).endswith("row 0: melanoma, other\nrow 1: nevus")
    assert sets.cover(["other", "melanoma"]).tolist() == [True, False]
    assert sets.cover([2, 0]).tolist() == [True, False]
    assert sets[1:].names(0) == ("nevus",)
    assert LabelSets(sets.mask).names(0) == ("0", "2")
    with pytest.raises(InputError, match=r"classes: must be 3, one for each column, got 2"):
        LabelSets(sets.mask, names[:2])
    with pytest.raises(InputError, match=r"^row 1: labels must be one of the classes 'melanoma', "):
        sets.cover(["other", "wart"])
