"""A threshold for each class as a row of the benchmark, and the worst class in its record."""

import dataclasses

import numpy as np
import pytest

from fedwqcp import metrics
from fedwqcp.errors import InputError
from fedwqcp.quantile import conformal_quantile
from fedwqcp_lab.evaluate import applicable, evaluate
from fedwqcp_lab.experiment import digest
from fedwqcp_lab.journal import Journal
from fedwqcp_lab.plans import MethodPlan
from fedwqcp_lab.result import Result
from fedwqcp_lab.scored import prepare
from units import experiment, labels_unit, lines_unit

NAMES = ("split-cp", "fedwq-cp", "fedls-cp")
ROWS = dataclasses.replace(
    experiment(),
    presets=experiment().presets[1:2],
    methods=tuple(MethodPlan(name=f"{name} by label", method=name, by="label") for name in NAMES),
)


def test_a_class_has_the_threshold_of_its_own_points():
    unit = labels_unit(n=1200)
    found = {r.agent: r for r in evaluate(unit, ROWS) if r.method == "split-cp by label"}
    cals = prepare(unit, ROWS.presets[0]).calibrations
    for name, cal in cals.items():
        own = [conformal_quantile(cal.scores[cal.labels == c], ROWS.alpha) for c in range(4)]
        assert found[name].threshold == tuple(map(float, own))


def test_every_method_gives_one_for_each_class():
    found = evaluate(labels_unit(), ROWS)
    assert {r.method for r in found} == {f"{name} by label" for name in NAMES}
    assert all(len(r.threshold) == 4 for r in found)


def test_a_regression_has_no_classes():
    assert applicable(ROWS, "regression", quantiles=True) == ()
    assert {r.worst_class for r in evaluate(lines_unit(), experiment())} == {None}


def test_the_worst_class_is_recorded():
    unit = labels_unit()
    truth = unit.setting.test_labels
    scored = prepare(unit, ROWS.presets[0])
    for r in evaluate(unit, ROWS):
        sets = scored.boards[r.agent].sets(np.array(r.threshold), "leq")
        assert r.worst_class == min(rate.coverage for rate in metrics.by_class(sets, truth))


def test_a_class_without_test_points_is_not_the_worst():
    unit = labels_unit()
    some = unit.setting.test_labels != 2
    setting = dataclasses.replace(unit.setting, test_labels=unit.setting.test_labels[some])
    sides = tuple(dataclasses.replace(side, test=side.test[some]) for side in unit.sides)
    found = evaluate(dataclasses.replace(unit, setting=setting, sides=sides), ROWS)
    assert min(r.worst_class for r in found) > 0.5


def test_records_of_before_the_worst_class_are_still_read(tmp_path):
    result = evaluate(labels_unit(), ROWS)[0]
    journal = Journal(tmp_path / "records.jsonl", Result)
    journal.append([result])
    assert journal.read() == (result,)
    older = journal.path.read_text().replace(f'"worst_class": {result.worst_class!r}, ', "")
    assert "worst_class" not in older
    journal.path.write_text(older)
    assert journal.read() == (dataclasses.replace(result, worst_class=None),)


def test_rows_without_groups_keep_their_fingerprint():
    plain = experiment()
    row = ("blobs", "sound", "fedwq-cp")
    assert "by" not in plain.config(*row)["method"]
    grouped = dataclasses.replace(
        plain, methods=(MethodPlan(name="fedwq-cp", method="fedwq-cp", by="label"),)
    )
    assert digest(grouped.config(*row)) != digest(plain.config(*row))


@pytest.mark.parametrize("wrong", [{"aim": "training"}, {"take": "maximum"}])
def test_what_has_no_meaning_by_label_is_refused(wrong):
    with pytest.raises(InputError, match="by = 'label' leaves no law of labels to aim at"):
        MethodPlan(name="x", method="fedls-cp", by="label", **wrong)
