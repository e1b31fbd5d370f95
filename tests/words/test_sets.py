"""How sets and intervals print."""

from __future__ import annotations

from math import inf

import numpy as np

from fedwqcp.sets import Intervals, LabelSets

SETS = LabelSets(np.array([[True, False, True], [False, False, False], [False, True, False]]))
INTERVALS = Intervals(np.array([0.0, 2.0, -inf]), np.array([1.0, 1.0, inf]))


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
