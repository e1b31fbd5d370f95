"""FedCP-QQ: a quantile of local quantiles."""

from __future__ import annotations

from fractions import Fraction
from math import comb, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import FedwqcpError
from fedwqcp.methods.fedcp_qq import (
    FedCPQQ,
    QuantileOfQuantiles,
    RankOf,
    SampleSize,
    _shortfalls,
    choose_k,
    choose_pair,
    mean_coverages,
)
from fedwqcp.wire.messages import Begin, LocalQuantile
from worked import ABC, EMPTY, A, B, C, ask_agent, samples, threshold


class InOrder:
    """A generator that leaves everything in its place."""

    def permutation(self, values: np.ndarray) -> np.ndarray:
        return values


def outcome(agents: dict, alpha: float, **settings: object) -> QuantileOfQuantiles:
    method = fw.methods.get("fedcp-qq", **settings)
    return fw.calibrate(agents, method=method, alpha=alpha, allow_large_alpha=True, rng=0).outcomes[
        0
    ]


def test_the_worked_example() -> None:
    found = outcome(ABC, 0.2)
    assert (found.value, found.rank, found.k) == (0.45, None, 2)
    assert found.coverage == pytest.approx(0.8296594581, abs=1e-10)
    found = outcome(ABC, 0.05)
    assert (found.value, found.k, round(found.coverage, 4)) == (1.0, 3, 0.9722)


def test_the_worked_example_truncated() -> None:
    found = outcome(ABC, 0.2, selection="truncate_min")
    assert (found.rank, found.k) == (4, 3)
    assert found.coverage == pytest.approx(74 / 91, abs=1e-12)
    method = FedCPQQ(selection="truncate_min")
    first_five = [
        method.answer(fw.Calibration(v), RankOf(4, 5), 0.2, InOrder()).threshold for v in (A, B, C)
    ]
    assert (first_five, max(first_five)) == ([0.4, 0.35, 0.08], 0.4)


def test_truncation_draws_at_random_and_repeats_with_its_seed() -> None:
    method = FedCPQQ(selection="truncate_min")
    found = [fw.calibrate(ABC, method=method, alpha=0.2, rng=s).threshold("a") for s in range(20)]
    again = [fw.calibrate(ABC, method=method, alpha=0.2, rng=s).threshold("a") for s in range(20)]
    assert found == again
    assert len(set(found)) > 1
    assert fw.calibrate(ABC, method=method, alpha=0.2).rounds == 2


def test_the_training_conditional_choice() -> None:
    rng = np.random.default_rng(1)
    agents = {f"agent-{i}": rng.random(100) for i in range(6)}
    found = outcome(agents, 0.05, selection="truncate_min", delta=0.2)
    assert (found.rank, found.k) == (97, 3)
    assert found.coverage >= 0.95
    loose, strict = outcome(agents, 0.05), outcome(agents, 0.05, delta=0.01)
    assert strict.k > loose.k
    method = FedCPQQ(delta=0.2)
    assert str(method.guarantee) == "training-conditional, finite-sample"
    assert "probability 0.8" in method.assumption
    assert str(FedCPQQ().guarantee) == "marginal-iid, finite-sample"


@settings(max_examples=40)
@given(samples(infinite=True), st.sampled_from([0.1, 0.2, 0.3]))
def test_it_is_one_of_the_local_values(agents: dict, alpha: float) -> None:
    found = threshold(agents, "fedcp-qq", alpha)
    local = {fw.conformal_quantile(v, alpha, "clip") for v in agents.values() if len(v)}
    assert found in local | {inf}


@pytest.mark.parametrize(
    ("method", "sample", "question", "match"),
    [
        (FedCPQQ(selection="truncate_min"), B, RankOf(2, 6), "at most n = 5"),
        (FedCPQQ(), B, RankOf(2, 5), "asks nothing more"),
        (FedCPQQ(), EMPTY, RankOf(2, 5), "asks nothing more"),
    ],
)
def test_an_agent_answers_no_other_question(method, sample, question, match) -> None:
    with pytest.raises(FedwqcpError, match=match):
        ask_agent(method, fw.Calibration(sample), question, 0.2)


def test_the_server_goes_by_the_sizes_of_the_first_answers() -> None:
    talk = FedCPQQ(selection="truncate_min").exchange(0.2)
    assert next(talk) == Begin()
    assert talk.send([SampleSize(5), SampleSize(9), SampleSize(5)]) == RankOf(4, 5)
    with pytest.raises(StopIteration) as end:
        talk.send([LocalQuantile(0.1, 5), LocalQuantile(inf, 0), LocalQuantile(0.3, 5)])
    assert end.value.value.value == inf  # k = 3, and the second agent hides its value


