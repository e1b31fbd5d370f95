"""FCP: an order statistic of all scores, by counts or sketches."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.methods.fcp import FCP, CountAt, Counts
from strategies import alphas
from worked import (
    ABC,
    EMPTY,
    B,
    ask_agent,
    kth_smallest,
    pooled,
    refusal_of,
    samples,
    threshold,
)


def mixture_rank(agents: dict, alpha: float, M: int | None = None) -> int:
    """ceil((N + M)(1 - alpha)), in fractions."""
    M = len(agents) if M is None else M
    return ceil((len(pooled(agents)) + M) * (1 - Fraction(str(alpha))))


@pytest.mark.parametrize(("alpha", "expected"), [(0.2, 0.6), (0.1, 1.0), (0.05, inf)])
def test_the_worked_example(alpha: float, expected: float) -> None:
    assert threshold(ABC, "fcp", alpha) == expected


def test_an_empty_agent_counts() -> None:
    agents = {**ABC, "b": EMPTY}
    assert threshold(agents, "fcp", 0.2) == 0.7  # ceil(33 * 0.8) = 27


@pytest.mark.parametrize("probes", [1, 3, 15, 255])
def test_bisection_needs_few_rounds(probes: int) -> None:
    release = fw.calibrate(ABC, method=FCP(probes=probes), alpha=[0.2, 0.05])
    assert release.threshold("a", 0.2) == 0.6
    assert release.rounds <= 64 / np.log2(probes + 1) + 2
    assert release.received["a"] == (Counts(10), Counts(10))


@pytest.mark.guarantee("fcp", "gives exactly s_(R).")
@settings(max_examples=30)
@given(samples(infinite=True), alphas(2), st.integers(1, 20))
def test_it_is_the_order_statistic_of_all(agents: dict, alpha: float, probes: int) -> None:
    expected = kth_smallest(pooled(agents), mixture_rank(agents, alpha))
    assert threshold(agents, "fcp", alpha, probes=probes) == expected


@pytest.mark.guarantee("fcp", "never give less, and at most")
@settings(max_examples=30)
@given(samples(infinite=True), alphas(2), st.integers(1, 9), st.integers(2, 6))
def test_order_statistics_never_give_less_and_little_more(
    agents: dict, alpha: float, points: int, gap: int
) -> None:
    everything, R = pooled(agents), mixture_rank(agents, alpha)
    found = threshold(agents, "fcp", alpha, sketch="order", points=points, min_gap=gap)
    if mixture_rank(agents, alpha) > len(everything):
        assert found == inf
        return
    ranks = [[-(-j * n // m) for j in range(1, m + 1)] for n, m in _shapes(agents, points, gap)]
    slack = sum(int(np.diff([0, *r]).max()) - 1 for r in ranks if r)
    assert kth_smallest(everything, R) <= found
    assert found <= kth_smallest(everything, min(R + slack, len(everything)))


def _shapes(agents: dict, points: int, gap: int) -> list[tuple[int, int]]:
    """Sample size and number of points of each agent that has scores."""
    return [(len(v), min(points, max(1, len(v) // gap))) for v in agents.values() if len(v)]


@pytest.mark.guarantee(
    "SECURITY.md", "An agent refuses questions that its method's dialogue does not ask in that step"
)
@pytest.mark.parametrize("method", [FCP(probes=2), FCP(sketch="order")])
def test_an_agent_answers_no_more_than_the_round_says(method: FCP) -> None:
    question = CountAt((0.1, 0.2, 0.3))
    with pytest.raises(refusal_of(method, question)):
        ask_agent(method, fw.Calibration(B), question)


def test_without_correction_it_is_the_plain_quantile_and_promises_nothing():
    agents = {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.2, 0.5, 0.6, 0.7, 0.8]}
    release = fw.calibrate(agents, method=FCP(correction=False), alpha=0.3)
    assert release.threshold("a") == 0.6  # R = ceil(9 * 0.7) = 7, with M = 2 it is 8
    assert not release.guarantee


@pytest.mark.guarantee("fcp", "never give less, and at most")
def test_coarse_counts_end_where_the_sketch_of_the_same_gap_does() -> None:
    rng = np.random.default_rng(7)
    agents = {name: rng.random(n) for name, n in (("a", 40), ("b", 75), ("c", 4))}
    order = FCP(sketch="order", points=10**5, min_gap=5)
    for alpha in (0.1, 0.3):
        coarse, same, exact = (
            fw.calibrate(agents, method=method, alpha=alpha).threshold("a")
            for method in (FCP(count_gap=5), order, FCP())
        )
        assert coarse == same >= exact
