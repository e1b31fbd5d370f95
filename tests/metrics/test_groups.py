"""Coverage in each group."""

from __future__ import annotations

import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp.metrics import Rate, by_class, by_group
from fedwqcp.sets import Intervals, LabelSets


def test_groups_by_hand():
    sets = LabelSets(np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]], dtype=bool))
    old, young = by_group(sets, [0, 2, 1, 2], ["young", "old", "old", "young"])
    assert (old.group, old.n, old.hits, old.size) == ("old", 2, 0, 1.0)
    assert (young.group, young.n, young.hits, young.size) == ("young", 2, 2, 2.0)
    rate = Rate(n=2, hits=2)
    assert (young.low, young.high) == (rate.low, rate.high)


def test_labels_as_groups_give_coverage_by_class():
    rng = np.random.default_rng(0)
    sets, y = LabelSets(rng.random((200, 3)) < 0.6), rng.integers(0, 3, 200)
    found = by_group(sets, y, y)
    assert [(g.n, g.hits) for g in found] == [(r.n, r.hits) for r in by_class(sets, y)]


def test_intervals_and_wrong_lengths():
    intervals = Intervals(np.array([0.0, 0.0]), np.array([1.0, 3.0]))
    assert [g.size for g in by_group(intervals, [0.5, 5.0], [2, 10])] == [3.0, 1.0]  # as text
    with pytest.raises(InputError, match="one for each row"):
        by_group(intervals, [0.5, 5.0], ["a"])
