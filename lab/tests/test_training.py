from __future__ import annotations

import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp_lab import training
from fedwqcp_lab.datasets import catalog
from fedwqcp_lab.datasets.loading import Loaded
from fedwqcp_lab.datasets.partition import stream
from fedwqcp_lab.evaluation import evaluate
from fedwqcp_lab.experiment import DatasetPlan
from fedwqcp_lab.training import TrainingData, division, fit_components, setting_of
from units import experiment


def quiet(what, share):
    assert 0 <= share <= 1


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("digits", "classification"),
        ("breast-cancer", "classification"),
        ("friedman", "regression"),
    ],
)
def test_embedded_data_need_neither_files_nor_torch(name, task):
    pytest.importorskip("sklearn")
    plan = DatasetPlan(name=name, components=4)
    what = experiment(datasets=(plan,), strong_epochs=2)
    units = list(training.train_units(plan, what, (0, 1), on_progress=quiet))
    assert [unit.setting.seed for unit in units] == [0, 1]
    for unit in units:
        assert unit.setting.task == task
        for at, side in enumerate(unit.outputs):
            assert len(side.calibration) == len(unit.setting.part(at))
            assert len(side.test) == len(unit.setting.test_labels)
        assert {r.preset for r in evaluate(unit, what)} == {"paper", "sound"}


@pytest.mark.parametrize(("name", "classes"), [("bloodmnist", 8), ("retinamnist", 5)])
def test_networks_say_something_of_every_point(monkeypatch, name, classes):
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    labels = (np.arange(90) % classes).astype(np.uint8)
    images = rng.integers(0, 40, (90, 8, 8, 3)).astype(np.uint8) + 20 * labels[:, None, None, None]
    loaded = Loaded(
        catalog.find(name), images[:70], labels[:70], images[70:], labels[70:], "subset", "", "", ""
    )
    monkeypatch.setattr(training, "load", lambda dataset, data: loaded)
    plan = DatasetPlan(name=name, components=3, batch=16, ordinal=None if classes == 8 else 5)
    what = experiment(datasets=(plan,), strong_epochs=1)
    both = list(training.train_units(plan, what, (0, 1), device="cpu", on_progress=quiet))
    alone = next(training.train_units(plan, what, (1,), device="cpu", on_progress=quiet))
    assert alone.setting.device == "cpu"
    assert alone.quantiles == (name == "retinamnist")
    for at, (one, two) in enumerate(zip(alone.outputs, both[1].outputs, strict=True)):
        assert len(one.calibration) == len(alone.setting.part(at))
        assert np.array_equal(one.test, two.test)  # whoever else is trained beside
    assert not np.array_equal(both[0].outputs[0].test, both[1].outputs[0].test)
    assert not np.array_equal(alone.outputs[0].test, alone.outputs[1].test)
    evaluate(alone, what)


def test_missing_data_are_told_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDWQCP_CACHE", str(tmp_path))
    plans = [DatasetPlan(name="digits"), DatasetPlan(name="retinamnist")]
    training.check_data(plans[:1], tmp_path)
    with pytest.raises(InputError):
        training.check_data(plans, tmp_path)


def images(name="bloodmnist", n=120, classes=8):
    rng = np.random.default_rng(3)
    labels = rng.integers(0, classes, n).astype(np.uint8)
    pixels = rng.integers(0, 60, (n, 4, 4, 3)) + 20 * labels[:, None, None, None]
    pixels = pixels.astype(np.uint8)
    return TrainingData(
        catalog.find(name), "subset", "made", pixels[:100], labels[:100], pixels[100:], labels[100:]
    )


def test_components_are_those_of_a_singular_value_decomposition():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 12)) @ np.diag(2.0 ** -np.arange(12))
    rows = np.arange(0, 300, 2)
    found = fit_components(x, rows, 3, stream(0, "components"))
    centred = x[rows] - x[rows].mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:3]
    assert np.abs(directions @ found.directions) == pytest.approx(np.eye(3), abs=2e-3)
    assert found.of(x, rows).mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-5)
    assert found.of(x, np.zeros(0, dtype=np.int64)).shape == (0, 3)


def test_a_classification_is_divided_by_label():
    what = experiment()
    found = setting_of(images(), DatasetPlan(name="bloodmnist", components=5), what, 1, "cpu")
    rows = division(images(), 1)
    assert np.array_equal(found.rows, rows.calibration)
    assert np.array_equal(found.labels, images().targets[rows.calibration])
    assert found.features.shape == (30, 5)
    assert found.label_distribution == pytest.approx(
        np.bincount(images().targets[rows.train], minlength=8) / 70
    )
    assert (found.n_classes, found.task, found.status) == (8, "classification", "subset")
    assert set(found.owners) <= {0, 1, 2}
    assert np.array_equal(found.groups, found.labels)
    assert np.array_equal(found.test_groups, found.test_labels)
    assert found.feature_distribution[1] == 5  # dimensions
