"""A small made dataset, its files in every format, and a catalogue that holds it."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from dataclasses import replace

import numpy as np

from fedwqcp_lab.datasets.catalog import Content, Remote, find

KEYS = ("train_images", "train_labels", "test_images", "test_labels")


def arrays(shape=(28, 28), n_train=6, n_test=3, seed=0):
    """Return images and labels under the keys of MedMNIST."""
    rng = np.random.default_rng(seed)
    return {
        "train_images": rng.integers(256, size=(n_train, *shape), dtype=np.uint8),
        "train_labels": rng.integers(3, size=(n_train, 1), dtype=np.uint8),
        "test_images": rng.integers(256, size=(n_test, *shape), dtype=np.uint8),
        "test_labels": rng.integers(3, size=(n_test, 1), dtype=np.uint8),
    }


def checksum(made):
    """Return the checksum of a dataset's content, as the catalogue defines it."""
    return hashlib.sha256(b"".join(made[key].tobytes() for key in KEYS)).hexdigest()


def entry(name, made, status="published", **changes):
    """Return the catalogue's entry of this name for made data instead of the real ones."""
    content = Content(checksum(made), status, f"made, {status}")
    return replace(find(name), contents=(content,), **changes)


def remote(path, body, *urls):
    """Return a published file with this body."""
    return Remote(path, urls, hashlib.md5(body).hexdigest(), len(body))


def npz(made):
    """Return the bytes of a plain archive of arrays."""
    file = io.BytesIO()
    np.savez_compressed(file, **made)
    return file.getvalue()


def idx(array):
    """Return the bytes of a gzipped IDX file."""
    begin = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    return gzip.compress(begin + array.tobytes(), mtime=0)


def write_idx(folder, made):
    """Write the four files in the format of MNIST."""
    folder.mkdir(parents=True)
    names = (
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
        "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
    )
    for name, key in zip(names, KEYS, strict=True):
        array = made[key].ravel() if key.endswith("labels") else made[key]
        (folder / name).write_bytes(idx(array))


def write_cifar10(path, made):
    """Write an archive in the layout of CIFAR-10's binary version, batches of equal size."""

    def rows(images, labels):
        planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
        return np.concatenate([labels, planes], axis=1)

    batches = np.split(rows(made["train_images"], made["train_labels"]), 5)
    names = [f"data_batch_{i}.bin" for i in range(1, 6)]
    members = dict(zip(names, batches, strict=True))
    members["test_batch.bin"] = rows(made["test_images"], made["test_labels"])
    members["readme.html"] = np.zeros(10, dtype=np.uint8)
    with tarfile.open(path, "w:gz") as archive:
        for name, batch in members.items():
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = batch.nbytes
            archive.addfile(info, io.BytesIO(batch.tobytes()))
