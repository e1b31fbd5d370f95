"""The private threshold: its level, its distribution, its privacy and its coverage."""

from __future__ import annotations

from decimal import Decimal, localcontext
from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedwqcp.methods._noise import (
    Mechanism,
    count_bins,
    edges_of,
    mechanism,
    noised_size,
    size_margin,
)

EXAMPLE = {"epsilon": 1.0, "bins": 1000, "gamma": 0.1, "failure": 0.01}
RARE = 1e-6


def test_the_worked_level():
    found = mechanism(1000, 0.1, **EXAMPLE)
    needed = 1001 * 0.9 / (1000 * 0.99)
    assert found.level == pytest.approx(needed + log(1e5) / (1000 * found.level), rel=1e-12)
    assert found.rate == 1.0


def test_too_few_points_have_no_level():
    """At level 1: n (1 - 0.9/0.99) >= 0.9/0.99 + log(10^5)."""
    assert mechanism(137, 0.1, **EXAMPLE) is not None
    assert mechanism(136, 0.1, **EXAMPLE) is None
    assert mechanism(0, 0.1, **EXAMPLE) is None


def probabilities(mechanism, counts):
    """Those that edges are drawn with."""
    weights = mechanism.weights(counts)
    return np.array([weight / sum(weights) for weight in weights])


def published_weights(scores, edges, q, eps_prime):
    """The formula of the source, term by term."""
    return [
        exp(
            -(eps_prime / 2)
            * max(sum(s < e for s in scores) / q, sum(s > e for s in scores) / (1 - q))
        )
        for e in edges
    ]


def test_the_distribution_is_that_of_the_source():
    scores = np.array([0.1, 0.35, 0.35, 0.6, 0.9])
    edges = edges_of(4, None)
    np.testing.assert_array_equal(edges, [0.25, 0.5, 0.75, 1.0])
    counts = count_bins(scores, edges)
    np.testing.assert_array_equal(counts, [1, 2, 1, 1])
    q, alpha, epsilon = 0.75, 0.2, 3.0
    binned = edges[np.searchsorted(edges, scores)]
    weights = published_weights(binned, edges, q, epsilon * alpha)
    exact = probabilities(Mechanism(q, epsilon * alpha / (2 * q * (1 - q))), counts)
    np.testing.assert_allclose(exact, np.array(weights) / sum(weights), rtol=1e-12)


SMALL = [
    ([1, 2, 1, 1], 0.75, 0.8),
    ([0, 0, 0, 9, 1], 0.9, 0.3),
    ([5, 0, 0, 0, 0, 0, 0, 5], 1.0, 0.2),
    ([3, 3], 0.5, 1.5),
]


@pytest.mark.slow
@pytest.mark.parametrize(("counts", "q", "rate"), SMALL)
def test_draws_follow_the_exact_distribution(counts, q, rate):
    below = [sum(counts[:at]) for at in range(len(counts))]
    above = [sum(counts[at + 1 :]) for at in range(len(counts))]
    weights = [exp(-rate * max((1 - q) * b, q * a)) for b, a in zip(below, above, strict=True)]
    rng = np.random.default_rng(7)
    draws = [Mechanism(q, rate).draw(np.array(counts), rng) for _ in range(4000)]
    found = np.bincount(draws, minlength=len(counts))
    expected = 4000 * np.array(weights) / sum(weights)
    assert expected.min() > 5
    assert stats.chisquare(found, expected).pvalue > RARE


@pytest.mark.guarantee(
    "private-fedwq-cp", "With ``size_epsilon`` it is (epsilon + size_epsilon)-private"
)
@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 0.7, 3.0])
def test_sizes_get_two_sided_geometric_noise(epsilon):
    rng = np.random.default_rng(3)
    drawn = np.array([noised_size(1000, epsilon, rng) for _ in range(4000)]) - 1000
    ratio = exp(-epsilon)
    reach = int(4 / epsilon) + 1
    exact = [(1 - ratio) / (1 + ratio) * ratio ** abs(k) for k in range(-reach, reach + 1)]
    inside = [int((drawn == k).sum()) for k in range(-reach, reach + 1)]
    found, expected = (
        np.array([*inside, 4000 - sum(inside)]),
        np.array([*exact, 1 - sum(exact)]) * 4000,
    )
    enough = expected > 5
    found = np.append(found[enough], found[~enough].sum())
    expected = np.append(expected[enough], expected[~enough].sum())
    assert stats.chisquare(found[expected > 0], expected[expected > 0]).pvalue > RARE


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=40).filter(any),
    st.floats(0.5, 1.0),
    st.floats(1e-4, 20),
)
def test_weights_are_the_exponentials_that_they_stand_for(counts, level, rate):
    below = np.cumsum(counts) - counts
    with localcontext(prec=60):
        sides = zip(below.tolist(), (sum(counts) - below - counts).tolist(), strict=True)
        r, q = Decimal(rate), Decimal(level)
        costs = [r * max((1 - q) * b, q * a) for b, a in sides]
        exact = [max((min(costs) - cost).exp(), Decimal("1e-40")) for cost in costs]
        found = Mechanism(level, rate).weights(np.array(counts))
        assert all(abs(w / (e * 10**80) - 1) < 1e-39 for w, e in zip(found, exact, strict=True))


