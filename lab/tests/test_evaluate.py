import dataclasses

import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp.federation.transport.local import calibrate
from fedwqcp.quantile import conformal_quantile
from fedwqcp_lab.agree import agree, method_of
from fedwqcp_lab.evaluate import applicable, evaluate, shares
from fedwqcp_lab.experiment import paper
from fedwqcp_lab.plans import MethodPlan, PresetPlan
from fedwqcp_lab.scored import prepare, probabilities
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


def test_rows_that_do_not_fit_are_left_out():
    heads = applicable(ALL, "regression", quantiles=True)
    assert "dp-fedcp" not in {plan.method for _, plan in heads}
    assert {p.name for p, _ in heads} == {"paper", "sound", "sound-cqr"}
    assert {p.name for p, _ in applicable(ALL, "regression", quantiles=False)} == {"paper", "sound"}
    labels = applicable(ALL, "classification", quantiles=False)
    assert {p.name for p, _ in labels} == {"paper", "sound"}


def test_results_are_what_the_field_gives():
    unit = labels_unit()
    found = {r.agent: r for r in evaluate(unit, experiment()) if r.preset == "paper"}
    score = experiment().presets[0].score("classification")
    cals = {
        side.name: score.of(
            probabilities(side.calibration, score), unit.setting.labels[unit.setting.part(at)]
        )
        for at, side in enumerate(unit.sides)
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
    for side in unit.sides:
        q = release.threshold(side.name)
        sets = score.invert(probabilities(side.test, score), q, "leq_top1")
        assert found[side.name].threshold == q
        assert found[side.name].hits == int(sets.cover(unit.setting.test_labels).sum())
        assert found[side.name].size == sets.sizes().mean()
        assert found[side.name].local == conformal_quantile(cals[side.name], 0.1, "clip")
        assert found[side.name].n_cal == len(cals[side.name])


def test_the_same_unit_gives_the_same_results_times_apart():
    assert evaluate(labels_unit(), ALL) == evaluate(labels_unit(), ALL)
    assert evaluate(lines_unit(), ALL) == evaluate(lines_unit(), ALL)


def test_a_method_more_changes_no_other_number():
    fewer = dataclasses.replace(ALL, methods=ALL.methods[-2:])
    some = evaluate(labels_unit(), fewer)
    by = {r.key: r for r in evaluate(labels_unit(), ALL)}
    assert all(by[r.key] == r for r in some)


def test_the_maximum_of_local_quantiles_is_a_reading_without_proof():
    plan = MethodPlan(name="fedcp-qq (paper's rows)", method="fedwq-cp", take="maximum")
    results = evaluate(labels_unit(), experiment(methods=(plan,)))
    own = [r for r in results if r.preset == "paper"]
    assert {r.threshold for r in own} == {max(r.local for r in own if r.n_cal)}
    assert {(r.guarantee, r.rounds) for r in own} == {("none", 1)}
    wrong = dataclasses.replace(plan, method="fcp", samples=True, settings={"sketch": "exact"})
    unit = labels_unit()
    with pytest.raises(InputError, match="local quantiles"):
        agree(unit.setting, prepare(unit, experiment().presets[0]), wrong, 0.1)


def test_scores_of_people_leave_only_where_a_row_says_so():
    plan = MethodPlan(name="fcp", method="fcp", settings={"sketch": "exact"})
    with pytest.raises(InputError, match="single people"):
        evaluate(labels_unit(), experiment(methods=(plan,)))
    open_ = dataclasses.replace(plan, samples=True)
    assert all(r.samples for r in evaluate(labels_unit(), experiment(methods=(open_,))))


def test_methods_are_aimed_and_take_the_presets_overflow():
    unit = labels_unit()
    plans = {plan.name: plan for plan in ALL.methods}
    paper = prepare(unit, experiment().presets[0])

    def _of(name):
        return method_of(unit.setting, plans[name], paper)

    assert _of("fedwq-cp").overflow == "clip"
    assert _of("dp-fedcp").target == (0.25,) * 4
    assert _of("dp-fedcp (own law)").target == "own"
    assert _of("cphet").target == tuple(unit.setting.feature_law.tolist())
    assert _of("cphet (paper's rows)").scope == "local"


@pytest.mark.parametrize(("score", "high"), [("lac", 1.0), ("raps", 1.03)])
def test_private_methods_take_the_range_of_the_score(score, high):
    unit = labels_unit()
    scored = prepare(unit, PresetPlan(name=score, labels={"name": score}))
    plan = MethodPlan(name="private", method="private-fedwq-cp")
    assert method_of(unit.setting, plan, scored).bounds == (0.0, high)


def test_a_row_may_have_a_set_rule_of_its_own():
    plain = MethodPlan(name="plain", method="fedwq-cp", rule="leq")
    forced = MethodPlan(name="forced", method="fedwq-cp")
    results = evaluate(labels_unit(), experiment(methods=(plain, forced)))
    size = {(r.method, r.agent): r.size for r in results if r.preset == "paper"}
    assert all(size["plain", a] <= size["forced", a] for a in AGENTS)
    assert any(size["plain", a] < size["forced", a] for a in AGENTS)


def test_shares_count_labels():
    for unit, classes in ((labels_unit(), 4), (lines_unit(), 5)):
        found = shares(unit)
        counts = np.array([share.counts for share in found])
        assert counts.shape == (3, classes)
        assert np.array_equal(counts.sum(axis=0), np.bincount(unit.setting.labels.astype(int)))
    real = lines_unit()
    real = dataclasses.replace(real, setting=dataclasses.replace(real.setting, n_classes=None))
    assert sum(share.counts[0] for share in shares(real)) == 240


def test_a_preset_that_does_not_fit_is_refused():
    with pytest.raises(InputError, match="does not fit"):
        prepare(labels_unit(), experiment().presets[2])
    with pytest.raises(InputError, match="does not fit"):
        prepare(lines_unit(quantiles=False), experiment().presets[2])


def test_normalised_residuals_take_their_spread_from_the_prediction():
    unit = lines_unit()
    preset = PresetPlan(
        name="n", intervals={"name": "normalized-residual"}, spread=(0.5, 1.0), overflow="clip"
    )
    scored = prepare(unit, preset)
    side, part = unit.sides[1], unit.setting.part(1)
    f = np.clip(side.calibration, 0, 4)
    wanted = np.abs(unit.setting.labels[part] - f) / (0.5 + f)
    assert scored.calibrations["S1"].scores == pytest.approx(wanted)
    sets = scored.boards["S1"].sets(0.8, "leq")
    g = np.clip(side.test, 0, 4)
    assert sets.upper == pytest.approx(g + 0.8 * (0.5 + g))


@pytest.mark.parametrize(
    "wrong",
    [
        {"intervals": {"name": "normalized-residual"}},
        {"intervals": {"name": "absolute-residual"}, "spread": (0.5, 1.0)},
        {"intervals": {"name": "normalized-residual"}, "spread": (-0.5, 1.0)},
    ],
)
def test_a_spread_belongs_to_normalised_residuals(wrong):
    with pytest.raises(InputError, match="spread must be two numbers"):
        PresetPlan(name="n", **wrong)
