"""FCP: an order statistic of all scores, by counts, sketches or samples."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import FedwqcpError, InputError
from fedwqcp.methods import UnfitAnswerError
from fedwqcp.methods._sketches import PooledScores, order_sketch
from fedwqcp.methods.fcp import FCP, CountAt, Counts
from strategies import alphas
from worked import (
    ABC,
    EMPTY,
    A,
    B,
    C,
    ask_agent,
    kth_smallest,
    pooled,
    refusal_of,
    samples,
    threshold,
)

EXACT = ["bisection", "exact"]
ALL = ["bisection", "order", "exact"]
RNG = np.random.default_rng(0)


def mixture_rank(agents: dict, alpha: float, M: int | None = None) -> int:
    """ceil((N + M)(1 - alpha)), in fractions."""
    M = len(agents) if M is None else M
    return ceil((len(pooled(agents)) + M) * (1 - Fraction(str(alpha))))


@pytest.mark.parametrize("sketch", EXACT)
@pytest.mark.parametrize(("alpha", "expected"), [(0.2, 0.6), (0.1, 1.0), (0.05, inf)])
def test_the_worked_example(sketch: str, alpha: float, expected: float) -> None:
    assert threshold(ABC, "fcp", alpha, sketch=sketch) == expected


@pytest.mark.parametrize("sketch", EXACT)
def test_an_empty_agent_counts(sketch: str) -> None:
    agents = {**ABC, "b": EMPTY}
    assert threshold(agents, "fcp", 0.2, sketch=sketch) == 0.7  # ceil(33 * 0.8) = 27


def test_infinite_scores() -> None:
    agents = {"a": np.array([0.1, 0.2, inf, inf]), "b": np.array([-5.0, 0.3])}
    # N = 6, M = 2: R = ceil(8 * 0.5) = 4, then ceil(8 * 0.3) = 3, then 5
    assert threshold(agents, "fcp", 0.5) == 0.3
    assert threshold(agents, "fcp", 0.7) == 0.2
    assert threshold(agents, "fcp", 0.4) == inf


def test_scores_of_any_scale() -> None:
    agents = {"a": np.array([-1.7e308, -5e-324, 0.0]), "b": np.array([5e-324, 1e-300, 1.7e308])}
    found = [threshold(agents, "fcp", alpha) for alpha in (0.9, 0.7, 0.6, 0.5, 0.4, 0.25)]
    assert found == [-1.7e308, 0.0, 5e-324, 5e-324, 1e-300, 1.7e308]


@pytest.mark.parametrize("probes", [1, 3, 15, 255])
def test_bisection_needs_few_rounds(probes: int) -> None:
    release = fw.calibrate(ABC, method=FCP(probes=probes), alpha=[0.2, 0.05])
    assert release.threshold("a", 0.2) == 0.6
    assert release.rounds <= 64 / np.log2(probes + 1) + 2
    assert release.received["a"] == (Counts(10), Counts(10))


def test_an_infinite_threshold_needs_one_round() -> None:
    assert fw.calibrate(ABC, method="fcp", alpha=0.05).rounds == 1


def test_the_exact_form_sends_every_score() -> None:
    release = fw.calibrate(ABC, method=FCP(sketch="exact"), alpha=0.2)
    assert release.received["b"] == (PooledScores(tuple(B.tolist()), (1,) * 5, 5),)


@pytest.mark.parametrize("sketch", ["bisection", "order"])
def test_other_forms_need_no_leave(sketch: str) -> None:
    agents = {name: np.linspace(0, 1, 3000) for name in "ab"}
    release = fw.calibrate(agents, method=FCP(sketch=sketch), alpha=0.1)
    assert release.threshold("a") == pytest.approx(0.9, abs=0.03)


@pytest.mark.guarantee("fcp", "give exactly s_(R).")
@settings(max_examples=30)
@given(samples(infinite=True), alphas(2), st.sampled_from(EXACT), st.integers(1, 20))
def test_it_is_the_order_statistic_of_all(
    agents: dict, alpha: float, sketch: str, probes: int
) -> None:
    expected = kth_smallest(pooled(agents), mixture_rank(agents, alpha))
    assert threshold(agents, "fcp", alpha, sketch=sketch, probes=probes) == expected


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


@settings(max_examples=30)
@given(samples(), alphas(2))
def test_it_is_at_least_the_pooled_split_threshold(agents: dict, alpha: float) -> None:
    assert threshold(agents, "fcp", alpha) >= fw.conformal_quantile(pooled(agents), alpha)


def test_splitting_an_agent_raises_the_rank() -> None:
    halves = {"a": A, "b": B, "c1": C[::2], "c2": C[1::2]}
    assert mixture_rank(halves, 0.2) == 32  # ceil(39 * 0.8), one more than for three agents
    assert (threshold(ABC, "fcp", 0.2), threshold(halves, "fcp", 0.2)) == (0.6, 0.7)


@pytest.mark.parametrize(
    ("name", "value"),
    [("sketch", "ddsketch"), ("points", 0), ("points", 2.5), ("probes", True), ("min_gap", 1)],
)
def test_settings_that_cannot_be(name: str, value: object) -> None:
    with pytest.raises(InputError):
        FCP(**{name: value})


@pytest.mark.parametrize("values", [(), (0.2, 0.1), (0.1, 0.1), (float("nan"),)])
def test_questions_that_cannot_be(values: tuple) -> None:
    with pytest.raises(InputError, match=r"^values: must"):
        CountAt(values)


@pytest.mark.parametrize(
    ("n", "counts", "field"),
    [(-1, (), "n"), (3, (2, 1), "counts"), (3, (4,), "counts"), (3, (-1,), "counts")],
)
def test_counts_that_cannot_be(n: int, counts: tuple, field: str) -> None:
    with pytest.raises(InputError, match=f"^{field}: must"):
        Counts(n, counts)


def test_counts_at_an_agent() -> None:
    question = CountAt((-1.0, 0.05, 0.3, inf))
    assert FCP().answer(fw.Calibration(B), question, 0.1, RNG) == Counts(5, (0, 1, 3, 5))


@pytest.mark.guarantee(
    "SECURITY.md", "An agent refuses questions that its method's dialogue does not ask in that step"
)
@pytest.mark.parametrize("method", [FCP(probes=2), FCP(sketch="order")])
def test_an_agent_answers_no_more_than_the_round_says(method: FCP) -> None:
    question = CountAt((0.1, 0.2, 0.3))
    with pytest.raises(FedwqcpError, match=refusal_of(method, question)):
        ask_agent(method, fw.Calibration(B), question)


@pytest.mark.parametrize(
    ("method", "answers", "position"),
    [
        (FCP(probes=2), [[Counts(10), Counts(5)], [Counts(10, (1, 2)), Counts(5, (1,))]], 1),
        (FCP(probes=2), [[Counts(10), Counts(5)], [order_sketch(A, 4, 2), Counts(5, (1, 1))]], 0),
        (FCP(sketch="order"), [[order_sketch(A, 4, 2), Counts(9)]], 1),
    ],
)
def test_an_answer_to_another_question_is_named_by_its_place(method, answers, position) -> None:
    talk = method.exchange(0.5)
    next(talk)
    for step in answers[:-1]:
        talk.send(step)
    with pytest.raises(UnfitAnswerError) as unfit:
        talk.send(answers[-1])
    assert unfit.value.position == position


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
