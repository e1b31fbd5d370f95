"""Files of images and labels: npz packed losslessly, idx and CIFAR-10 archives, read strictly."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp.errors import InputError
from fedwqcp.files import write_atomic

ArraysByName: TypeAlias = dict[str, npt.NDArray[Any]]
"""Arrays by name."""

Bytes: TypeAlias = npt.NDArray[np.uint8]
"""Pixels, or what is left of them after prediction."""

_Samples: TypeAlias = npt.NDArray[np.int16]

_SUFFIX = "_med"
_AT_ONCE = 512  # images; their planes stay in a processor's cache


def read(path: Path) -> ArraysByName:
    """Return the arrays of an ``.npz`` or ``.npz.xz`` file."""
    try:
        if path.suffix == ".xz":
            with lzma.open(path) as stream:
                return _arrays(io.BytesIO(stream.read()))
        with path.open("rb") as file:
            return _arrays(file)
    except (lzma.LZMAError, zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise InputError(f"{path} must be a sound {_kind(path)} file, got: {error}") from error


def write(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays to an ``.npz.xz`` file that `read` reads."""
    stored = {
        name + _SUFFIX if name.endswith("_images") else name: (
            residuals(array) if name.endswith("_images") else array
        )
        for name, array in arrays.items()
    }
    plain = io.BytesIO()
    np.savez(plain, allow_pickle=False, **stored)
    write_atomic(path, lzma.compress(plain.getbuffer(), preset=6))


def residuals(images: npt.NDArray[Any]) -> Bytes:
    """Return what is left of images after prediction from their neighbours.

    Examples
    --------
    >>> residuals(np.array([[[7, 9], [8, 9]]], dtype=np.uint8)).tolist()
    [[[[7, 2], [1, 0]]]]
    """
    wide = images.astype(np.int16)
    if images.ndim == 3:
        planes = wide[:, None]
    else:
        red, green, blue = np.moveaxis(wide, -1, 0)
        planes = np.stack([green, red - green, blue - green], axis=1)
    framed = np.pad(planes, ((0, 0), (0, 0), (1, 0), (1, 0)))
    guess = _median(framed[..., 1:, :-1], framed[..., :-1, 1:], framed[..., :-1, :-1])
    return ((planes - guess) & 255).astype(np.uint8)


def pixels(left: npt.NDArray[Any]) -> Bytes:
    """Return the images that `residuals` came from."""
    if left.dtype != np.uint8 or left.ndim != 4 or left.shape[1] not in (1, 3):
        raise InputError(
            "stored images must be uint8 of shape (n, 1 or 3, h, w), "
            f"got {left.dtype} of shape {left.shape}"
        )
    n, planes, h, w = left.shape
    images = np.empty((n, h, w, planes), dtype=np.uint8)
    for start in range(0, n, _AT_ONCE):
        part = np.ascontiguousarray(left[start : start + _AT_ONCE].transpose(1, 2, 3, 0))
        out = images[start : start + _AT_ONCE].transpose(3, 1, 2, 0)
        if planes == 1:
            out[:] = _undo(part, None)
        else:
            green = _undo(part[:1], None)
            out[1] = green[0]
            out[0::2] = _undo(part[1:], green) + green
    return images[..., 0] if planes == 1 else images


def _undo(left: Bytes, green: _Samples | None) -> _Samples:
    """Add the predictions to planes of shape (planes, h, w, n), one diagonal after another.

    A sample needs its left, upper and upper left neighbour, all of which lie on the two diagonals
    before its own: every sample of a diagonal, of every image, is found at once. On the flattened
    plane a diagonal is a slice whose step is one less than the width.
    """
    planes, h, w, n = left.shape
    framed = np.zeros((planes, (h + 1) * (w + 1), n), dtype=np.int16)
    flat = left.reshape(planes, h * w, n)
    base = None if green is None else np.ascontiguousarray(green).reshape(1, h * w, n)
    for diagonal in range(h + w - 1):
        row = max(0, diagonal - w + 1)
        column = diagonal - row
        count = min(h - 1, diagonal) - row + 1
        here = (row + 1) * (w + 1) + column + 1
        inner = _every(row * w + column, w - 1, count)
        value = _median(
            framed[:, _every(here - 1, w, count)],
            framed[:, _every(here - w - 1, w, count)],
            framed[:, _every(here - w - 2, w, count)],
        )
        value += flat[:, inner]
        if base is not None:
            value += base[:, inner]
        value &= 255
        if base is not None:
            value -= base[:, inner]
        framed[:, _every(here, w, count)] = value
    return framed.reshape(planes, h + 1, w + 1, n)[:, 1:, 1:]


def _every(start: int, step: int, count: int) -> slice:
    """Return the slice of ``count`` entries, ``step`` apart."""
    return slice(start, start + max(step, 1) * (count - 1) + 1, max(step, 1))


def _median(a: _Samples, b: _Samples, c: _Samples) -> _Samples:
    """Return the median of a, b and a + b - c."""
    guess = a + b
    guess -= c
    np.maximum(guess, np.minimum(a, b), out=guess)
    np.minimum(guess, np.maximum(a, b), out=guess)
    return guess


def _arrays(file: io.BufferedIOBase) -> ArraysByName:
    """Read an ``.npz`` and decode the images in it; pickled objects are refused."""
    if not zipfile.is_zipfile(file):
        raise zipfile.BadZipFile("no archive of arrays")
    file.seek(0)
    with np.load(file, allow_pickle=False) as stored:
        return {
            name.removesuffix(_SUFFIX): (
                pixels(stored[name]) if name.endswith("_images" + _SUFFIX) else stored[name]
            )
            for name in stored.files
        }


def _kind(path: Path) -> str:
    """Return the ending of a file that says what it should be."""
    return ".npz.xz" if path.suffix == ".xz" else ".npz"


CIFAR10_BATCHES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
"""Members of the archive of CIFAR-10 that hold images, in their order."""

_IMAGE = 3 * 32 * 32


def read_idx(path: Path) -> Bytes:
    """Return the array of a gzipped IDX file of unsigned bytes."""
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


def read_cifar10(path: Path) -> ArraysByName:
    """Return the images and labels of CIFAR-10 from its binary version."""
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
