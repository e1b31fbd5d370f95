"""The test of one stream, against its definition and against exact laws."""

from __future__ import annotations

from itertools import product
from math import exp, inf, log, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.monitor.track import ODDS, Track, advance


def after(covered, alpha=0.1, delta=0.05, track=None):
    """Return the track after some rows."""
    hits = np.array(covered, dtype=np.int64)
    return advance(track or Track(), np.ones_like(hits), hits, alpha, delta)


def ratio(hit, alpha, c):
    """Return the likelihood ratio of one row."""
    odds = c * alpha / (1 - alpha)
    m = odds / (1 + odds)
    return (1 - m) / (1 - alpha) if hit else m / alpha


def tail(j):
    """Return the weight of all drops from row j on."""
    return 1 / (1 + log(j))


def wealth_by_definition(covered, alpha):
    """Return M as the sum over bets and over all rows at which a drop may begin."""
    rows = range(len(covered))
    laid = [
        (tail(j + 1) - tail(j + 2)) * prod(ratio(hit, alpha, c) for hit in covered[j:]) / len(ODDS)
        for j in rows
        for c in ODDS
    ]
    return sum(laid) + tail(len(covered) + 1)


def test_one_miss_by_hand():
    # the bet "twice the odds" at alpha 0.5: m = 2/3, so a miss multiplies by 4/3
    assert ratio(0, 0.5, 2.0) == pytest.approx(4 / 3)
    laid = 1 - 1 / (1 + log(2))
    expected = laid * np.mean([2 * c / (1 + c) for c in ODDS]) + 1 / (1 + log(2))
    assert exp(after([0], alpha=0.5).evidence) == pytest.approx(expected)


@given(st.lists(st.booleans(), max_size=30), st.sampled_from([0.01, 0.1, 0.5, 0.9]))
def test_evidence_is_the_mixture_over_bets_and_beginnings(covered, alpha):
    expected = wealth_by_definition(covered, alpha)
    assert exp(after(covered, alpha).evidence) == pytest.approx(expected, rel=1e-10)


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 40))
def test_batches_do_not_matter(covered, cut):
    whole = after(covered)
    parts = after(covered[cut:], track=after(covered[:cut]))
    assert (parts.n, parts.hits, parts.alarm) == (whole.n, whole.hits, whole.alarm)
    assert parts.evidence == pytest.approx(whole.evidence, abs=1e-10)
    assert parts.runs == pytest.approx(whole.runs, abs=1e-10)


@pytest.mark.parametrize("p", [0.8, 0.9, 1.0])
def test_money_does_not_grow_on_average_while_the_promise_holds(p):
    T, alpha = 10, 0.2
    mean = 0.0
    for rows in product([0, 1], repeat=T):
        chance = prod(p if hit else 1 - p for hit in rows)
        mean += chance * exp(after(rows, alpha).evidence)
    if p == 1 - alpha:
        assert mean == pytest.approx(1.0, rel=1e-9)  # a martingale: nothing is given away
    else:
        assert mean < 1.0


@pytest.mark.guarantee(
    "docs/explanation/monitoring.md",
    "the probability that *any* alarm is *ever* raised is at most delta",
)
def test_false_alarms_are_bounded_over_every_path():
    T, alpha, delta = 10, 0.3, 0.4
    alarmed = 0.0
    for rows in product([0, 1], repeat=T):
        if after(rows, alpha, delta).alarm is not None:
            alarmed += prod(1 - alpha if hit else alpha for hit in rows)
    assert 0 < alarmed <= delta


def test_counts_of_one_row_are_a_row_and_larger_ones_keep_the_mean():
    ones = after([1, 0, 1])
    single = advance(Track(), np.array([1, 1, 1]), np.array([1, 0, 1]), 0.1, 0.05)
    assert single == ones
    # a step of four rows at the promised rate: the mean over its law is 1
    T, alpha, mean = 4, 0.2, 0.0
    for rows in product([0, 1], repeat=T):
        chance = prod(1 - alpha if hit else alpha for hit in rows)
        step = advance(Track(), np.array([T]), np.array([sum(rows)]), alpha, 0.05)
        mean += chance * exp(step.evidence)
    assert mean == pytest.approx(1.0, rel=1e-9)


def test_empty_steps_change_nothing():
    track = after([1, 0])
    assert advance(track, np.array([0, 0]), np.array([0, 0]), 0.1, 0.05) is track


def test_an_alarm_names_its_row_and_the_beginning_of_the_drop():
    track = after([1] * 500 + [0] * 20, alpha=0.05)
    assert 500 < track.alarm < 520
    assert track.drop == (500, 20, 0)
    later = after([1] * 5, alpha=0.05, track=track)
    assert later.alarm == track.alarm  # it stands
    assert later.drop == (500, 25, 5)


def test_nothing_overflows():
    track = after([0] * 5000, alpha=0.001)
    assert track.alarm is not None
    assert 1000 < track.evidence < inf
    good = after([1] * 200_000, alpha=0.001)
    assert good.alarm is None
    assert -10 < good.evidence < 0
