import numpy as np
import pytest

from fedwqcp.demo.streams import stream
from fedwqcp_lab import components
from fedwqcp_lab.datasets import catalog
from fedwqcp_lab.plans import DatasetPlan
from fedwqcp_lab.settings import Material, division, setting_of
from units import experiment


def images(name="bloodmnist", n=120, classes=8):
    rng = np.random.default_rng(3)
    labels = rng.integers(0, classes, n).astype(np.uint8)
    pixels = rng.integers(0, 60, (n, 4, 4, 3)) + 20 * labels[:, None, None, None]
    pixels = pixels.astype(np.uint8)
    return Material(
        catalog.find(name), "subset", "made", pixels[:100], labels[:100], pixels[100:], labels[100:]
    )


def test_components_are_those_of_a_singular_value_decomposition():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 12)) @ np.diag(2.0 ** -np.arange(12))
    rows = np.arange(0, 300, 2)
    found = components.fit(x, rows, 3, stream(0, "components"))
    centred = x[rows] - x[rows].mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:3]
    assert np.abs(directions @ found.directions) == pytest.approx(np.eye(3), abs=2e-3)
    assert found.of(x, rows).mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-5)
    assert found.of(x, np.zeros(0, dtype=np.int64)).shape == (0, 3)


def test_components_are_as_many_as_there_can_be():
    x = np.random.default_rng(0).normal(size=(5, 9))
    assert components.fit(x, np.arange(5), 32, stream(0, "c")).directions.shape == (9, 4)
    assert components.fit(x[:, :2], np.arange(5), 32, stream(0, "c")).directions.shape == (2, 2)


def test_pixels_are_read_between_0_and_1_and_in_pieces(monkeypatch):
    x = np.random.default_rng(0).integers(0, 256, (50, 3, 3), dtype=np.uint8)
    whole = components.fit(x, np.arange(50), 2, stream(0, "c"))
    assert 0 < whole.mean.max() < 1
    wanted = whole.of(x, np.arange(50))
    monkeypatch.setattr(components, "CHUNK", 7)
    assert whole.of(x, np.arange(50)) == pytest.approx(wanted, abs=1e-6)


def test_a_classification_is_divided_by_label():
    what = experiment()
    found = setting_of(images(), DatasetPlan(name="bloodmnist", components=5), what, 1, "cpu")
    rows = division(images(), 1)
    assert np.array_equal(found.rows, rows.calibration)
    assert np.array_equal(found.labels, images().targets[rows.calibration])
    assert found.features.shape == (30, 5)
    assert found.label_law == pytest.approx(
        np.bincount(images().targets[rows.train], minlength=8) / 70
    )
    assert (found.n_classes, found.task, found.status) == (8, "classification", "subset")
    assert set(found.owners) <= {0, 1, 2}
    assert found.feature_law[1] == 5  # dimensions


def test_an_ordinal_regression_is_divided_by_clusters():
    pytest.importorskip("sklearn")
    material = images("retinamnist", classes=5)
    plan = DatasetPlan(name="retinamnist", components=3, ordinal=5)
    found = setting_of(material, plan, experiment(), 0, "cpu")
    assert (found.n_classes, found.task, found.label_law.size) == (5, "regression", 0)
    assert found.labels.dtype == np.float64
    assert found.feature_law[0] == 1  # one Gaussian


def test_a_seed_gives_the_same_setting_and_another_one_another():
    plan = DatasetPlan(name="bloodmnist", components=5)
    first, again, other = (setting_of(images(), plan, experiment(), s, "cpu") for s in (1, 1, 2))
    for name in ("owners", "rows", "features", "feature_law"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
        assert not np.array_equal(getattr(first, name), getattr(other, name))
