"""The assessment of a round: its verdict, its errors, and what it says of each agent."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import fedwqcp as fw
from fedwqcp.quantile import (
    conformal_rank,
    insufficient_count,
    least_coverage,
    sufficient_count,
    tail_ranks,
)
from fedwqcp.theory import (
    diagnose,
    diagnose_release,
    judge,
)
from fedwqcp.wire.messages import LocalQuantile, QuantileAndTail

Q = LocalQuantile


def sent(agents, alpha, tail=16):
    """Return what agents with these scores send to FedWQ-CP."""
    method = fw.methods.get("fedwq-cp", **({"tail": tail} if tail else {}))
    return {
        f"a{k}": method.summarize(fw.Calibration(scores), alpha) for k, scores in enumerate(agents)
    }


# ---- what was wrong before


@pytest.mark.slow
@pytest.mark.parametrize("tail", [0, 16])
@pytest.mark.parametrize(("n", "M"), [(80, 6), (100, 100)])
def test_identical_agents_are_hardly_ever_called_unsafe(n: int, M: int, tail: int) -> None:
    rng = np.random.default_rng(n)
    unsafe = 0
    for _ in range(100):
        found = diagnose(sent(rng.beta(1, 6, size=(M, n)), 0.05, tail), 0.05, (0.0, 1.0))
        unsafe += found.verdict == "unsafe"
    # at most 2 % of rounds: 7 or more of 100 have probability 0.004
    assert unsafe <= 6


def test_the_designed_in_failure() -> None:
    strong, weak = 0.09, 0.9  # of scores from U(0, 0.1) and U(0, 1)
    threshold = (900 * strong + 100 * weak) / 1000
    assert threshold == pytest.approx(0.171)  # all of the strong agent's points, 0.171 of the weak
    two = diagnose({"strong": Q(strong, 900), "weak": Q(weak, 100)}, 0.1)
    assert two.verdict == "unknown"  # the weak agent's scores below 0.9 are not known
    assert two.coverage["weak"] == (0.0, pytest.approx(0.96, abs=0.02))
    rng = np.random.default_rng(0)
    more = diagnose(sent([rng.uniform(0, 0.1, 900), rng.uniform(0, 1, 100)], 0.1), 0.1)
    assert more.verdict == "unsafe"
    assert more.short == ("a1",)


# ---- the tests behind the verdict


@given(st.integers(1, 400), st.sampled_from([0.02, 0.05, 0.1, 0.4, 0.8]), st.integers(1, 300))
def test_critical_counts_are_those_of_the_binomial(n: int, alpha: float, M: int) -> None:
    bar = least_coverage(alpha)
    assert 0 < bar < 1 - alpha
    c = sufficient_count(n, bar)
    assert binom.sf(c - 1, n, bar) <= 0.05 * (1 + 1e-9)
    assert c == 0 or binom.sf(c - 2, n, bar) > 0.05 * (1 - 1e-9)
    few = insufficient_count(n, bar, 0.02 / M)
    assert few == -1 or binom.cdf(few, n, bar) <= 0.02 / M * (1 + 1e-9)
    assert binom.cdf(few + 1, n, bar) > 0.02 / M * (1 - 1e-9)


def test_a_tail_decides_as_the_whole_sample_would() -> None:
    rng = np.random.default_rng(0)
    verdicts = set()
    for _ in range(60):
        scale = rng.choice([1.0, 1.02, 1.1, 1.5])
        agents = [rng.uniform(size=1000) * (scale if k else 1) for k in range(4)]
        found = diagnose(sent(agents, 0.1), 0.1)
        counts = [int((scores <= found.threshold).sum()) for scores in agents]
        assert found.verdict == str(judge(counts, counts, [1000] * 4, 0.1))
        verdicts.add(found.verdict)
    assert verdicts == {"safe", "unsafe", "unknown"}


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    st.sampled_from([0.05, 0.1, 0.3]),
    st.integers(0, 2**32 - 1),
)
def test_bounds_hold_the_counts_of_the_sample(sizes: list[int], alpha: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    agents = [np.round(rng.uniform(size=n), 1) for n in sizes]  # many ties
    found = diagnose(sent(agents, alpha, 0), alpha)
    sharper = diagnose(sent(agents, alpha), alpha)
    assert set(found.coverage) == set(sharper.coverage)
    for k, scores in enumerate(agents):
        share = (scores <= found.threshold).mean()
        for low, high in (found.coverage[f"a{k}"], sharper.coverage[f"a{k}"]):
            assert low <= share <= high or found.threshold == inf
        assert sharper.coverage[f"a{k}"][0] >= found.coverage[f"a{k}"][0]
        assert sharper.coverage[f"a{k}"][1] <= found.coverage[f"a{k}"][1]


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(25, 9999)), min_size=2, max_size=9))
def test_two_numbers_an_agent_show_little_unless_all_thresholds_are_equal(agents) -> None:
    found = diagnose({f"a{k}": Q(q, n) for k, (q, n) in enumerate(agents)}, 0.05)
    if len({q for q, _ in agents}) > 1:
        assert found.verdict == "unknown"
        assert max(1 - least for least, _ in found.coverage.values()) == 1
        return
    enough = all(conformal_rank(n, 0.05) >= sufficient_count(n, 0.925) for _, n in agents)
    assert found.verdict == ("safe" if enough else "unknown")


@pytest.mark.parametrize(("n", "alpha"), [(9, 0.1), (20, 0.05), (19, 0.2)])
def test_equal_thresholds_of_tied_scores_are_not_called_safe_by_chance(
    n: int, alpha: float
) -> None:
    # all but one agent have scores up to 1 alone, that one has too many of 2: q_k is 1 at all of
    # them with the probability of a binomial tail, up to 0.2, and 1 covers too little there
    bar, r = least_coverage(alpha), conformal_rank(n, alpha)
    assert binom.sf(r - 1, n, bar - 0.01) > 0.05, "so the case is one"
    tail = tail_ranks(n, alpha, 16)
    agents = {f"a{k}": QuantileAndTail(1.0, n, tail, (1.0,) * len(tail)) for k in range(3)}
    assert diagnose(agents, alpha).verdict == "unknown"
    assert diagnose(agents, alpha, (0.0, 1.0)).verdict == "safe", "no score is larger than 1"


def test_one_byzantine_agent_cannot_have_another_called_safe() -> None:
    rng = np.random.default_rng(0)
    honest = sent([rng.uniform(size=900) for _ in range(4)], 0.1)
    for claim in (0.0, 0.5):
        byzantine = QuantileAndTail(claim, 10**6, (10**5, 850_588), (claim, claim))
        found = diagnose({**honest, "byzantine": byzantine}, 0.1, (0.0, 1.0))
        assert found.verdict == "unsafe"
        assert set(found.short) == set(honest)


# ---- of groups


def test_nothing_finite_is_unsafe_and_the_agents_that_sent_it_are_named() -> None:
    assert diagnose({"a": Q(inf, 0)}, 0.1).verdict == "unsafe"
    found = diagnose({"a": Q(0.5, 100), "b": Q(inf, 5)}, 0.1)
    assert (found.verdict, found.infinite) == ("unsafe", ("b",))
    left_out = diagnose({"a": Q(0.5, 100), "b": Q(inf, 5)}, 0.1, overflow="exclude")
    assert (left_out.verdict, left_out.threshold) == ("unknown", 0.5)


def test_a_round_is_judged_in_each_group_and_by_its_worst_column() -> None:
    rng = np.random.default_rng(0)
    cals = {
        "a": fw.Calibration(rng.uniform(size=400), groups=["f", "m"] * 200),
        "b": fw.Calibration(rng.uniform(size=400) ** 9, groups=["f", "m"] * 200),
    }
    method = fw.methods.get("fedwq-cp", tail=16)
    release = fw.calibrate(cals, method=method, alpha=0.1, by="group")
    found = diagnose_release(release, 0.1)
    assert set(found) == {"f", "m"}
    assert {own.verdict for own in found.values()} == {"unsafe"}
    assert diagnose_release(fw.calibrate(cals, alpha=0.1), 0.1) == {}
