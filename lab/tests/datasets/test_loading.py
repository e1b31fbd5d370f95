from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp_lab.datasets import catalog, files, formats
from fedwqcp_lab.datasets.catalog import Content
from fedwqcp_lab.datasets.loading import digits, friedman, load, split
from made_data import KEYS, arrays, checksum, entry, npz, remote, write_cifar10, write_idx


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """Give an empty data folder, and take every other place away."""
    monkeypatch.setattr(files, "SYSTEM_FOLDERS", ())
    monkeypatch.setenv("FEDWQCP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDWQCP_DATA", raising=False)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def stock(monkeypatch):
    """Return a function that makes one entry the whole catalogue."""
    return lambda dataset: monkeypatch.setattr(catalog, "CATALOG", (dataset,))


def same(loaded, made):
    """Whether the arrays are those that were made, the labels flat."""
    return all(
        np.array_equal(getattr(loaded, key), made[key].ravel() if "labels" in key else made[key])
        for key in KEYS
    )


def split_container(folder, made):
    """Write training and test rows to two files."""
    for part in ("train", "test"):
        rows = {key: array for key, array in made.items() if key.startswith(part)}
        formats.write(folder / f"cifar10_{part}.npz.xz", rows)


@pytest.mark.parametrize(
    ("name", "shape", "write", "source"),
    [
        ("mnist", (28, 28), lambda d, m: (d / "mnist.npz").write_bytes(npz(m)), "mnist.npz"),
        (
            "mnist",
            (28, 28),
            lambda d, m: write_idx(d / "mnist", m),
            "train-images-idx3-ubyte.gz + train-labels-idx1-ubyte.gz + "
            "t10k-images-idx3-ubyte.gz + t10k-labels-idx1-ubyte.gz",
        ),
        (
            "fashionmnist",
            (28, 28),
            lambda d, m: formats.write(d / "fashionmnist.npz.xz", m),
            "fashionmnist.npz.xz",
        ),
        (
            "cifar10",
            (32, 32, 3),
            split_container,
            "cifar10_train.npz.xz + cifar10_test.npz.xz",
        ),
        (
            "cifar10",
            (32, 32, 3),
            lambda d, m: write_cifar10(d / "cifar-10-binary.tar.gz", m),
            "cifar-10-binary.tar.gz",
        ),
    ],
)
def test_every_format_gives_the_same_arrays(shelf, stock, name, shape, write, source):
    made = arrays(shape, n_train=10)
    stock(entry(name, made))
    write(shelf, made)
    loaded = load(name, shelf)
    assert same(loaded, made)
    assert all(getattr(loaded, key).dtype == np.uint8 for key in KEYS)
    assert (loaded.status, loaded.note) == ("published", "made, published")
    assert (loaded.source, loaded.sha256) == (source, checksum(made))
    assert loaded.dataset.name == name


def test_a_stand_in_carries_its_status(shelf, stock):
    made, published = arrays((28, 28, 3)), arrays((28, 28, 3), seed=1)
    both = (
        Content(checksum(published), "published", "p"),
        Content(checksum(made), "reconstruction", "r"),
    )
    stock(replace(entry("bloodmnist", made), contents=both))
    formats.write(shelf / "bloodmnist.npz.xz", made)
    loaded = load("bloodmnist", str(shelf))
    assert (loaded.status, loaded.note) == ("reconstruction", "r")


def test_a_published_file_whose_content_is_not_listed_is_known_by_its_md5(shelf, stock):
    made = arrays((28, 28, 3))
    body = npz(made)
    dataset = entry("bloodmnist", arrays((28, 28, 3), seed=1), "reconstruction")
    published = Content("", "published", "p")
    stock(
        replace(
            dataset,
            contents=(published, *dataset.contents),
            remote=(remote("bloodmnist.npz", body),),
        )
    )
    (shelf / "bloodmnist.npz").write_bytes(body)
    assert load("bloodmnist", shelf).status == "published"


def test_unknown_content_is_refused_and_both_sums_are_named(shelf, stock):
    made, other = arrays(), arrays(seed=1)
    stock(entry("mnist", made))
    (shelf / "mnist.npz").write_bytes(npz(other))
    with pytest.raises(InputError) as error:
        load("mnist", shelf)
    assert f"must be {checksum(made)} (published), got {checksum(other)}" in str(error.value)
    assert str(shelf / "mnist.npz") in str(error.value)
    assert "fedwqcp-lab" in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        {"test_labels": None},
        {"train_images": np.zeros((6, 28, 28))},
        {"test_images": np.zeros((3, 8, 8), np.uint8)},
        {"train_labels": np.zeros((5, 1), np.uint8)},
    ],
)
def test_arrays_of_another_kind_are_refused(shelf, stock, change):
    made = arrays()
    stock(entry("mnist", made))
    kept = {key: array for key, array in {**made, **change}.items() if array is not None}
    (shelf / "mnist.npz").write_bytes(npz(kept))
    with pytest.raises(InputError):
        load("mnist", shelf)


def test_nothing_is_downloaded_unless_asked_for(shelf, stock, tmp_path):
    made = arrays()
    body = npz(made)
    (tmp_path / "there.npz").write_bytes(body)
    address = (tmp_path / "there.npz").as_uri()
    stock(replace(entry("mnist", made), remote=(remote("mnist.npz", body, address),)))
    with pytest.raises(InputError, match="no data found"):
        load("mnist")
    steps = []
    assert same(load("mnist", download=True, progress=lambda *a: steps.append(a)), made)
    assert steps[-1] == ("mnist.npz", len(body), len(body))
    assert (tmp_path / "cache" / "mnist.npz").read_bytes() == body
    assert same(load("mnist"), made)


