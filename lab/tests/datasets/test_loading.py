from __future__ import annotations

import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp_lab.datasets import catalog, files, formats
from fedwqcp_lab.datasets.loading import load, split
from made_data import KEYS, arrays, checksum, entry, npz, write_cifar10, write_idx


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
    ("n", "train"), [(60_000, 42_000), (1_080, 756), (90, 63), (7_007, 4_905), (2, 1)]
)
def test_seventy_percent_train_and_the_rest_calibrates(n, train):
    rows = split(n, "mnist", seed=0)
    assert len(rows.train) == train
    assert np.array_equal(np.sort(np.concatenate([rows.train, rows.calibration])), np.arange(n))


def test_what_is_held_out_is_taken_from_what_trains():
    plain, held = split(100, "mnist", seed=3), split(100, "mnist", seed=3, held_out=0.2)
    assert np.array_equal(plain.calibration, held.calibration)
    assert (len(held.train), len(held.held_out), len(plain.held_out)) == (56, 14, 0)
    assert np.array_equal(np.sort(np.concatenate([held.train, held.held_out])), plain.train)
