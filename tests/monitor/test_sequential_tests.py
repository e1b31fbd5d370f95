"""Confidence sequences against exact distributions: the chance of ever being wrong."""

from __future__ import annotations

from itertools import permutations, product
from math import exp, log, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedwqcp.errors import InputError
from fedwqcp.metrics import Rate
from fedwqcp.monitor import calibration_slack, confidence_sequence
from fedwqcp.monitor.sequential_tests import (
    ODDS,
    SLOPES,
    BettingTest,
    advance,
    coverage_bets,
    rank_bets,
    ranks,
)
from fedwqcp.quantile import conformal_rank


def ever_wrong(chances, level):
    """Return the probability that an interval misses the mean so far, at some time."""
    alive = np.array([1.0])  # by hits, never wrong until now
    wrong = 0.0
    for n, p in enumerate(chances, 1):
        alive = np.append(alive * (1 - p), 0.0) + np.append(0.0, alive * p)
        mean = float(np.mean(chances[:n]))
        for hits in np.flatnonzero(alive > 0):
            low, high = confidence_sequence(n, int(hits), level)
            if not low <= mean <= high:
                wrong += alive[hits]
                alive[hits] = 0.0
    return wrong


@pytest.mark.parametrize(
    "chances",
    [[0.5] * 30, [0.9] * 40, [0.02] * 60, [0.99] * 10 + [0.4] * 20, [0.2, 0.9] * 15],
    ids=["half", "most", "few", "a drop", "to and fro"],
)
def test_the_sequence_is_wrong_as_seldom_as_it_says(chances):
    assert 0 < ever_wrong(chances, level=0.6) <= 0.4
    assert ever_wrong(chances, level=0.95) <= 0.05


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_it_holds_the_mean_and_is_wider_than_an_interval_for_one_look(n, share):
    hits = round(n * share)
    low, high = confidence_sequence(n, hits)
    once = Rate(n=n, hits=hits)
    assert 0 <= low <= hits / n <= high <= 1
    assert low <= once.low + 1e-12
    assert once.high - 1e-12 <= high


def test_slack_is_a_quantile_of_the_coverage_of_split_conformal():
    rng = np.random.default_rng(0)
    coverage = np.sort(rng.uniform(size=(20_000, 199)), axis=1)[:, 189]  # rank 190 of 199
    share = np.mean(coverage >= 0.95 - calibration_slack(199, 0.05, level=0.9))
    assert share == pytest.approx(0.9, abs=0.01)
    assert calibration_slack(10, 0.05) == 0.0
    with pytest.raises(InputError, match="level"):
        calibration_slack(100, 0.05, level=0.0)
    with pytest.raises(InputError):
        calibration_slack(100, 0.05, agents=0)


@given(st.integers(1, 5000), st.floats(0.01, 0.5), st.integers(1, 500))
def test_with_the_slack_no_agent_of_a_federation_falls_short(n, alpha, agents):
    rank = conformal_rank(n, alpha)
    limit = 1 - alpha - calibration_slack(n, alpha, agents=agents)
    lucky = 1.0 if rank > n else stats.beta(rank, n + 1 - rank).sf(limit)  # coverage of one agent
    assert lucky**agents >= 0.95 - 1e-9


def steps(test, sizes, hits, alpha=0.1, delta=0.05, batch=""):
    """Return the test after some steps."""
    sizes, hits = np.array(sizes, dtype=np.int64), np.array(hits, dtype=np.int64)
    bets = coverage_bets(sizes, hits, alpha)
    return advance(test or BettingTest.begin(), bets, sizes, hits, delta=delta, batch=batch)


def after(covered, alpha=0.1, delta=0.05, test=None, batch=""):
    """Return the test after some rows."""
    return steps(test, [1] * len(covered), covered, alpha, delta, batch)


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


@given(st.lists(st.booleans(), max_size=30), st.sampled_from([0.01, 0.1, 0.5, 0.9]))
def test_evidence_is_the_mixture_over_bets_and_beginnings(covered, alpha):
    expected = wealth_by_definition(covered, alpha)
    assert exp(after(covered, alpha).evidence) == pytest.approx(expected, rel=1e-10)


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 40))
def test_batches_do_not_matter(covered, cut):
    whole = after(covered)
    parts = after(covered[cut:], test=after(covered[:cut]))
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


def test_false_alarms_are_bounded_over_every_path():
    T, alpha, delta = 10, 0.3, 0.4
    alarmed = 0.0
    for rows in product([0, 1], repeat=T):
        if after(rows, alpha, delta).alarm is not None:
            alarmed += prod(1 - alpha if hit else alpha for hit in rows)
    assert 0 < alarmed <= delta


def test_an_alarm_names_its_row_its_batch_and_the_beginning_of_the_drop():
    good = after([1] * 300, alpha=0.05, batch="w1")
    good = after([1] * 200, alpha=0.05, test=good, batch="w2")
    test = after([0] * 20, alpha=0.05, test=good, batch="w3")
    assert 500 < test.alarm < 520
    assert (test.drop, test.since) == ((500, 20, 0), "w3")
    later = after([1] * 5, alpha=0.05, test=test, batch="w4")
    assert later.alarm == test.alarm  # it stands
    assert (later.drop, later.since) == ((500, 25, 5), "w3")
    within = after([1] * 30 + [0] * 20, alpha=0.05, test=good, batch="w3")
    assert (within.drop[0], within.since) == (530, "w3")
    after_it = after([0] * 2, alpha=0.05, test=within, batch="w4")
    assert (after_it.drop[0], after_it.since) == (530, "w4")  # 30 of 50 rows of w3 were before
    halfway = after([1] * 30 + [0] * 30, alpha=0.05, test=good, batch="w3")
    assert after([0] * 2, alpha=0.05, test=halfway, batch="w4").since == "w3"


# Inputs -------------------------------------------------------------------------------------------


def test_ranks_of_exchangeable_values_are_independent_and_uniform():
    """The mean wealth over all orders is 1 for every bet: a bet is linear in each rank."""
    values, known = [1.0, 1.0, 2.0, 3.0, 3.0], {1.0: 0}
    half = np.full(5, 0.5)
    wealth = [
        np.exp(rank_bets(ranks(known, np.array(order), half)[0]).sum(axis=0))
        for order in permutations(values)
    ]
    assert np.mean(wealth, axis=0) == pytest.approx(np.ones(len(SLOPES)), rel=1e-12)


@pytest.mark.parametrize("kind", ["continuous", "sizes"])
def test_inputs_that_do_not_change_alarm_at_most_as_seldom_as_delta(kind):
    """Ville: of 1,000 streams at delta 0.2 no more alarm than chance explains (0.999)."""
    rng, delta, alarms = np.random.default_rng(1), 0.2, 0
    for _ in range(1000):
        rows = rng.normal(size=350) if kind == "continuous" else rng.poisson(1.5, size=350) * 1.0
        _, known = ranks({}, rows[:50], rng.uniform(size=50))
        p, _ = ranks(known, rows[50:], rng.uniform(size=300))
        ones = np.ones(300, dtype=np.int64)
        test = advance(BettingTest.begin(len(SLOPES)), rank_bets(p), ones, 0 * ones, delta=delta)
        alarms += test.alarm is not None
    assert 20 < alarms <= stats.binom(1000, delta).ppf(0.999)
