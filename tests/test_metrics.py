"""Coverage and size by hand, exact intervals, and risks."""

from __future__ import annotations

from math import inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from fedwqcp.errors import InputError
from fedwqcp.metrics import (
    Rate,
    Risk,
    band,
    by_class,
    by_group,
    false_negatives,
    measure,
    measure_risk,
)
from fedwqcp.sets import Intervals, LabelSets

levels = st.sampled_from([0.5, 0.9, 0.95, 0.99, 1 - 2e-6])


def test_rate_by_hand() -> None:
    rate = Rate(n=10, hits=8)
    assert rate.coverage == 0.8
    assert (rate.low, rate.high) == pytest.approx((0.44390453, 0.97478927), abs=1e-8)


@pytest.mark.parametrize("n", [1, 19, 100_000])
def test_ends_are_exact_without_hits_and_without_misses(n: int) -> None:
    edge = 0.025 ** (1 / n)  # P(n hits) = p^n at the end of the interval
    none, every = Rate(n=n, hits=0), Rate(n=n, hits=n)
    assert (none.coverage, none.low, none.high) == (0.0, 0.0, pytest.approx(1 - edge, rel=1e-9))
    assert (every.coverage, every.low, every.high) == (1.0, pytest.approx(edge, rel=1e-9), 1.0)


@given(st.integers(1, 3000), st.floats(0, 1), levels)
def test_interval_agrees_with_scipy(n: int, share: float, level: float) -> None:
    hits = round(n * share)
    expected = stats.binomtest(hits, n).proportion_ci(level, method="exact")
    rate = Rate(n=n, hits=hits, level=level)
    assert (rate.low, rate.high) == pytest.approx((expected.low, expected.high), abs=1e-10)
    assert rate.low <= rate.coverage <= rate.high


@given(st.integers(1, 60), st.floats(0.01, 0.99), levels)
def test_interval_covers_at_its_level(n: int, p: float, level: float) -> None:
    rates = [Rate(n=n, hits=hits, level=level) for hits in range(n + 1)]
    held = [rate.low <= p <= rate.high for rate in rates]
    probability = stats.binom.pmf(np.arange(n + 1), n, p)[held].sum()
    assert probability >= level - 1e-9


def test_band_by_hand() -> None:
    # one calibration point, rank 1: hits are uniform on 0..9
    assert band(9, rank=1, n=1, level=0.8) == (0, 9)
    assert band(9, rank=1, n=1, level=0.7) == (1, 8)


@given(st.integers(1, 400), st.integers(1, 300), st.floats(0.01, 0.99), levels)
def test_band_agrees_with_scipy(m: int, n: int, share: float, level: float) -> None:
    rank = max(1, round(share * n))
    exact = stats.betabinom(m, rank, n + 1 - rank)
    low, high = band(m, rank, n, level)
    tail = (1 - level) / 2
    slack = 1e-9  # where the mass of a tail is the level itself, rounding decides
    assert exact.cdf(low - 1) <= tail + slack
    assert exact.cdf(low) >= tail - slack
    assert exact.sf(high) <= tail + slack
    assert exact.sf(high - 1) >= tail - slack


def test_labels_by_hand() -> None:
    mask = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]], dtype=bool)
    found = measure("a", LabelSets(mask), [0, 2, 1, 2], level=0.9)
    assert (found.agent, found.n, found.hits, found.coverage) == ("a", 4, 2, 0.5)
    assert (found.size, found.empty, found.full, found.infinite) == (1.5, 0.25, 0.25, 0.0)
    rate = Rate(n=4, hits=2, level=0.9)
    assert (found.low, found.high) == (rate.low, rate.high)


def test_intervals_by_hand() -> None:
    sets = Intervals(np.array([0.0, 1.0, 2.0]), np.array([2.0, 0.0, 2.0]))
    found = measure("a", sets, [1.0, 0.5, 2.0])
    assert (found.hits, found.size) == (2, pytest.approx(2 / 3))
    assert (found.empty, found.full, found.infinite) == (pytest.approx(1 / 3), 0.0, 0.0)


