"""Datasets as arrays: files identified by checksum, embedded data, and the paper's splits."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.random import Generator

from fedwqcp.errors import InputError
from fedwqcp_lab.datasets import catalog, formats
from fedwqcp_lab.datasets.catalog import Content, Dataset, Status
from fedwqcp_lab.datasets.files import locate, md5_of, missing
from fedwqcp_lab.datasets.formats import ArraysByName, Bytes
from fedwqcp_lab.datasets.partition import Floats, Indices, Labels, iid, stream

_KEYS = ("train_images", "train_labels", "test_images", "test_labels")
_IDX_KEYS = {
    "train-images": "train_images",
    "train-labels": "train_labels",
    "t10k-images": "test_images",
    "t10k-labels": "test_labels",
}


@dataclass(frozen=True, eq=False)
class Loaded:
    """The images and labels of a dataset, and what this copy of them is.

    Parameters
    ----------
    dataset : Dataset
        Its entry in the catalogue.
    train_images, test_images : array of uint8, shape (n, h, w) or (n, h, w, 3)
        Images of the official splits, or of what stands in for them.
    train_labels, test_labels : array of uint8, shape (n,)
        Their classes or grades.
    status, note : str
        How this copy stands to the published data, in a word and in a sentence.
    source : str
        Names of the files that it was read from.
    sha256 : str
        Checksum of the four arrays, as in `Content`.
    """

    dataset: Dataset
    train_images: Bytes
    train_labels: Bytes
    test_images: Bytes
    test_labels: Bytes
    status: Status
    note: str
    source: str
    sha256: str


def load(name: str, data: Path | None = None) -> Loaded:
    """Return a dataset from a folder, the system or the cache."""
    dataset = catalog.find(name)
    if dataset.embedded:
        return _embedded(dataset)
    files = locate(dataset, data)
    if files is None:
        raise missing(dataset, data)
    return read(dataset, files)


def read(dataset: Dataset, files: tuple[Path, ...]) -> Loaded:
    """Return a dataset from files that belong together, if they are a known copy of it."""
    try:
        arrays = _shaped(dataset, _stored(files), files)
        sha256 = _checksum(arrays)
        content = _identify(dataset, files, sha256)
    except OSError as error:
        raise InputError(f"{error.filename} could not be read: {error.strerror}") from error
    source = " + ".join(file.name for file in files)
    return Loaded(
        dataset, *arrays, status=content.status, note=content.note, source=source, sha256=sha256
    )


def _stored(files: tuple[Path, ...]) -> ArraysByName:
    """Read files in whichever format their names tell."""
    arrays: ArraysByName = {}
    for file in files:
        if file.name.endswith("-ubyte.gz"):
            arrays[_IDX_KEYS[file.name.partition("-idx")[0]]] = formats.read_idx(file)
        elif file.name.endswith(".tar.gz"):
            arrays |= formats.read_cifar10(file)
        else:
            arrays |= formats.read(file)
    return arrays


def _shaped(
    dataset: Dataset, arrays: ArraysByName, files: tuple[Path, ...]
) -> tuple[Bytes, Bytes, Bytes, Bytes]:
    """Take the four arrays, labels flat, and refuse those of another type or shape."""
    where = " + ".join(str(file) for file in files)
    if lacking := [key for key in _KEYS if key not in arrays]:
        raise InputError(
            f"{where} must hold {', '.join(lacking)}, got {', '.join(sorted(arrays)) or 'nothing'}"
        )
    if wrong := [key for key in _KEYS if arrays[key].dtype != np.uint8]:
        raise InputError(f"{where}: {wrong[0]} must be uint8, got {arrays[wrong[0]].dtype}")
    images, labels, test_images, test_labels = (arrays[key] for key in _KEYS)
    for key, rows, targets in zip(
        _KEYS[::2], (images, test_images), (labels, test_labels), strict=True
    ):
        if rows.shape[1:] != dataset.shape or targets.size != len(rows):
            raise InputError(
                f"{where}: {key} must have shape (n, {', '.join(map(str, dataset.shape))}) and n "
                f"labels, got shape {rows.shape} and {targets.size} labels"
            )
    return images, labels.ravel(), test_images, test_labels.ravel()


def _checksum(arrays: tuple[Bytes, ...]) -> str:
    """Return the SHA-256 of the arrays' bytes, one after another."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _identify(dataset: Dataset, files: tuple[Path, ...], sha256: str) -> Content:
    """Return which known copy this is, by its content or else by the published file's checksum."""
    for content in dataset.contents:
        if content.sha256 == sha256:
            return content
    known = [f"{c.sha256} ({c.status})" for c in dataset.contents if c.sha256]
    expected = f"sha256 of its images and labels must be {' or '.join(known)}, got {sha256}"
    if not dataset.published.sha256 and len(files) == len(dataset.remote) == 1:
        md5 = md5_of(files[0])
        if md5 == dataset.remote[0].md5:
            return dataset.published
        expected = (
            f"its md5 must be {dataset.remote[0].md5} (published), got {md5}, or the {expected}"
        )
    raise InputError(
        f"{dataset.name}: {' + '.join(str(file) for file in files)} is no known copy: {expected}; "
        f"remove it, then: fedwqcp-lab data fetch {dataset.name}"
    )


