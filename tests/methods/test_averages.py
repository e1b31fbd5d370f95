"""The mean of thresholds is the exact ratio of two sums, rounded once."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedwqcp.methods._averages import weighted_mean

finite = st.floats(allow_nan=False, allow_infinity=False)
weight = st.one_of(st.integers(1, 10**7), st.integers(1, 2**63 - 1), st.integers(1, 10**30))


def by_definition(values, weights):
    """The same in fractions."""
    pairs = zip(values, weights, strict=True)
    return float(sum(Fraction(v) * w for v, w in pairs) / sum(weights))


@example([(0.1, 1), (0.2, 2**63)])
@example([(0.1, 2**63 - 1), (0.2, 2**63)])
@given(st.lists(st.tuples(finite, weight), min_size=1, max_size=30))
def test_it_is_the_ratio_of_exact_sums(pairs):
    values, weights = zip(*pairs, strict=True)
    assert weighted_mean(values, weights) == by_definition(values, weights)


@pytest.mark.parametrize("sign", [1, -1])
def test_long_runs_of_the_largest_parts_do_not_overflow(sign):
    largest = sign * np.nextafter(2.0, 1.0)  # a mantissa of ones
    values, weights = np.full(10_000, largest), np.full(10_000, 2**48 - 1)
    values[::7] /= 4
    expected = by_definition(values.tolist(), weights.tolist())
    assert weighted_mean(values, weights) == expected


def test_nothing_and_infinity():
    assert weighted_mean([], []) == inf
    assert weighted_mean([0.5, inf], [10**9, 1]) == inf
