"""From model outputs made by hand to results: every row, by class and over strata."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp import metrics
from fedwqcp.api import calibrate
from fedwqcp.errors import InputError
from fedwqcp.quantile import conformal_quantile
from fedwqcp.scores import uniforms
from fedwqcp.scores.absolute_residual import AbsoluteResidual
from fedwqcp.scores.aps import APS
from fedwqcp.scores.cqr import CQR
from fedwqcp.scores.lac import LAC
from fedwqcp_lab.evaluation import (
    IntervalTestSet,
    LabelTestSet,
    calibrate_row,
    evaluate,
    method_of,
    prepare,
    probabilities,
    target_of,
)
from fedwqcp_lab.experiment import MethodPlan, paper
from units import AGENTS, experiment, labels_unit, lines_unit


def short(plan):
    """Take a few rounds where the paper takes 200."""
    rounds = {"rounds": 3} if plan.settings.get("solver") == "rounds" else {}
    return dataclasses.replace(plan, settings={**plan.settings, **rounds})


ALL = dataclasses.replace(
    paper(),
    strong=2,
    weak=1,
    alpha=0.1,
    datasets=experiment().datasets,
    seeds=(0,),
    methods=tuple(short(plan) for plan in paper().methods),
)


def test_every_row_gives_one_result_for_each_agent():
    for unit, presets, methods in ((labels_unit(), 2, 13), (lines_unit(), 3, 9)):
        results = evaluate(unit, ALL)
        assert len({r.key for r in results}) == len(results) == presets * methods * len(AGENTS)
        for r in results:
            assert (r.n_test, r.status) == (90, unit.setting.status)
            assert 0 < r.calibration_s <= r.sets_s


def test_results_are_what_the_field_gives():
    unit = labels_unit()
    found = {r.agent: r for r in evaluate(unit, experiment()) if r.preset == "paper"}
    score = experiment().presets[0].score("classification")
    cals = {
        side.name: score.of(
            probabilities(side.calibration, score), unit.setting.labels[unit.setting.part(at)]
        )
        for at, side in enumerate(unit.outputs)
    }
    release = calibrate(
        cals,
        method=method_of(
            unit.setting, experiment().methods[1], prepare(unit, experiment().presets[0])
        ),
        alpha=0.1,
        score=score,
        rule="leq_top1",
    )
    for agent in unit.outputs:
        q = release.threshold(agent.name)
        sets = score.invert(probabilities(agent.test, score), q, "leq_top1")
        assert found[agent.name].threshold == q
        assert found[agent.name].hits == int(sets.cover(unit.setting.test_labels).sum())
        assert found[agent.name].size == sets.sizes().mean()
        assert found[agent.name].local == conformal_quantile(cals[agent.name], 0.1, "clip")
        assert found[agent.name].n_cal == len(cals[agent.name])


def test_a_method_more_changes_no_other_number():
    fewer = dataclasses.replace(ALL, methods=ALL.methods[-2:])
    some = evaluate(labels_unit(), fewer)
    by = {r.key: r for r in evaluate(labels_unit(), ALL)}
    assert all(by[r.key] == r for r in some)


def test_a_local_maximum_is_a_reading_that_stays_within_the_range_of_the_score():
    unit = labels_unit()
    scored = prepare(unit, experiment().presets[0])
    maxima = sorted(min(1.0, cal.scores.max()) for cal in scored.calibrations.values())
    for place, largest in ((1, maxima[0]), (2, maxima[1]), (3, maxima[2]), (9, maxima[2])):
        plan = MethodPlan(name="x", method="split-cp", take="local maxima", place=place)
        row = calibrate_row(unit.setting, scored, plan, 0.1)
        assert set(row.thresholds.values()) == {largest}
        assert row.guarantee == "none"
    with pytest.raises(InputError, match="place"):
        MethodPlan(name="x", method="split-cp", take="local maxima")


def test_methods_have_targets_and_take_the_presets_overflow():
    unit = labels_unit()
    plans = {plan.name: plan for plan in ALL.methods}
    paper = prepare(unit, experiment().presets[0])

    def _distribution(name):
        return method_of(unit.setting, plans[name], paper)

    def _target(name):
        return target_of(unit.setting, plans[name])

    assert _distribution("fedwq-cp").overflow == "clip"
    assert _target("fedwq-cp") == "own"
    assert _target("dp-fedcp") == (0.25,) * 4
    assert _target("dp-fedcp (own distribution)") == "own"
    assert _target("cphet") == tuple(unit.setting.feature_distribution.tolist())
    assert _distribution("cphet (paper's rows)").scope == "local"


NAMES = ("split-cp", "fedwq-cp", "fedls-cp")
ROWS = dataclasses.replace(
    experiment(),
    presets=experiment().presets[1:2],
    methods=tuple(MethodPlan(name=f"{name} by label", method=name, by="label") for name in NAMES),
)


def test_the_worst_class_is_recorded():
    unit = labels_unit()
    truth = unit.setting.test_labels
    scored = prepare(unit, ROWS.presets[0])
    for r in evaluate(unit, ROWS):
        sets = scored.test_sets[r.agent].sets(np.array(r.threshold), "leq")
        assert r.worst_class == min(rate.coverage for rate in metrics.by_class(sets, truth))


SCORES = [
    APS(),
    APS(randomized=False),
    APS(randomized=False, precision="float32"),
    LAC(),
]
RULES = [(score, rule) for score in SCORES for rule in ("leq", "leq_top1")]
RULES += [(score, "until") for score in SCORES if isinstance(score, APS)]  # reads labels in order


@pytest.mark.parametrize(("score", "rule"), RULES, ids=repr)
@pytest.mark.parametrize("threshold", [0.0, 0.37, 0.95, 1.0, np.inf, "each", "per label"])
def test_a_scored_test_set_gives_what_the_score_inverts_to(score, rule, threshold):
    unit = labels_unit()
    probs, truth = probabilities(unit.outputs[0].test, score), unit.setting.test_labels
    u = uniforms("k", np.arange(len(truth))) if score.randomized else None
    if threshold == "each":  # a value that some score has exactly
        threshold = float(np.sort(score.of_every_label(probs, u).ravel())[len(truth)])
    if threshold == "per label":
        threshold = np.array([0.2, 0.9, 1.0, np.inf])
    test_set = LabelTestSet(score, probs, truth, u)
    sets = score.invert(probs, threshold, rule, u)
    wanted = metrics.measure("a", sets, truth)
    found = test_set.measure(threshold, rule)
    assert np.array_equal(test_set.sets(threshold, rule).mask, sets.mask)
    assert (found.n_test, found.hits, found.size) == (wanted.n, wanted.hits, wanted.size)
    assert found.clipped is None


@given(st.floats(-1, 6) | st.just(np.inf))
def test_intervals_are_measured_raw_clipped_and_as_labels(threshold):
    unit = lines_unit()
    side, truth = unit.outputs[0], unit.setting.test_labels
    for score, outputs in ((AbsoluteResidual(), side.test), (CQR(), side.test_quantiles)):
        sets = score.invert(outputs, threshold)
        found = IntervalTestSet(score, outputs, truth, 5).measure(threshold, "leq_top1")
        assert found.hits == int(sets.cover(truth).sum())
        assert found.hits == int(sets.labels(5).cover(truth.astype(int)).sum())
        assert found.size == sets.sizes().mean()
        assert found.clipped <= min(4.0, found.size) + 1e-12
        assert found.labels <= 5
