"""FedWQ-CP: the size-weighted mean of local thresholds."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import assume, given, settings

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.methods import Terms
from fedwqcp.methods.fedwq_cp import FedWQCP
from fedwqcp.wire.messages import Begin, LocalQuantile, QuantileAndTail
from refusals import raises
from strategies import alphas
from worked import ABC, samples, threshold


@pytest.mark.parametrize(
    ("overflow", "alpha", "expected"),
    [
        ("propagate", 0.2, 18.05 / 35),
        ("clip", 0.2, 0.5157142857),
        ("exclude", 0.2, 0.5157142857),
        ("propagate", 0.1, inf),
        ("clip", 0.1, 0.5671428571),
        ("exclude", 0.1, 0.5866666667),
        ("propagate", 0.05, inf),
        ("clip", 0.05, (10 * 1.0 + 5 * 0.45 + 20 * 0.40) / 35),
        ("exclude", 0.05, 0.40),
    ],
)
def test_the_worked_example(overflow: str, alpha: float, expected: float) -> None:
    assert threshold(ABC, "fedwq-cp", alpha, overflow=overflow) == pytest.approx(expected, abs=1e-9)


def test_the_pair_of_threshold_and_size_is_all_that_is_sent() -> None:
    release = fw.calibrate(ABC, method="fedwq-cp", alpha=0.2)
    assert release.received == {
        "a": (LocalQuantile(0.9, 10),),
        "b": (LocalQuantile(0.45, 5),),
        "c": (LocalQuantile(0.34, 20),),
    }
    assert (release.rounds, str(release.guarantee)) == (1, "none")


def test_an_answer_with_other_order_statistics_than_were_asked_for_is_refused() -> None:
    bare, more = LocalQuantile(0.9, 50), QuantileAndTail(0.9, 50, (10,), (0.2,))
    FedWQCP(tail=16).check(Begin(), more, None, Terms(0.1))  # a small sample sends fewer
    with raises(InputError, field="answers"):
        FedWQCP(tail=16).check(Begin(), bare, None, Terms(0.1))
    with raises(InputError, field="answers"):
        FedWQCP().check(Begin(), more, None, Terms(0.1))


@pytest.mark.guarantee(
    "fedwq-cp", "The threshold lies between the smallest and the largest local one."
)
@settings(max_examples=40)
@given(samples(infinite=True), alphas(2))
def test_it_lies_between_the_local_thresholds(agents: dict, alpha: float) -> None:
    release = fw.calibrate(agents, method=FedWQCP("clip"), alpha=alpha, allow_large_alpha=True)
    local = [fw.conformal_quantile(v, alpha, "clip") for v in agents.values() if len(v)]
    assume(local)
    assert min(local) <= release.threshold("agent-0") <= max(local)
