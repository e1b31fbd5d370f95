from dataclasses import replace

import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp_lab import training
from fedwqcp_lab.datasets import catalog
from fedwqcp_lab.datasets.loading import Loaded, split
from fedwqcp_lab.evaluate import evaluate
from fedwqcp_lab.plans import DatasetPlan
from units import experiment


def quiet(what, share):
    assert 0 <= share <= 1


@pytest.mark.parametrize(
    ("name", "task"), [("digits", "classification"), ("friedman", "regression")]
)
def test_embedded_data_need_neither_files_nor_torch(name, task):
    pytest.importorskip("sklearn")
    plan = DatasetPlan(name=name, components=4)
    what = experiment(datasets=(plan,), strong_epochs=2)
    units = list(training.train_units(plan, what, (0, 1), on_share=quiet))
    assert [unit.setting.seed for unit in units] == [0, 1]
    for unit in units:
        assert unit.setting.task == task
        for at, side in enumerate(unit.sides):
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
    both = list(training.train_units(plan, what, (0, 1), device="cpu", on_share=quiet))
    alone = next(training.train_units(plan, what, (1,), device="cpu", on_share=quiet))
    assert alone.setting.device == "cpu"
    assert alone.quantiles == (name == "retinamnist")
    for at, (one, two) in enumerate(zip(alone.sides, both[1].sides, strict=True)):
        assert len(one.calibration) == len(alone.setting.part(at))
        assert np.array_equal(one.test, two.test)  # whoever else is trained beside
    assert not np.array_equal(both[0].sides[0].test, both[1].sides[0].test)
    assert not np.array_equal(alone.sides[0].test, alone.sides[1].test)
    evaluate(alone, what)


def test_the_same_data_can_be_used_twice():
    pytest.importorskip("sklearn")
    plans = (
        DatasetPlan(name="digits", components=4),
        DatasetPlan(name="longer", data="digits", strong_epochs=4, components=4),
    )
    what = experiment(datasets=plans, strong_epochs=1)
    short, long = (next(training.train_units(plan, what, (0,), on_share=quiet)) for plan in plans)
    assert (short.setting.dataset, long.setting.dataset) == ("digits", "longer")
    assert long.setting.title.endswith("(longer)")
    assert np.array_equal(short.setting.owners, long.setting.owners)
    right = [
        (unit.sides[0].test.argmax(axis=1) == unit.setting.test_labels).mean()
        for unit in (short, long)
    ]
    assert right[0] < right[1]


def test_what_is_held_out_takes_the_place_of_the_test_data(monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    labels = (np.arange(90) % 8).astype(np.uint8)
    images = rng.integers(0, 255, (90, 8, 8, 3)).astype(np.uint8)
    loaded = Loaded(
        catalog.find("bloodmnist"), images, labels, images[:9], labels[:9], "subset", "", "", ""
    )
    monkeypatch.setattr(training, "load", lambda dataset, data: loaded)
    plan = DatasetPlan(name="bloodmnist", components=3, batch=16)
    what = experiment(datasets=(plan,), strong_epochs=1, held_out=0.25)
    unit = next(training.train_units(plan, what, (1,), device="cpu", on_share=quiet))
    rows = split(90, "bloodmnist", 1, held_out=0.25)
    assert len(rows.held_out) == 16
    assert np.array_equal(unit.setting.test_labels, labels[rows.held_out])
    assert all(side.test.shape == (16, 8) for side in unit.sides)
    whole = next(training.train_units(plan, replace(what, held_out=0.0), (1,), on_share=quiet))
    assert np.array_equal(whole.setting.owners, unit.setting.owners)
    assert len(whole.setting.test_labels) == 9


def test_missing_data_are_told_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDWQCP_CACHE", str(tmp_path))
    plans = [DatasetPlan(name="digits"), DatasetPlan(name="retinamnist")]
    training.check_data(plans[:1], tmp_path)
    with pytest.raises(InputError, match="fedwqcp-lab data fetch retinamnist"):
        training.check_data(plans, tmp_path)


def test_missing_data_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDWQCP_CACHE", str(tmp_path))
    plan = DatasetPlan(name="retinamnist")
    with pytest.raises(InputError, match="fedwqcp-lab data fetch retinamnist"):
        list(training.train_units(plan, experiment(), (0,), data=tmp_path, on_share=quiet))
