"""Which protections go together, and what is said of those that do not."""

from __future__ import annotations

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import BudgetError, InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import Plan, choose_method
from fedwqcp.federation.privacy_budget import Budget
from fedwqcp.federation.secure import SecureServer, run_masked, secure_round
from fedwqcp.wire.round import Choice, Round

CALS = {f"a{i}": np.random.default_rng(i).uniform(size=800) for i in range(4)}


def release(secure=False, **settings):
    method = fw.methods.get("private-fedwq-cp", **settings)
    return fw.calibrate(CALS, method=method, alpha=0.1, score="lac", secure=secure, rng=1)


def test_masked_sums_of_private_thresholds():
    plain, masked = release(), release(secure=True)
    above = masked.threshold("a0") - plain.threshold("a0")
    assert 0 <= above <= masked.outcomes[0].margin < 1e-5
    assert masked.received == {}


def test_masked_sums_leave_room_for_the_noise_on_sizes():
    method = fw.methods.get("private-fedwq-cp", epsilon=9.0, size_epsilon=0.5)
    for seed in range(20):  # equal sizes: without room, each of four agents would pass max_n
        found = fw.calibrate(CALS, method=method, alpha=0.1, score="lac", secure=True, rng=seed)
        assert found.used == tuple(CALS)
        assert found.round.max_n == 800 + 80


def test_robust_rules_on_private_thresholds():
    for rule in ("weighted-median-cp", "trimmed-mean-cp"):
        assert 0.9 < release(combine=rule).threshold("a0") < 0.99


@pytest.mark.parametrize("rule", ["weighted-median-cp", "trimmed-mean-cp"])
def test_a_median_cannot_be_taken_of_masked_values(rule):
    with pytest.raises(InputError, match="private-fedwq-cp with these settings cannot be secure"):
        release(secure=True, combine=rule)


def test_masked_rounds_spend_the_budget_too(tmp_path):
    terms = Round(
        "r1", choose_method("private-fedwq-cp"), Choice("lac"), (0.1,), tuple(CALS), 4, n_classes=3
    )
    plan = Plan.of(secure_round(terms))

    def agents():
        return {
            name: Agent(name, plan, fw.Calibration(cal), budget=Budget(tmp_path / name, 1.0))
            for name, cal in CALS.items()
        }

    first = run_masked(SecureServer(plan), agents())
    again = run_masked(SecureServer(plan), agents())
    assert first.threshold("a0") == again.threshold("a0") < np.inf
    assert Budget(tmp_path / "a0", 1.0).left == 0


def test_samples_do_not_leave_an_agent_with_a_budget(tmp_path):
    terms = Round(
        "r1", Choice("fcp", {"sketch": "exact"}), Choice("lac"), (0.1,), ("a0",), 1, n_classes=3
    )
    side = Agent(
        "a0", terms, fw.Calibration(CALS["a0"]), allow_samples=True, budget=Budget(tmp_path, 9.0)
    )
    with pytest.raises(BudgetError, match="not differentially private"):
        side.answer()