def exact_coverages(ranks: list[int], sizes: list[int]) -> list[Fraction]:
    """M for every k by integer polynomials in the number of scores below the test point."""
    N = sum(sizes)
    by_successes = [{0: 1}]
    for rank, n in zip(ranks, sizes, strict=True):
        grown: list[dict[int, int]] = [{} for _ in range(len(by_successes) + 1)]
        for successes, terms in enumerate(by_successes):
            for t, ways in terms.items():
                for i in range(n + 1):
                    into = grown[successes + (i >= rank)]
                    into[t + i] = into.get(t + i, 0) + ways * comb(n, i)
        by_successes = grown
    chance = [
        sum((Fraction(ways, (N + 1) * comb(N, t)) for t, ways in terms.items()), Fraction(0))
        for terms in by_successes
    ]
    return [sum(chance[:k], Fraction(0)) for k in range(1, len(sizes) + 1)]


@pytest.mark.parametrize(
    ("m", "n", "alpha", "pair", "coverage"),
    [
        (5, 10, Fraction(1, 10), (10, 3), Fraction(20000, 21607)),
        (6, 4, Fraction(1, 20), (4, 6), Fraction(24, 25)),
        (3, 5, Fraction(1, 5), (4, 3), Fraction(74, 91)),
    ],
)
def test_check_values_in_fractions(m, n, alpha, pair, coverage) -> None:
    assert exact_coverages([pair[0]] * m, [n] * m)[pair[1] - 1] == coverage
    chosen = choose_pair(m, n, float(1 - alpha))
    assert chosen is not None
    assert (chosen.rank, chosen.k) == pair
    assert chosen.coverage == pytest.approx(float(coverage), abs=1e-12)


agents = st.lists(
    st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n))),
    min_size=1,
    max_size=4,
)


@settings(max_examples=50, deadline=None)
@given(agents)
def test_quadrature_equals_the_integers(pairs: list) -> None:
    ranks, sizes = zip(*pairs, strict=True)
    exact = [float(f) for f in exact_coverages(list(ranks), list(sizes))]
    assert mean_coverages(ranks, sizes) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("n", [9, 19, 99, 999])
def test_an_exact_hit_counts(n: int) -> None:
    # one agent: M_{l,1} = l / (n + 1), so the level 1 - 1/(n+1) is hit at l = n
    assert choose_pair(1, n, 1 - 1 / (n + 1))[:2] == (n, 1)
    assert choose_k([n], [n], 1 - 1 / (n + 1))[0] == 1
    assert choose_pair(n, 1, 1 - 1 / (n + 1))[:2] == (1, n)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 12), st.sampled_from([0.5, 0.7, 0.8, 0.9, 0.95]))
def test_the_pair_is_the_least_that_suffices(m: int, n: int, level: float) -> None:
    target = Fraction(str(level))
    table = {
        (value, rank, k): None
        for rank in range(1, n + 1)
        for k, value in enumerate(exact_coverages([rank] * m, [n] * m), start=1)
        if value >= target
    }
    chosen = choose_pair(m, n, level)
    if not table:
        assert chosen is None
    else:
        assert chosen[:2] == min(table)[1:]  # smaller M, then smaller l, then smaller k


@pytest.mark.guarantee("fedcp-qq", "With ``delta``, coverage given the calibration data")
def test_coverage_given_the_data_by_simulation() -> None:
    rng = np.random.default_rng(7)
    ranks, sizes, draws = [9, 5, 17], [10, 5, 20], 200_000
    local = [rng.beta(r, n - r + 1, draws) for r, n in zip(ranks, sizes, strict=True)]
    by_k = np.sort(local, axis=0)
    means = mean_coverages(ranks, sizes)
    assert by_k.mean(axis=1) == pytest.approx(means, abs=6 * 0.5 / np.sqrt(draws))
    short = (by_k <= 0.8).mean(axis=1)
    assert short == pytest.approx(_shortfalls(ranks, sizes, 0.8), abs=6 * 0.5 / np.sqrt(draws))


def test_the_conditional_choice_of_unequal_agents() -> None:
    ranks, sizes = [97] * 6, [100] * 6
    k, level = choose_k(ranks, sizes, 0.95, delta=0.2)
    assert (k, level) == (3, pytest.approx(choose_pair(6, 100, 0.95, delta=0.2).coverage))
    assert _shortfalls(ranks, sizes, level)[k - 1] == pytest.approx(0.2, abs=1e-9)
    assert _shortfalls(ranks, sizes, 0.95)[k - 2] > 0.2 >= _shortfalls(ranks, sizes, 0.95)[k - 1]
    assert choose_k([3] * 6, [3] * 6, 0.95, delta=0.01) is None
