"""FedAvgQ-CP: the plain mean of local thresholds."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.methods.fedavgq_cp import FedAvgQCP
from fedwqcp.wire.messages import LocalQuantile
from strategies import alphas
from worked import ABC, samples, threshold


@pytest.mark.parametrize(
    ("overflow", "alpha", "expected"),
    [
        ("propagate", 0.2, 1.69 / 3),
        ("clip", 0.2, 0.5633333333),
        ("exclude", 0.2, 0.5633333333),
        ("propagate", 0.1, inf),
        ("clip", 0.1, (1.0 + 0.45 + 0.38) / 3),
        ("exclude", 0.1, (1.0 + 0.38) / 2),
        ("exclude", 0.05, 0.40),
        ("clip", 0.05, (1.0 + 0.45 + 0.40) / 3),
    ],
)
def test_the_worked_example(overflow: str, alpha: float, expected: float) -> None:
    found = threshold(ABC, "fedavgq-cp", alpha, overflow=overflow)
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.guarantee(
    "fedavgq-cp", "The threshold lies between the smallest and the largest local one."
)
@settings(max_examples=40)
@given(samples(infinite=True), alphas(2))
def test_it_lies_between_the_local_thresholds(agents: dict, alpha: float) -> None:
    local = [fw.conformal_quantile(v, alpha, "clip") for v in agents.values() if len(v)]
    assume(local)
    found = threshold(agents, "fedavgq-cp", alpha, overflow="clip")
    assert min(local) <= found <= max(local)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 7))
def test_equal_thresholds_are_kept_to_the_last_bit(q: float, m: int) -> None:
    parts = [LocalQuantile(q, n) for n in range(1, m + 1)]
    assert FedAvgQCP().aggregate(parts, 0.1).value == q
