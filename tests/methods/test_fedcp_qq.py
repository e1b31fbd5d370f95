"""FedCP-QQ: a quantile of local quantiles."""

from __future__ import annotations

from fractions import Fraction
from math import comb, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.methods.fedcp_qq import (
    FedCPQQ,
    QuantileOfQuantiles,
    _shortfalls,
    choose_k,
    mean_coverages,
)
from worked import ABC, samples, threshold


def outcome(agents: dict, alpha: float, **settings: object) -> QuantileOfQuantiles:
    method = fw.methods.get("fedcp-qq", **settings)
    return fw.calibrate(agents, method=method, alpha=alpha, allow_large_alpha=True, rng=0).outcomes[
        0
    ]


def test_the_worked_example() -> None:
    found = outcome(ABC, 0.2)
    assert (found.value, found.k) == (0.45, 2)
    assert found.coverage == pytest.approx(0.8296594581, abs=1e-10)
    found = outcome(ABC, 0.05)
    assert (found.value, found.k, round(found.coverage, 4)) == (1.0, 3, 0.9722)


def test_the_training_conditional_choice() -> None:
    rng = np.random.default_rng(1)
    agents = {f"agent-{i}": rng.random(100) for i in range(6)}
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


def test_check_values_in_fractions() -> None:
    for rank, m, n, k, coverage in [
        (10, 5, 10, 3, Fraction(20000, 21607)),
        (4, 6, 4, 6, Fraction(24, 25)),
        (4, 3, 5, 3, Fraction(74, 91)),
    ]:
        assert exact_coverages([rank] * m, [n] * m)[k - 1] == coverage


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
    assert choose_k([n], [n], 1 - 1 / (n + 1))[0] == 1


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
    assert (k, level) == (3, pytest.approx(0.95074707543, abs=1e-9))
    assert _shortfalls(ranks, sizes, level)[k - 1] == pytest.approx(0.2, abs=1e-9)
    assert _shortfalls(ranks, sizes, 0.95)[k - 2] > 0.2 >= _shortfalls(ranks, sizes, 0.95)[k - 1]
    assert choose_k([3] * 6, [3] * 6, 0.95, delta=0.01) is None