def test_the_digits_need_no_file(shelf):
    pytest.importorskip("sklearn")
    loaded = load("digits")
    assert loaded.train_images.shape == (1438, 8, 8)
    assert loaded.test_images.shape == (359, 8, 8)
    assert loaded.train_images.max() == 255
    assert np.bincount(np.concatenate([loaded.train_labels, loaded.test_labels])).tolist() == [
        *(178, 182, 177, 183, 181, 182, 181, 179, 174, 180)
    ]
    # a hypergeometric count of about 36 has standard deviation 5; the rows come in cycles of
    # ten labels, so that a regular choice of rows would skew them
    assert np.abs(np.bincount(loaded.test_labels) - 35.9).max() < 20
    assert np.array_equal(loaded.test_labels, load("digits").test_labels)
    assert loaded.status == "published"


REAL = {  # status, then rows of each class for training and testing
    "mnist": (
        "published",
        (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
        (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    ),
    "fashionmnist": ("published", (6000,) * 10, (1000,) * 10),
    "cifar10": ("published", (5000,) * 10, (1000,) * 10),
    "retinamnist": ("published", (486, 128, 206, 194, 66), (174, 46, 92, 68, 20)),
    "dermamnist": (
        "reencoded",
        (228, 359, 769, 80, 779, 4693, 99),
        (66, 103, 220, 23, 223, 1341, 29),
    ),
    "bloodmnist": (
        "reconstruction",
        (852, 2181, 1085, 2026, 849, 993, 2330, 1643),
        (244, 624, 311, 579, 243, 284, 666, 470),
    ),
    "tissuemnist": (
        "subset",
        (17953, 2888, 2113, 4967, 4829, 1840, 14587, 8054),
        (5130, 826, 604, 1420, 1380, 526, 4168, 2302),
    ),
}
OFFICIAL_TISSUE = (
    (53075, 7814, 5866, 15406, 11789, 7705, 39203, 24608),
    (15165, 2233, 1677, 4402, 3369, 2202, 11201, 7031),
)


@pytest.mark.slow
@pytest.mark.skipif("FEDWQCP_DATA" not in os.environ, reason="FEDWQCP_DATA names no data folder")
@pytest.mark.parametrize("name", REAL)
def test_the_real_data(name):
    if files.locate(catalog.find(name)) is None:
        pytest.skip(f"{name} is not in the folder that FEDWQCP_DATA names")
    loaded = load(name)
    status, train, test = REAL[name]
    if loaded.status == "published" and name == "tissuemnist":
        train, test = OFFICIAL_TISSUE
    assert loaded.status in (status, "published")
    assert tuple(np.bincount(loaded.train_labels)) == train
    assert tuple(np.bincount(loaded.test_labels)) == test


@pytest.mark.parametrize(
    ("n", "train"), [(60_000, 42_000), (1_080, 756), (90, 63), (7_007, 4_905), (2, 1)]
)
def test_seventy_percent_train_and_the_rest_calibrates(n, train):
    rows = split(n, "mnist", seed=0)
    assert len(rows.train) == train
    assert np.array_equal(np.sort(np.concatenate([rows.train, rows.calibration])), np.arange(n))


def test_seed_and_dataset_choose_the_rows_and_nothing_else_does():
    rows = split(100, "mnist", seed=3)
    assert np.array_equal(rows.train, split(100, "mnist", seed=3).train)
    assert not np.array_equal(rows.train, split(100, "mnist", seed=4).train)
    assert not np.array_equal(rows.train, split(100, "cifar10", seed=3).train)


def test_what_is_held_out_is_taken_from_what_trains():
    plain, held = split(100, "mnist", seed=3), split(100, "mnist", seed=3, held_out=0.2)
    assert np.array_equal(plain.calibration, held.calibration)
    assert (len(held.train), len(held.held_out), len(plain.held_out)) == (56, 14, 0)
    assert np.array_equal(np.sort(np.concatenate([held.train, held.held_out])), plain.train)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": 1},
        {"seed": -1},
        *({"share": share} for share in (0.0, 70)),
        *({"held_out": share} for share in (1.0, 0.01, 0.99)),
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InputError):
        split(**{"n": 10, "dataset": "made", "seed": 0, **wrong})


def test_digits_are_whole_and_scaled():
    inputs, targets = digits()
    assert len(targets) == 1797
    assert inputs.shape == (1797, 64)
    assert (inputs.min(), inputs.max()) == (0.0, 1.0)
    assert np.unique(targets).tolist() == list(range(catalog.find("digits").n_classes))


def test_friedman_is_called_synthetic_and_follows_its_formula():
    assert catalog.find("friedman").published.status == "synthetic"
    assert catalog.find("friedman").n_classes is None
    x, y = friedman(4000, np.random.default_rng(0))
    mean = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
    noise = y - (mean + 10 * x[:, 3] + 5 * x[:, 4])
    assert abs(noise.mean()) < 5 / np.sqrt(4000)
    assert abs(noise.std() - 1) < 5 / np.sqrt(2 * 4000)
