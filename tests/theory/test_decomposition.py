from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.quantile import weighted_quantile
from fedwqcp.theory import decompose, mixture_quantile

A = [i / 10 for i in range(1, 11)]
B = [0.05, 0.15, 0.25, 0.35, 0.45]
C = [i / 50 for i in range(1, 21)]

scores = st.lists(st.floats(-5, 5), min_size=1, max_size=30)


def test_mixture_quantile_by_hand() -> None:
    # 35 scores at alpha = 0.2: the 28th smallest; above 0.4 lie 0.45 and 0.5 to 1.0, seven in all
    assert mixture_quantile({"a": A, "b": B, "c": C}, 0.2) == 0.4


def test_mixture_quantile_has_no_float_trap() -> None:
    # in floats ten times 1 - 0.7 is a little more than three, and its ceiling four
    assert mixture_quantile({"a": A}, 0.7) == 0.3


@given(st.lists(scores, min_size=1, max_size=4), st.sampled_from([0.05, 0.1, 0.25, 0.5, 0.7]))
def test_mixture_quantile_is_the_weighted_quantile(parts: list[list[float]], alpha: float) -> None:
    N = sum(len(part) for part in parts)
    pooled = [v for part in parts for v in part]
    weights = [len(part) / N / len(part) for part in parts for _ in part]
    agents = {str(k): part for k, part in enumerate(parts)}
    assert mixture_quantile(agents, alpha) == weighted_quantile(pooled, weights, alpha)


def test_the_mixture_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="at least one score"):
        mixture_quantile({"a": []}, 0.1)
    with pytest.raises(InputError, match="at least one score"):
        mixture_quantile({}, 0.1)


def test_decompose_by_hand() -> None:
    # alpha = 0.2: FedWQ-CP gives 0.5157, the mixture quantile is 0.4
    first, second = decompose({"a": A, "b": B}, q_hat=18.05 / 35, q_mix=0.4, alpha=0.2)
    assert (first.agent, first.level, first.coverage, first.coverage_mix) == ("a", 0.8, 0.5, 0.4)
    assert (first.total, first.shift, first.aggregation) == pytest.approx((0.3, 0.4, 0.1))
    assert (second.agent, second.coverage, second.coverage_mix) == ("b", 1.0, 0.8)
    assert (second.total, second.shift, second.aggregation) == pytest.approx((0.2, 0.0, 0.2))


def test_an_infinite_threshold_covers_all() -> None:
    (found,) = decompose({"a": [1.0, 2.0]}, q_hat=inf, q_mix=1.0, alpha=0.5)
    assert (found.coverage, found.total, found.shift, found.aggregation) == (1.0, 0.5, 0.0, 0.5)


@given(scores, st.floats(-6, 6), st.floats(-6, 6), st.floats(0.01, 0.99))
def test_the_triangle_inequality_holds(
    test: list[float], q_hat: float, q_mix: float, alpha: float
) -> None:
    (found,) = decompose({"a": test}, q_hat, q_mix, alpha)
    assert found.total <= found.shift + found.aggregation + 1e-12
    assert found.coverage == pytest.approx(np.mean(np.array(test) <= q_hat))


@pytest.mark.parametrize(
    ("test", "q_hat", "q_mix", "alpha", "says"),
    [
        ([], 0.5, 0.5, 0.1, "agent 'a' has no test scores"),
        ([0.1], nan, 0.5, 0.1, "q_hat"),
        ([0.1], 0.5, nan, 0.1, "q_mix"),
        ([nan], 0.5, 0.5, 0.1, "row 0 is NaN"),
        ([0.1], 0.5, 0.5, 10, "alpha must be strictly between 0 and 1"),
    ],
)
def test_decompose_refuses(
    test: list[float], q_hat: float, q_mix: float, alpha: float, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        decompose({"a": test}, q_hat, q_mix, alpha)
