"""FedLS-CP as a row of the benchmark."""

import dataclasses

from fedwqcp_lab.agree import method_of
from fedwqcp_lab.evaluate import applicable, evaluate
from fedwqcp_lab.plans import MethodPlan, PresetPlan
from fedwqcp_lab.scored import prepare
from units import AGENTS, experiment, labels_unit, lines_unit

ROWS = dataclasses.replace(
    experiment(),
    presets=(
        PresetPlan(
            name="tilted", labels={"name": "tilted-aps"}, intervals={"name": "absolute-residual"}
        ),
    ),
    methods=(
        MethodPlan(name="fedls-cp", method="fedls-cp"),
        MethodPlan(name="training law", method="fedls-cp", aim="training"),
        MethodPlan(name="strata", method="fedls-cp", settings={"strata": (0.0,)}),
    ),
)


def test_a_regression_needs_strata():
    assert [p.name for _, p in applicable(ROWS, "regression", quantiles=False)] == ["strata"]
    assert len(applicable(ROWS, "classification", quantiles=False)) == 3
    assert {r.method for r in evaluate(lines_unit(), ROWS)} == {"strata"}


def test_every_agent_gets_a_threshold_in_one_round():
    found = evaluate(labels_unit(), ROWS)
    assert len(found) == 3 * len(AGENTS)
    assert all(r.rounds == 1 and 0 <= r.threshold <= 1 for r in found)
    assert all(r.guarantee == "target-shift, approximate" for r in found)


def test_it_can_aim_at_the_training_data():
    unit = labels_unit()
    found = method_of(unit.setting, ROWS.methods[1], prepare(unit, ROWS.presets[0]))
    assert found.target == tuple(unit.setting.label_law.tolist())
