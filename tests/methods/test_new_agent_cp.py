"""Thresholds for an agent that took no part."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from worked import ABC, EMPTY, threshold


def by_hand(samples: list[list[float]], alpha: Fraction) -> float:
    """Return the smallest score at which the mean of M + 1 shares reaches 1 - alpha."""
    for q in sorted({v for sample in samples for v in sample}):
        shares = [Fraction(sum(v <= q for v in s), len(s)) for s in samples if s]
        if sum(shares) >= (1 - alpha) * (len(samples) + 1):
            return q
    return inf


def test_four_agents_by_hand() -> None:
    agents = {"a": [0.1, 0.2], "b": [0.3], "c": [0.1, 0.4, 0.5, 0.6], "d": [0.2, 0.9]}
    # shares must sum to (1 - 0.4) * 5 = 3: at 0.4 they are 1 + 1 + 1/2 + 1/2, if all were known;
    # order statistics one in two: a 0.2, b 0.3, c 0.4 and 0.6, d 0.9; 0.4 still has 1 + 1 + 1/2 + 0
    assert threshold(agents, "new-agent-cp", 0.4, min_gap=2) == 0.6
    assert threshold(agents, "new-agent-cp", 0.1, min_gap=2) == inf  # 4.5 of 4


@pytest.mark.parametrize(
    ("M", "alpha", "finite"), [(8, 0.1, False), (9, 0.1, True), (4, 0.2, True)]
)
def test_from_how_many_agents_it_is_finite(M: int, alpha: float, finite: bool) -> None:
    agents = {f"a{k}": [0.1 * k, 0.5] for k in range(M)}
    assert (threshold(agents, "new-agent-cp", alpha) < inf) == finite
    assert (threshold(agents, "new-agent-cp", 0.4, form="confident", delta=alpha) < inf) == finite


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 9).map(float), max_size=7), min_size=1, max_size=6),
    st.integers(1, 99),
    st.integers(2, 4),
)
def test_order_statistics_never_give_less(samples, percent, gap) -> None:
    agents = {f"a{k}": sample for k, sample in enumerate(samples)}
    exact = by_hand(samples, Fraction(percent, 100))
    alpha = percent / 100
    assert threshold(agents, "new-agent-cp", alpha, min_gap=gap) >= exact
    assert threshold(agents, "new-agent-cp", alpha, min_gap=gap, points=1) >= exact


def test_an_agent_without_points_still_counts() -> None:
    agents = {f"a{k}": [0.1] for k in range(9)}
    assert threshold(agents, "new-agent-cp", 0.1) == 0.1
    for form in ("marginal", "confident"):
        assert threshold({**agents, "a0": EMPTY}, "new-agent-cp", 0.1, form=form) == inf


def test_the_worked_example_with_confidence() -> None:
    # local thresholds at 0.2: 0.9, 0.45, 0.34; ceil(0.6 * 4) = 3, ceil(0.5 * 4) = 2
    assert threshold(ABC, "new-agent-cp", 0.2, form="confident", delta=0.4) == 0.9
    assert threshold(ABC, "new-agent-cp", 0.2, form="confident", delta=0.5) == 0.45
    assert threshold(ABC, "new-agent-cp", 0.2, form="confident", delta=0.1) == inf


def test_a_byzantine_agent_weighs_one_of_the_agents() -> None:
    rng = np.random.default_rng(2)
    honest = {f"a{k}": rng.random(30) for k in range(19)}
    for bad in (np.zeros(10_000), np.full(10_000, 1.0)):
        found = threshold({**honest, "byzantine": bad}, "new-agent-cp", 0.2)
        # its share of the sum is at most 1, which alpha +- 1/20 allows for among the honest
        low = threshold(honest, "new-agent-cp", 0.2 + 0.05)
        high = threshold(honest, "new-agent-cp", 0.2 - 0.05)
        assert low <= found <= high
    own = sorted(fw.conformal_quantile(v, 0.2) for v in honest.values())
    for bad in ([-1e9] * 50, [1e9] * 50):
        found = threshold({**honest, "b": bad}, "new-agent-cp", 0.2, form="confident", delta=0.2)
        assert own[15] <= found <= own[17]  # rank ceil(0.8 * 21) = 17 of 20