def test_infinite_lengths_have_an_infinite_mean() -> None:
    sets = Intervals(np.array([-inf, 0.0, 0.0, 0.0]), np.array([inf, inf, 1.0, 1.0]))
    found = measure("a", sets, [9.0, 9.0, 0.5, 2.0])
    assert (found.coverage, found.size, found.full, found.infinite) == (0.75, inf, 0.25, 0.5)


def test_groups_by_hand():
    sets = LabelSets(np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]], dtype=bool))
    old, young = by_group(sets, [0, 2, 1, 2], ["young", "old", "old", "young"])
    assert (old.group, old.n, old.hits, old.size) == ("old", 2, 0, 1.0)
    assert (young.group, young.n, young.hits, young.size) == ("young", 2, 2, 2.0)
    rate = Rate(n=2, hits=2)
    assert (young.low, young.high) == (rate.low, rate.high)


MASK = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0], [1, 1, 0]], dtype=bool)
LABELS = [0, 0, 1, 1, 1]


def test_by_class_by_hand() -> None:
    first, second, third = by_class(LabelSets(MASK), LABELS, level=0.9)
    assert first == Rate(n=2, hits=2, level=0.9)
    assert second == Rate(n=3, hits=2, level=0.9)
    assert (third.n, third.hits, third.low, third.high) == (0, 0, 0.0, 1.0)
    named = LabelSets(MASK, ("ill", "well", "else"))
    names = np.array(named.classes)[LABELS]
    assert by_class(named, names, level=0.9) == (first, second, third)


def test_by_size_of_labels_by_hand() -> None:
    sets = LabelSets(MASK)
    found = by_group(sets, LABELS, sets.sizes())
    assert [(s.group, s.n, s.hits) for s in found] == [("0", 1, 0), ("1", 2, 2), ("2", 2, 2)]


@given(hnp.arrays(bool, st.tuples(st.integers(1, 30), st.just(4))), st.data())
def test_strata_part_the_points(mask: np.ndarray, data: st.DataObject) -> None:
    labels = data.draw(hnp.arrays(np.int64, len(mask), elements=st.integers(0, 3)))
    sets = LabelSets(mask)
    hits = int(sets.cover(labels).sum())
    for parts in (by_class(sets, labels), by_group(sets, labels, sets.sizes())):
        assert sum(part.n for part in parts) == len(mask)
        assert sum(part.hits for part in parts) == hits


def test_rates_by_hand():
    sets = LabelSets(np.array([[1, 0, 0], [0, 0, 0], [1, 1, 1]], dtype=bool))
    labels = [[1, 1, 0], [0, 0, 0], [0, 1, 1]]
    assert false_negatives(sets, labels).tolist() == [0.5, 0.0, 0.0]
    found = measure_risk("a", sets, labels)
    assert (found.agent, found.n, found.risk) == ("a", 3, pytest.approx(1 / 6))
    assert (found.size, found.full) == (pytest.approx(4 / 3), pytest.approx(1 / 3))


NOTHING = LabelSets(np.empty((0, 2), dtype=bool))


@pytest.mark.parametrize(
    "call",
    [
        *(lambda hits=hits: Rate(n=3, hits=hits) for hits in (4, -1)),
        lambda: Rate(n=3, hits=1, level=1.0),
        *(
            lambda odd=odd: band(*odd)
            for odd in (
                (0, 1, 1, 0.9),
                (1, 0, 1, 0.9),
                (1, 1, -1, 0.9),
                (1.5, 1, 1, 0.9),
                (1, 1, 1, 95),
            )
        ),
        lambda: measure("lakeside", NOTHING, []),
        lambda: measure("lakeside", Intervals(np.empty(0), np.empty(0)), []),
        lambda: measure_risk("a", NOTHING, np.empty((0, 2))),
        lambda: by_class(NOTHING, []),
        lambda: false_negatives(LabelSets(np.ones((1, 2), bool)), [[1, 0, 1]]),
        *(
            lambda n=n, risk=risk, level=level: Risk(n=n, risk=risk, level=level)
            for n, risk, level in ((0, 0.1, 0.9), (3, 1.5, 0.9), (3, 0.1, 1))
        ),
    ],
)
def test_wrong_input_is_refused(call):
    with pytest.raises(InputError):
        call()


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
