from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedwqcp.errors import InputError
from fedwqcp.metrics import Rate, by_class, by_size
from fedwqcp.sets import Intervals, LabelSets

MASK = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0], [1, 1, 0]], dtype=bool)
LABELS = [0, 0, 1, 1, 1]


def test_by_class_by_hand() -> None:
    first, second, third = by_class(LabelSets(MASK), LABELS, level=0.9)
    assert first == Rate(n=2, hits=2, level=0.9)
    assert second == Rate(n=3, hits=2, level=0.9)
    assert (third.n, third.hits, third.low, third.high) == (0, 0, 0.0, 1.0)


def test_by_size_of_labels_by_hand() -> None:
    found = by_size(LabelSets(MASK), LABELS)
    assert [(s.smallest, s.largest, s.n, s.hits) for s in found] == [
        (0.0, 0.0, 1, 0),
        (1.0, 1.0, 2, 2),
        (2.0, 2.0, 2, 2),
    ]


def test_by_size_between_cuts_by_hand() -> None:
    upper = np.array([-1.0, 0.5, 1.0, 1.5, 2.0, inf])
    found = by_size(Intervals(np.zeros(6), upper), [0, 0.6, 0.6, 0.6, 0.6, 9], cuts=[1, 2, 2.5])
    assert [(s.smallest, s.largest, s.n, s.hits) for s in found] == [
        (0.0, 1.0, 2, 0),
        (1.0, 2.0, 2, 2),
        (2.0, 2.5, 1, 1),
        (2.5, inf, 1, 1),
    ]


def test_labels_may_be_cut_too() -> None:
    small, large = by_size(LabelSets(MASK), LABELS, cuts=[2])
    assert (small.n, small.hits, large.n, large.hits) == (3, 2, 2, 2)


@given(hnp.arrays(bool, st.tuples(st.integers(1, 30), st.just(4))), st.data())
def test_strata_part_the_points(mask: np.ndarray, data: st.DataObject) -> None:
    labels = data.draw(hnp.arrays(np.int64, len(mask), elements=st.integers(0, 3)))
    sets = LabelSets(mask)
    hits = int(sets.cover(labels).sum())
    for parts in (by_class(sets, labels), by_size(sets, labels), by_size(sets, labels, [1, 3])):
        assert sum(part.n for part in parts) == len(mask)
        assert sum(part.hits for part in parts) == hits


def test_intervals_need_cuts() -> None:
    with pytest.raises(InputError, match="cuts must be given for intervals"):
        by_size(Intervals(np.zeros(1), np.ones(1)), [0.5])


@pytest.mark.parametrize("cuts", [[], [0, 1], [1, 1], [2, 1], [-1, 1]])
def test_cuts_must_increase(cuts: list[float]) -> None:
    with pytest.raises(InputError, match="cuts must be positive and increase"):
        by_size(LabelSets(MASK), LABELS, cuts)


def test_no_test_points_are_refused() -> None:
    nothing = LabelSets(np.empty((0, 3), dtype=bool))
    with pytest.raises(InputError, match="no test points"):
        by_class(nothing, [])
    with pytest.raises(InputError, match="no test points"):
        by_size(nothing, [])
