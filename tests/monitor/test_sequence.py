"""Confidence sequences against exact laws: the probability of ever being wrong, by recursion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedwqcp.errors import InputError
from fedwqcp.metrics import Rate
from fedwqcp.monitor import calibration_slack, confidence_sequence
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


@given(st.integers(1, 1000), st.data())
def test_hits_and_misses_mirror_each_other_and_more_hits_mean_more(n, data):
    hits = data.draw(st.integers(0, n))
    low, high = confidence_sequence(n, hits)
    mirrored = confidence_sequence(n, n - hits)
    assert (1 - mirrored[1], 1 - mirrored[0]) == pytest.approx((low, high), abs=1e-9)
    if hits < n:
        more = confidence_sequence(n, hits + 1)
        assert low <= more[0] + 1e-12
        assert high <= more[1] + 1e-12


def test_it_narrows_with_the_rows():
    widths = [np.diff(confidence_sequence(n, round(0.95 * n)))[0] for n in (20, 200, 2000, 200_000)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.005


def test_without_rows_everything_is_possible():
    assert confidence_sequence(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("n", "hits", "level"), [(3, 4, 0.95), (3, -1, 0.95), (3, 2, 1.0)])
def test_what_cannot_be_is_refused(n, hits, level):
    with pytest.raises(InputError, match="must be"):
        confidence_sequence(n, hits, level)


def test_slack_is_a_quantile_of_the_coverage_of_split_conformal():
    rng = np.random.default_rng(0)
    coverage = np.sort(rng.uniform(size=(20_000, 199)), axis=1)[:, 189]  # rank 190 of 199
    share = np.mean(coverage >= 0.95 - calibration_slack(199, 0.05, level=0.9))
    assert share == pytest.approx(0.9, abs=0.01)
    assert calibration_slack(10, 0.05) == 0.0
    with pytest.raises(InputError, match="level"):
        calibration_slack(100, 0.05, level=0.0)
    with pytest.raises(InputError, match="agents must be at least 1"):
        calibration_slack(100, 0.05, agents=0)


@pytest.mark.guarantee(
    "docs/explanation/monitoring.md",
    "with probability 0.95 no agent's coverage lies below 1 - alpha - slack",
)
@given(st.integers(1, 5000), st.floats(0.01, 0.5), st.integers(1, 500))
def test_with_the_slack_no_agent_of_a_federation_falls_short(n, alpha, agents):
    rank = conformal_rank(n, alpha)
    limit = 1 - alpha - calibration_slack(n, alpha, agents=agents)
    lucky = 1.0 if rank > n else stats.beta(rank, n + 1 - rank).sf(limit)  # coverage of one agent
    assert lucky**agents >= 0.95 - 1e-9
