from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.metrics import Histogram, histogram
from strategies import scores


def test_thin_bins_join_their_neighbours():
    # equal bins of 0.25: 3, 1, 0 and 1 people; two are the fewest
    found = histogram([0.0, 0.1, 0.2, 0.3, 1.0], bins=4, fewest=2)
    assert found == Histogram(edges=(0.0, 0.25, 1.0), people=(3, 2))


def test_what_is_left_at_the_end_joins_the_last_bin():
    # equal bins of 0.5: 3 people and 1; the single one joins the others
    assert histogram([0.0, 0.1, 0.2, 1.0], bins=2, fewest=2) == Histogram((0.0, 1.0), (4,))


def test_the_ends_tell_nobodys_score():
    found = histogram(np.linspace(0.0137, 0.9731, 200))
    assert (found.edges[0], found.edges[-1]) == (0.0, 1.0)


@pytest.mark.parametrize("values", [[], [0.5] * 9, [0.5] * 9 + [inf] * 20])
def test_too_few_people_make_no_bin(values):
    assert histogram(values) == Histogram((), ())


def test_equal_scores_make_one_bin():
    found = histogram([2.5] * 12)
    assert found.people == (12,)
    assert found.edges[0] <= 2.5 <= found.edges[-1]


@given(scores(min_size=0, max_size=80, infinite=True), st.integers(1, 30), st.integers(1, 12))
def test_nobody_is_lost_and_nobody_stands_alone(values, bins, fewest):
    found = histogram(values, bins=bins, fewest=fewest)
    finite = values[np.isfinite(values)]
    if len(finite) < fewest:
        assert found == Histogram((), ())
        return
    assert sum(found.people) == len(finite)
    assert min(found.people) >= fewest
    assert len(found.edges) == len(found.people) + 1
    assert list(found.edges) == sorted(set(found.edges))
    assert found.edges[0] <= finite.min() <= finite.max() <= found.edges[-1]


@pytest.mark.parametrize("wrong", [{"bins": 0}, {"fewest": 0}])
def test_no_bins_are_refused(wrong):
    with pytest.raises(InputError, match="must be at least 1"):
        histogram([1.0], **wrong)
