"""False-negative rates with an interval that holds for any law of the losses."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.metrics import Rate, Risk, false_negatives, measure_risk
from fedwqcp.sets import LabelSets


def test_rates_by_hand():
    sets = LabelSets(np.array([[1, 0, 0], [0, 0, 0], [1, 1, 1]], dtype=bool))
    labels = [[1, 1, 0], [0, 0, 0], [0, 1, 1]]
    assert false_negatives(sets, labels).tolist() == [0.5, 0.0, 0.0]
    found = measure_risk("a", sets, labels)
    assert (found.agent, found.n, found.risk) == ("a", 3, pytest.approx(1 / 6))
    assert (found.size, found.full) == (pytest.approx(4 / 3), pytest.approx(1 / 3))


def test_the_ends_without_losses_by_hand():
    # kl(0, m) = -log(1 - m): the upper end solves (1 - m)^n = (1 - level) / 2
    risk = Risk(n=50, risk=0.0, level=0.9)
    assert risk.low == 0
    assert risk.high == pytest.approx(1 - 0.05 ** (1 / 50), abs=1e-12)
    assert Risk(n=50, risk=1.0, level=0.9).low == pytest.approx(0.05 ** (1 / 50), abs=1e-12)


@given(n=st.integers(1, 500), share=st.floats(0, 1), level=st.sampled_from([0.8, 0.95, 0.999]))
def test_ends_lie_where_the_entropy_says_and_hold_the_exact_interval_of_coins(n, share, level):
    hits = round(share * n)
    risk, exact = Risk(n=n, risk=hits / n, level=level), Rate(n=n, hits=hits, level=level)
    assert risk.low - 1e-12 <= exact.low <= risk.risk <= exact.high <= risk.high + 1e-12
    for end in (risk.low, risk.high):
        if 0 < end < 1 and 0 < hits < n:
            p = hits / n
            kl = p * log(p / end) + (1 - p) * log((1 - p) / (1 - end))
            assert kl == pytest.approx(log(2 / (1 - level)) / n, rel=1e-6)


def test_wrong_input_is_refused():
    with pytest.raises(InputError, match="no test points"):
        measure_risk("a", LabelSets(np.empty((0, 2), bool)), np.empty((0, 2)))
    with pytest.raises(InputError, match="shape"):
        false_negatives(LabelSets(np.ones((1, 2), bool)), [[1, 0, 1]])
    for wrong in ({"n": 0, "risk": 0.1}, {"n": 3, "risk": 1.5}, {"n": 3, "risk": 0.1, "level": 1}):
        with pytest.raises(InputError):
            Risk(**wrong)
