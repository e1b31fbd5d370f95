"""Rob-FCP: FCP without the agents that are least like the others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.methods import Terms
from fedwqcp.methods._search import CountAt, Counts
from fedwqcp.wire.messages import Begin
from fedwqcp_lab.plugins.rob_fcp import (
    RobFCP,
    RobustThreshold,
    Span,
    bin_edges,
    by_maliciousness,
    copies,
    coverage_loss,
    estimated_byzantine,
)
from refusals import raises
from strategies import alphas
from worked import ABC, samples, threshold


def honest(count: int = 4, n: int = 60, seed: int = 0) -> dict[str, np.ndarray]:
    """Agents whose scores are uniform."""
    rng = np.random.default_rng(seed)
    return {f"h{k}": rng.random(n) for k in range(count)}


def outcome(agents: dict, alpha: float = 0.1, **given_settings: object) -> RobustThreshold:
    method = RobFCP(**given_settings)
    return fw.calibrate(agents, method=method, alpha=alpha, allow_large_alpha=True).outcomes[0]


def test_edges_cut_the_middle_and_leave_the_ends_open() -> None:
    assert bin_edges(0.0, 1.0, 6) == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert bin_edges(-1.0, 3.0, 3) == (-1.0, 3.0)
    assert bin_edges(2.0, 2.0, 20) == (2.0,)  # no room
    assert all(np.isfinite(bin_edges(-1.7e308, 1.7e308, 20)))


def test_maliciousness_sums_the_nearest_not_the_largest() -> None:
    # on a line: 0, 1, 2, 10, 11; with two Byzantine agents, sums to the two nearest others are
    # 1 + 2, 1 + 1, 1 + 2, 1 + 8, 1 + 9
    v = np.array([[0.0], [1.0], [2.0], [10.0], [11.0]])
    assert by_maliciousness(v, 2) == [1, 0, 2, 3, 4]
    # the sum of all distances, or of the largest, would take 2 for the best
    assert by_maliciousness(v, 0) == [2, 1, 0, 3, 4]


def test_the_estimate_is_the_likeliest_number() -> None:
    good, byzantine = np.eye(5) / 10 + 0.18, np.eye(5)
    assert estimated_byzantine(np.vstack([good, byzantine[:1]]), 2) == 1
    assert estimated_byzantine(np.vstack([good, byzantine[:2]]), 3) == 2
    assert estimated_byzantine(good, 0) == 0
    assert estimated_byzantine(np.full((5, 2), 0.5), 2) == 1  # nobody stands apart: the smallest


def test_whole_answers_that_return_are_copies() -> None:
    counts = np.array([[3.0, 9.0], [2.0, 9.0], [3.0, 9.0], [3.0, 9.0]])
    assert copies(counts, [20, 20, 20, 20], fewest=20) == [2, 3]
    assert copies(counts, [20, 20, 20, 21], fewest=20) == [2]
    assert copies(counts, [19, 20, 19, 19], fewest=20) == []


@pytest.mark.parametrize(
    ("bins", "n", "good", "byzantine", "expected"),
    [
        # z at 1 - 0.05 / (2 * 10 * 5) = 0.9995 is 3.2905; 10 * 3.2905 / 2000 = 0.016453
        (10, 10**6, 5, 0, 0.016453),
        (10, 10**6, 5, 1, 0.016453 * 1.5),  # tau = 0.2: 1 + 0.4 / 0.8
        (20, 10_000, 4, 2, 1.0),  # 1.03 says nothing
        (20, 10**6, 2, 2, 1.0),
    ],
)
def test_the_stated_loss(bins: int, n: int, good: int, byzantine: int, expected: float) -> None:
    assert coverage_loss(bins, n, good, byzantine) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    "claim",
    [np.zeros(60), np.ones(60) * 50, np.zeros(6000), np.linspace(0, 0.3, 60)],
    ids=["low", "high", "huge", "third"],
)
@pytest.mark.parametrize("where", [0, 2, 5])
def test_two_byzantine_agents_of_six_are_left_out(claim: np.ndarray, where: int) -> None:
    good = list(honest().values())
    agents = [*good[:where], claim, claim[1:], *good[where:]]
    found = outcome({f"a{k}": scores for k, scores in enumerate(agents)}, byzantine=2)
    assert found.left_out == (min(where, 4), min(where, 4) + 1)
    assert found.value == threshold(honest(), "fcp", 0.1)


def test_an_odd_honest_agent_is_left_out_in_place_of_one_that_looks_honest() -> None:
    odd, attacker = 0.8 + honest(1, seed=9)["h0"] / 5, honest(1, seed=8)["h0"]
    agents = {**honest(), "odd": odd, "attacker": attacker}
    assert outcome(agents, byzantine=1).left_out == (4,)
    assert outcome({**honest(), "odd": odd, "attacker": np.zeros(60)}, byzantine=1).left_out == (5,)


def test_an_exact_copy_counts_once() -> None:
    good = honest()
    found = outcome({**good, "copy": good["h1"]}, byzantine=1, cap=10**6)
    assert 4 in found.left_out
    assert len(found.left_out) == 2  # agents that agree may be honest, so the search goes on


def test_agents_that_all_agree_are_no_copies() -> None:
    grid = np.arange(1, 61) / 60
    found = outcome(dict.fromkeys("abcde", grid) | {"attacker": np.zeros(60)}, byzantine=1)
    assert found.left_out == (5,)
    assert found.value == 55 / 60  # R = ceil(305 * 0.9) = 275 of 300, the 55th of sixty


def test_the_loss_is_that_of_the_samples_that_are_kept() -> None:
    """An agent that is left out cannot make the bound say nothing by claiming few scores."""
    rng = np.random.default_rng(1)
    good = {f"h{k}": rng.random(20_000) for k in range(4)}
    found = outcome({**good, "attacker": np.zeros(5)}, byzantine=1, bins=5)
    assert found.left_out == (4,)
    assert found.loss == coverage_loss(5, 20_000, honest=4, byzantine=1) < 1


def test_a_large_agent_counts_like_the_median_one() -> None:
    # sizes 10, 5, 20: cap 10, weights 10, 5, 10 and counts of c halved, rounded down
    # N = 25, M = 3, R = ceil(28 * 0.8) = 23: of a 10, b 5 and c 10 the value 0.8 has 8 + 5 + 10
    assert outcome(ABC, 0.2, byzantine=0).value == 0.8


@settings(max_examples=30)
@given(samples(min_size=1), alphas(2))
def test_without_byzantine_agents_and_cap_it_is_fcp(agents: dict, alpha: float) -> None:
    found = outcome(agents, alpha, byzantine=0, cap=1000)
    assert found.value == threshold(agents, "fcp", alpha)


def step(method: RobFCP, *answers: list) -> object:
    talk = method.exchange(0.1)
    next(talk)
    for each in answers[:-1]:
        talk.send(each)
    return talk.send(answers[-1])


SPANS = [Span(0.1, 0.9, 50) for _ in range(3)]


def test_the_range_is_the_median_of_the_agents_spans() -> None:
    spans = [Span(0.1, 0.8, 9), Span(0.2, 0.9, 9), Span(-1e9, 1e9, 9)]
    assert step(RobFCP(bins=3), spans) == CountAt((0.1, 0.9))


def test_an_agent_is_bound_to_its_histogram() -> None:
    method = RobFCP(bins=3, probes=1, byzantine=0)
    bound = method.check(Begin(), SPANS[0], None, Terms(0.1))
    edges = CountAt((0.1, 0.9))
    bound = method.check(edges, Counts(50, (5, 46)), bound, Terms(0.1))
    with raises(InputError, field="n"):
        method.check(CountAt((0.05,)), Counts(49, (5,)), bound, Terms(0.1))
    with raises(InputError, field="counts"):
        method.check(CountAt((0.05,)), Counts(50, (6,)), bound, Terms(0.1))
    method.check(CountAt((0.05,)), Counts(50, (4,)), bound, Terms(0.1))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Span, {"low": 0.5, "high": 0.4, "n": 3}),
        (Span, {"low": 0.5, "high": float("nan"), "n": 3}),
        (Span, {"low": 0.5, "high": 0.6, "n": -1}),
        (RobustThreshold, {"value": 0.5, "left_out": (-1,), "loss": 0.2}),
        (RobustThreshold, {"value": 0.5, "left_out": (), "loss": 1.2}),
        (RobFCP, {"bins": 2}),
        (RobFCP, {"probes": 0}),
        (RobFCP, {"byzantine": -1}),
        (RobFCP, {"cap": 0}),
    ],
)
def test_what_cannot_be(kind: type, fields: dict) -> None:
    with pytest.raises(InputError):
        kind(**fields)


@pytest.mark.slow
@pytest.mark.parametrize("lie", [0.0, 1.0, 0.5])
def test_the_loss_bounds_what_byzantine_agents_cost(lie):
    """Few bins and large samples make the stated loss less than what the attack would cost."""
    rng, n, runs = np.random.default_rng(3), 100_000, 10
    broken = 0
    for _ in range(runs):
        honest = {f"h{k}": rng.uniform(size=n) for k in range(4)}
        other = rng.uniform(size=(2, n))  # exact copies of each other would be told apart
        attack = {f"b{k}": np.where(other[k] > 0.01, lie, 100 * other[k]) for k in range(2)}
        release = fw.calibrate({**honest, **attack}, method=RobFCP(2, bins=3), alpha=0.1)
        loss = release.outcomes[0].loss
        assert 0 < loss < 0.045  # with the attack in, FCP misses 0.9 by more
        broken += abs(release.threshold("h0") - 0.9) > loss
    assert broken < 7  # 7 or more of Binomial(10, 0.05) come less than once in a million
