"""Archives as their authors publish them: the IDX files of MNIST, the batches of CIFAR-10."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from pathlib import Path

import numpy as np

from fedwqcp.errors import InputError
from fedwqcp_lab.datasets.container import Arrays, Bytes

CIFAR10_BATCHES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
"""Members of the archive of CIFAR-10 that hold images, in their order."""

_IMAGE = 3 * 32 * 32


def read_idx(path: Path) -> Bytes:
    """Return the array of a gzipped IDX file of unsigned bytes.

    Parameters
    ----------
    path : Path
        Such as ``train-images-idx3-ubyte.gz``.

    Returns
    -------
    array of uint8
        In the shape that the file states.

    Raises
    ------
    InputError
        If the file is damaged or of another kind.
    """
    try:
        with gzip.open(path) as stream:
            raw = stream.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} must be a sound gzip file, got: {error}") from error
    dimensions = raw[3] if len(raw) > 3 else 0
    start = 4 + 4 * dimensions
    if raw[:3] != b"\0\0\x08" or dimensions == 0 or len(raw) < start:
        raise InputError(f"{path} must be an IDX file of unsigned bytes, got another beginning")
    shape = tuple(int(length) for length in np.frombuffer(raw, ">u4", dimensions, offset=4))
    if len(raw) - start != np.prod(shape, dtype=object):
        raise InputError(
            f"{path} must hold {shape} bytes as its beginning says, got {len(raw) - start}"
        )
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def read_cifar10(path: Path) -> Arrays:
    """Return the images and labels of CIFAR-10 from its binary version.

    Parameters
    ----------
    path : Path
        ``cifar-10-binary.tar.gz``; it is read, not unpacked.

    Returns
    -------
    dict of str to array
        ``train_images`` and ``test_images`` of shape (n, 32, 32, 3), ``train_labels`` and
        ``test_labels`` of shape (n,), all uint8.

    Raises
    ------
    InputError
        If the archive is damaged or lacks a batch.
    """
    batches: dict[str, Bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = Path(member.name).name
                stream = archive.extractfile(member) if name in CIFAR10_BATCHES else None
                if stream is not None:
                    rows = np.frombuffer(stream.read(), np.uint8)
                    batches[name] = rows.reshape(-1, 1 + _IMAGE)
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError) as error:
        raise InputError(f"{path} must be a sound archive of CIFAR-10, got: {error}") from error
    if lacking := [name for name in CIFAR10_BATCHES if name not in batches]:
        raise InputError(f"{path} must hold {', '.join(lacking)}; fetch it again")
    train = np.concatenate([batches[name] for name in CIFAR10_BATCHES[:-1]])
    test = batches[CIFAR10_BATCHES[-1]]
    return {
        "train_images": _pictures(train),
        "train_labels": train[:, 0].copy(),
        "test_images": _pictures(test),
        "test_labels": test[:, 0].copy(),
    }


def _pictures(rows: Bytes) -> Bytes:
    """Turn rows of one label and three planes into images with the colours last."""
    planes = rows[:, 1:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