def _embedded(dataset: Dataset) -> Loaded:
    """Return the digits of scikit-learn as images; tables have no images."""
    if dataset.name != "digits":
        raise InputError(f"{dataset.name} is a table and not images")
    inputs, targets = digits()
    images = np.rint(inputs * 255).astype(np.uint8).reshape(-1, *dataset.shape)
    labels = targets.astype(np.uint8)
    train, test = iid(len(labels), (0.8, 0.2), stream(0, "test", dataset.name))
    arrays = (images[train], labels[train], images[test], labels[test])
    content = dataset.published
    return Loaded(
        dataset,
        *arrays,
        status=content.status,
        note=content.note,
        source="scikit-learn",
        sha256=_checksum(arrays),
    )


def digits() -> tuple[Floats, Labels]:
    """Return the 1797 handwritten digits of 8 x 8 pixels that come with scikit-learn."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return np.asarray(pixels, dtype=np.float64) / 16.0, np.asarray(labels, dtype=np.int64)


def breast_cancer() -> tuple[Floats, Labels]:
    """Return the 569 tumours with 30 measurements that come with scikit-learn."""
    from sklearn.datasets import load_breast_cancer

    measured, labels = load_breast_cancer(return_X_y=True)
    low, high = measured.min(axis=0), measured.max(axis=0)
    inputs = np.asarray((measured - low) / (high - low), dtype=np.float64)
    return inputs, np.asarray(labels, dtype=np.int64)


def friedman(rows: int, rng: Generator) -> tuple[Floats, Floats]:
    """Return a synthetic regression after Friedman (1991).

    y = 10 sin(pi x0 x1) + 20 (x2 - 1/2)^2 + 10 x3 + 5 x4 + noise, with ten inputs uniform on [0, 1]
    of which five matter, and standard normal noise.
    """
    x = rng.random((rows, 10))
    mean = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
    mean += 10 * x[:, 3] + 5 * x[:, 4]
    return x, mean + rng.standard_normal(rows)


TRAIN_SHARE = 0.7
"""The share of the official training split that trains, as in the paper; the rest calibrates."""


@dataclass(frozen=True, eq=False)
class Split:
    """Which rows train, which calibrate, and which are held out to tune settings on."""

    train: Indices
    calibration: Indices
    held_out: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


def split(
    n: int, dataset: str, seed: int, *, share: float = TRAIN_SHARE, held_out: float = 0.0
) -> Split:
    """Divide rows at random into training and calibration.

    A share ``held_out`` of the training rows does not train; the calibration rows do not depend on
    it. Each dataset has a random stream of its own.

    Examples
    --------
    >>> rows = split(1080, "retinamnist", seed=0)
    >>> len(rows.train), len(rows.calibration)
    (756, 324)
    """
    rows, calibration = iid(n, (share, 1 - share), stream(seed, "split", dataset))
    shares = (1 - held_out, held_out)
    train, kept = iid(len(rows), shares, stream(seed, "held out", dataset))
    if held_out and not (len(train) and len(kept)):
        raise InputError(
            f"held_out must leave rows to train on and rows to test on, got {held_out} of "
            f"{len(rows)} rows"
        )
    return Split(rows[train], calibration, rows[kept])
