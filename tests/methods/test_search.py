"""The order of float64 numbers as integers, and the search over it."""

from __future__ import annotations

from math import inf, log2, nan, nextafter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.methods import _search
from fedwqcp.methods._search import (
    ANSWER_SIZE,
    LARGEST_ANSWER,
    Sums,
    count_steps,
    from_key,
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


@given(numbers)
def test_there_and_back(value: float) -> None:
    assert from_key(to_key(value)) == value


@given(st.floats(max_value=1.7e308, allow_nan=False, allow_infinity=False))
def test_neighbours_differ_by_one(value: float) -> None:
    assert to_key(nextafter(value, inf)) == to_key(value) + 1


def test_the_ends() -> None:
    assert to_key(0.0) == to_key(-0.0) == 0
    assert to_key(inf) == -to_key(-inf) == 0x7FF0000000000000
    with pytest.raises(InputError, match="NaN"):
        to_key(nan)
    with pytest.raises(InputError, match="at most"):
        from_key(to_key(inf) + 1)


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


def test_sixteen_steps_of_fifteen_probes_span_every_float() -> None:
    assert searched([-1.7e308, 1e-320, 3.0], 2, 15) == (1e-320, 16)


@pytest.mark.parametrize(("count", "low", "high"), [(4, nextafter(1.5, 2), 2.0), (5, 1.0, 1.5)])
def test_one_probe_halves(count: int, low: float, high: float) -> None:
    talk = search_sums(Probes, lambda sums: sums >= 5, 1, 1, bounds=(1.0, 2.0), answer_size=1)
    assert next(talk).probes == (1.5,)
    (middle,) = talk.send([Sums((float(count),))]).probes
    assert to_key(middle) == (to_key(low) + to_key(high)) // 2


def test_numpy_agrees_on_the_order() -> None:
    rng = np.random.default_rng(5)
    values = rng.standard_normal(1000) * 10.0 ** rng.integers(-300, 300, 1000)
    assert np.array_equal(np.argsort(values), np.argsort([to_key(v) for v in values.tolist()]))


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


def test_search_bounds_its_questions(monkeypatch):
    """Where an answer may hold the numbers of one probe alone, one range is searched at a time."""
    monkeypatch.setattr(_search, "LARGEST_ANSWER", 512)
    groups, sizes = 512, []

    def ask(probes):
        sizes.append(len(probes))
        return Probes(probes)

    v = np.array([0.25, 0.75])
    talk = search_sums(ask, lambda sums: sums[:, :1] >= [1, 2], 2, groups, bounds=(0.0, 1.0))
    found = held(
        talk, lambda probes: np.repeat(sums_at(probes, v, np.ones((1, 2))), groups, axis=1)
    )
    assert found.tolist() == [0.25, 0.75]
    assert set(sizes) == {1}


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


def test_most_probes_by_hand():
    assert most_probes(1, 1) == ANSWER_SIZE
    assert most_probes(300, 10) == 300  # one for each problem
    assert most_probes(10 * LARGEST_ANSWER, 10) == LARGEST_ANSWER // 10
    assert most_probes(5, 2 * LARGEST_ANSWER) == 1
