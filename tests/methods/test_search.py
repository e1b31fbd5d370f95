"""The order of float64 numbers as integers, and the search over it."""

from __future__ import annotations

from math import inf, log2, nextafter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedwqcp.methods import _search
from fedwqcp.methods._search import (
    LARGEST_ANSWER,
    Sums,
    count_steps,
    most_probes,
    most_steps,
    search_counts,
    search_sums,
    sums_at,
    to_key,
)
from fedwqcp.wire.messages import Question
from worked import kth_smallest

numbers = st.floats(allow_nan=False)
wild = st.one_of(numbers.filter(lambda v: v > -inf), st.integers(-3, 3).map(float))


@given(numbers, numbers)
def test_the_order_is_kept(a: float, b: float) -> None:
    assert (a < b) == (to_key(a) < to_key(b))
    assert (a == b) == (to_key(a) == to_key(b))


@given(st.floats(max_value=1.7e308, allow_nan=False, allow_infinity=False))
def test_neighbours_differ_by_one(value: float) -> None:
    assert to_key(nextafter(value, inf)) == to_key(value) + 1


def searched(scores: list[float], rank: int, probes: int) -> tuple[float, int]:
    """Run the search on one sample; the value and the number of steps."""
    talk, steps = search_counts(probes, lambda values, counts: [c >= rank for c in counts]), 0
    question = next(talk)
    while True:
        values, steps = question.values, steps + 1
        assert 1 <= len(values) <= probes
        assert list(values) == sorted(set(values))
        try:
            question = talk.send([sum(s <= v for s in scores) for v in values])
        except StopIteration as end:
            return end.value, steps


@given(st.lists(wild, min_size=1, max_size=12), st.integers(1, 12), st.integers(1, 40))
def test_it_ends_at_the_order_statistic(scores: list[float], rank: int, probes: int) -> None:
    value, steps = searched(scores, rank, probes)
    assert value == kth_smallest(scores, rank)
    assert steps <= count_steps(probes) <= 64 / log2(probes + 1) + 1


# --- many weighted quantiles at once -------------------------------------------------------------


class Probes(Question):
    """Where the search wants the sums of all agents."""

    probes: tuple[float, ...]


def held(talk, answer, most=500):
    """Hold a search to its end and return what it found."""
    question = next(talk)
    for _ in range(most):
        try:
            question = talk.send([Sums(tuple(answer(question.probes).ravel().tolist()))])
        except StopIteration as end:
            return end.value
    raise AssertionError("the search must end")


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=8), st.integers(1, 8))
def test_search_ends_at_an_order_statistic_of_any_scale(scores, rank):
    v = np.array([max(s, -1.7e308) for s in scores])
    talk = search_sums(Probes, lambda sums: sums >= rank, 1, 1)
    found = held(talk, lambda probes: sums_at(probes, v, np.ones((1, len(v)))))
    assert found.tolist() == [np.sort(v)[rank - 1] if rank <= len(v) else inf]


def test_search_ends_although_an_agent_contradicts_itself():
    rng = np.random.default_rng(0)
    talk = search_sums(Probes, lambda sums: sums[:, :1] >= [1, 2, 3], 3, 2)
    assert len(held(talk, lambda probes: rng.uniform(0, 4, size=2 * len(probes)))) == 3


@pytest.mark.parametrize("limit", [64, LARGEST_ANSWER])
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 90), st.integers(1, 70), st.integers(1, 80), st.integers(0, 2**32))
def test_search_never_asks_more_than_agents_answer(limit, problems, groups, answer_size, seed):
    rng, asked = np.random.default_rng(seed), []
    ranks = rng.integers(0, 200, size=problems)
    v = rng.random(200)

    def ask(probes):
        asked.append(len(probes))
        return Probes(probes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_search, "LARGEST_ANSWER", limit)
        talk = search_sums(
            ask, lambda sums: sums[:, :1] >= ranks, problems, groups, answer_size=answer_size
        )
        held(
            talk,
            lambda probes: np.repeat(sums_at(probes, v, np.ones((1, 200))), groups, axis=1),
            most=10_000,
        )
        assert asked[0] == max(1, answer_size // groups)
        assert max(asked) <= most_probes(problems, groups, answer_size)
        assert len(asked) <= most_steps(problems, groups)
