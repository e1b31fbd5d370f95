"""The largest of the local thresholds."""

from __future__ import annotations

from math import inf, nextafter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

import fedwqcp as fw
from fedwqcp.methods import Calibration
from fedwqcp.methods.max_cp import MaxCP
from fedwqcp.theory.diagnosis import excluded
from fedwqcp.wire.messages import LocalQuantile
from worked import ABC, threshold


@pytest.mark.parametrize(
    ("overflow", "alpha", "expected"),
    [
        ("propagate", 0.2, 0.9),  # thresholds 0.9, 0.45, 0.34
        ("propagate", 0.1, inf),  # 1.0, +inf, 0.38
        ("exclude", 0.1, 1.0),
        ("exclude", 0.05, 0.4),  # only the third agent has enough points
    ],
)
def test_the_worked_example(overflow: str, alpha: float, expected: float) -> None:
    assert threshold(ABC, "max-cp", alpha, overflow=overflow) == expected


@pytest.mark.guarantee("max-cp", "An agent that was left out, refused or absent has no promise.")
def test_who_is_left_out_is_named() -> None:
    method = fw.methods.get("max-cp", overflow="exclude")
    release = fw.calibrate({**ABC, "b": [0.99, 0.98]}, method=method, alpha=0.2)
    assert release.threshold("a") == 0.9  # below both scores of the agent that has no promise
    assert excluded(release, 0) == ("b",)


@given(st.floats(-1e9, 1e9) | st.just(inf), st.integers(1, 10**9))
def test_a_byzantine_agent_lowers_nobody(q: float, n: int) -> None:
    honest = [LocalQuantile(0.9, 50), LocalQuantile(0.3, 500)]
    for overflow in ("propagate", "exclude"):
        assert MaxCP(overflow).aggregate([*honest, LocalQuantile(q, n)], 0.1).value >= 0.9


@given(
    st.lists(st.lists(st.floats(-9, 9), min_size=9, max_size=40), min_size=1, max_size=4),
    st.sampled_from([0.1, 0.2, 0.4]),
)
def test_any_lower_threshold_made_of_the_same_messages_may_cover_nothing(parts, alpha) -> None:
    cals = {f"a{k}": fw.Calibration(part) for k, part in enumerate(parts)}
    own = {name: MaxCP().summarize(cal, alpha) for name, cal in cals.items()}
    last = max(own, key=lambda name: own[name].threshold)
    tied = fw.Calibration([own[last].threshold] * own[last].n)  # another agent, the same message
    assert MaxCP().summarize(tied, alpha) == own[last]
    largest = fw.calibrate({**cals, last: tied}, method="max-cp", alpha=alpha).threshold(last)
    assert largest == fw.calibrate(cals, method="max-cp", alpha=alpha).threshold(last)
    assert (tied.scores <= largest).all()
    assert not (tied.scores <= nextafter(largest, -inf)).any()


def test_among_twenty_agents_it_covers_far_more_than_was_asked() -> None:
    """The worked check: scores N(mu_k, 1), mu_k ~ N(0, 1), alpha 0.1: 0.988 at the agents."""
    rng, covered = np.random.default_rng(0), []
    for _ in range(300):
        mu = rng.normal(size=20)
        cals = [Calibration(rng.normal(each, 1.0, size=60)) for each in mu]
        q = MaxCP().aggregate([MaxCP().summarize(cal, 0.1) for cal in cals], 0.1).value
        covered.append(ndtr(q - mu).mean())
    assert abs(np.mean(covered) - 0.988) < 4 * np.std(covered) / 300**0.5 + 0.0005