class Fixed:
    """Random bytes that are known beforehand."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def bytes(self, size):
        return self.numbers.pop(0).to_bytes(size)


def test_noise_has_no_largest_value():
    """The smallest of 2^256 numbers passes 60 / epsilon, and is drawn again whenever it comes."""
    least, half, most = 0, 2**255 - 1, 2**256 - 1
    assert noised_size(5, 0.5, Fixed(half, most)) == 5 + 1  # log(2) / 0.5 = 1.39; log(1) = 0
    assert noised_size(5, 0.5, Fixed(least, half, most)) == 5 + 120 + 1
    assert noised_size(5, 0.5, Fixed(*[least] * 4, most, half)) == 5 + 4 * 120 - 1


@st.composite
def neighbours(draw):
    """Two samples of binned scores that differ in one, and the number of bins."""
    bins = draw(st.integers(2, 8))
    scores = draw(st.lists(st.integers(0, bins - 1), min_size=1, max_size=30))
    other = [*scores]
    other[draw(st.integers(0, len(scores) - 1))] = draw(st.integers(0, bins - 1))
    return np.bincount(scores, minlength=bins), np.bincount(other, minlength=bins)


@pytest.mark.guarantee("private-fedwq-cp", "for one calibration sample that is replaced")
@given(neighbours(), st.floats(0.5, 1.0), st.floats(0.01, 20))
def test_one_replaced_sample_moves_no_probability_by_more_than_the_rate(pair, level, rate):
    one, other = (np.log(probabilities(Mechanism(level, rate), counts)) for counts in pair)
    assert abs(one - other).max() <= rate * (1 + 1e-9) + 1e-9


@pytest.mark.guarantee(
    "private-fedwq-cp", "With ``size_epsilon`` it is (epsilon + size_epsilon)-private"
)
@given(neighbours(), st.floats(0.5, 1.0), st.floats(0.01, 20), st.integers(0, 1))
def test_one_added_sample_moves_no_probability_by_more_than_the_rate(pair, level, rate, at):
    counts = pair[0]
    more = counts + (np.arange(len(counts)) == at)
    one, other = (np.log(probabilities(Mechanism(level, rate), c)) for c in (counts, more))
    assert abs(one - other).max() <= rate * (1 + 1e-9) + 1e-9


@pytest.mark.guarantee("private-fedwq-cp", "for one calibration sample that is replaced")
@given(st.integers(1, 5000), st.floats(0.01, 0.5), st.floats(0.05, 20))
def test_the_rate_never_passes_epsilon(n, alpha, epsilon):
    found = mechanism(n, alpha, epsilon=epsilon, bins=50, gamma=0.1, failure=0.1 * alpha)
    if found is not None:
        assert 1 - alpha <= found.level <= 1
        assert 0 < found.rate <= epsilon


def test_near_level_one_the_rate_of_the_source_is_not_private():
    alpha, q, n = 0.1, 0.99, 40
    source = alpha / (2 * q * (1 - q))  # the source's eps' = eps alpha, at epsilon = 1
    low, high = np.array([n, 0]), np.array([n - 1, 1])
    one, other = (np.log(probabilities(Mechanism(q, source), counts)) for counts in (low, high))
    assert abs(one - other).max() > 2.0
    one, other = (np.log(probabilities(Mechanism(q, 1.0), counts)) for counts in (low, high))
    assert abs(one - other).max() <= 1.0


def test_a_stated_range_ends_with_infinity():
    edges = edges_of(5, (-2.0, 2.0))
    np.testing.assert_array_equal(edges, [-1, 0, 1, 2, inf])
    np.testing.assert_array_equal(
        count_bins(np.array([-9.0, -1.0, 2.0, 2.5, inf]), edges), [2, 0, 0, 1, 2]
    )


DISTRIBUTIONS = {
    "uniform": lambda rng, shape: rng.uniform(size=shape),
    "piled up at the top": lambda rng, shape: rng.beta(8, 0.5, size=shape),
    "tied": lambda rng, shape: np.ceil(rng.uniform(size=shape) * 20) / 20,
    "all in one bin": lambda rng, shape: np.full(shape, 0.9) + rng.uniform(0, 1e-4, size=shape),
}


@pytest.mark.guarantee("private-fedwq-cp", "Each agent's own threshold covers its own new points")
@pytest.mark.slow
@pytest.mark.parametrize("shape", DISTRIBUTIONS)
@pytest.mark.parametrize(("n", "epsilon"), [(300, 1.0), (60, 6.0), (1000, 0.5)])
def test_an_agent_covers_its_own_points(shape, n, epsilon):
    rng, trials = np.random.default_rng([n, len(shape)]), 3000
    edges = edges_of(200, None)
    found = mechanism(n, 0.1, epsilon=epsilon, bins=200, gamma=0.1, failure=0.01)
    hits = 0
    for _ in range(trials):
        scores = DISTRIBUTIONS[shape](rng, n + 1)
        probs = probabilities(found, count_bins(scores[:-1], edges))
        hits += scores[-1] <= edges[rng.choice(len(edges), p=probs)]
    assert stats.binom.cdf(hits, trials, 0.9) > RARE


@pytest.mark.guarantee("private-fedwq-cp", "Each agent's own threshold covers its own new points")
@pytest.mark.slow
def test_a_noised_size_keeps_the_coverage():
    rng, trials, n, alpha = np.random.default_rng(5), 3000, 400, 0.1
    edges, failure, hits = edges_of(200, None), 0.1 * alpha / 2, 0
    for _ in range(trials):
        scores = rng.uniform(size=n + 1)
        least = noised_size(n, 0.2, rng) - size_margin(0.2, failure)
        found = mechanism(least, alpha, epsilon=1.0, bins=200, gamma=0.1, failure=failure)
        probs = (
            np.eye(200)[-1]
            if found is None
            else probabilities(found, count_bins(scores[:-1], edges))
        )
        hits += scores[-1] <= edges[rng.choice(200, p=probs)]
    assert stats.binom.cdf(hits, trials, 1 - alpha) > RARE
