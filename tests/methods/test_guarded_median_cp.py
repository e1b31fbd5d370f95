"""The weighted median that an agent takes as far as its own data allow."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.methods.guarded_median_cp import GuardedMedianCP, Proposal
from fedwqcp.quantile import conformal_quantile
from fedwqcp.wire.messages import LocalQuantile
from strategies import alphas, scores
from worked import ABC, EMPTY

HUNDREDTHS = (
    np.arange(1, 100) / 100
)  # q(a) = 1 - a for every a that is a whole number of hundredths
ANYTHING = st.floats(-1e9, 1e9) | st.just(inf)


def taken(q_hat: float, sample: np.ndarray, alpha: float, **settings: object) -> float:
    """What an agent makes of a proposal."""
    method = GuardedMedianCP(**settings)  # type: ignore[arg-type]
    return float(method.localize(Proposal(q_hat), fw.Calibration(sample), None, alpha))


@pytest.mark.parametrize(
    ("q_hat", "expected"),
    [
        (0.2, 0.9),  # never below its own threshold at 0.1
        (0.9, 0.9),
        (0.93, 0.93),  # within what its data allow
        (0.95, 0.95),
        (0.99, 0.95),  # never above its own threshold at (1 - 0.5) 0.1
        (inf, 0.95),
    ],
)
def test_a_proposal_is_moved_between_two_own_thresholds(q_hat: float, expected: float) -> None:
    assert taken(q_hat, HUNDREDTHS, 0.1, slack=0.5) == expected


def test_the_worked_example() -> None:
    # thresholds 0.9, 0.45, 0.34 with weights 10, 5, 10: the median is 0.45; c's own at 0.1 is 0.38
    release = fw.calibrate(ABC, method=GuardedMedianCP(slack=0.5), alpha=0.2)
    assert release.outcomes == (Proposal(0.45),)
    assert [release.threshold(name) for name in "abc"] == [0.9, 0.45, 0.38]
    assert release.rounds == 1


def test_an_agent_with_too_few_points_has_an_infinite_threshold_or_its_largest_score() -> None:
    few = np.array([0.1, 0.2, 0.3])
    assert taken(0.15, few, 0.1) == inf
    assert taken(0.15, few, 0.1, overflow="exclude") == inf
    assert taken(0.15, few, 0.1, overflow="clip") == 0.3
    # its own data allow 0.3 at 0.25; at 0.125 they allow anything above
    assert taken(0.7, few, 0.25, slack=0.5) == 0.7
    assert (
        fw.calibrate({**ABC, "b": EMPTY}, method="guarded-median-cp", alpha=0.2).threshold("b")
        == inf
    )


@given(
    st.dictionaries(st.sampled_from("abcd"), scores(min_size=1), min_size=1),
    st.lists(st.builds(LocalQuantile, ANYTHING, st.integers(1, 10**9)), max_size=6),
    alphas(),
    st.floats(0, 0.99),
)
def test_whatever_others_send_an_honest_threshold_lies_between_two_of_its_own(
    honest: dict[str, np.ndarray], claims: list[LocalQuantile], alpha: float, slack: float
) -> None:
    method = GuardedMedianCP(slack=slack)
    cals = {name: fw.Calibration(sample) for name, sample in honest.items()}
    answers = [method.summarize(cal, alpha) for cal in cals.values()]
    outcome = method.aggregate([*answers, *claims], alpha)
    for cal in cals.values():
        found = method.localize(outcome, cal, None, alpha)
        least = conformal_quantile(cal.scores, alpha)
        assert least <= found <= conformal_quantile(cal.scores, (1 - slack) * alpha)


def test_what_it_promises() -> None:
    assert str(GuardedMedianCP().guarantee) == "marginal-agent, finite-sample"
    assert not GuardedMedianCP(overflow="clip").guarantee


def test_without_the_agents_own_data_there_is_no_threshold() -> None:
    with pytest.raises(InputError):
        GuardedMedianCP().localize(Proposal(0.5), None, 0, 0.1)
