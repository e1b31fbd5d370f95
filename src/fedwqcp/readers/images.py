"""Images of a site: a folder, or a zip archive, with an .npz for each; read one at a time."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy.typing as npt

from fedwqcp._io import in_folder, is_folder, opened
from fedwqcp.errors import InputError
from fedwqcp.outputs import MaskOutputs
from fedwqcp.readers.arrays import load_numpy
from fedwqcp.readers.tables import OUTPUT_BYTES

Image = dict[str, npt.NDArray[Any]]


def holds_images(path: Path) -> bool:
    """Tell whether a path is read as images."""
    return is_folder(path) or path.suffix == ".zip"


def images(path: Path) -> Iterator[tuple[str, Image]]:
    """Yield the name of each image and its arrays: ``probs``, perhaps ``mask`` and ``group``."""
    for name, file in _files(path):
        where = f"{path}, {name}"
        arrays = load_numpy(file, where)
        if not isinstance(arrays, dict) or "probs" not in arrays:
            raise InputError("must hold 'probs', the probability of each pixel").within(where)
        yield name, arrays


def load_masks(path: Path) -> MaskOutputs:
    """Reduce the images of a folder or archive; their names are their ids."""
    ids: list[str] = []
    groups: list[str] = []

    def _pairs() -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        for name, arrays in images(path):
            ids.append(name)
            groups.extend(map(str, arrays["group"].ravel()) if "group" in arrays else ())
            if "mask" not in arrays:
                raise InputError("must hold 'mask', 1 inside an object and 0 outside")
            yield arrays["probs"], arrays["mask"]

    try:  # both lists are full when the last pair was read
        return MaskOutputs(_pairs(), ids=ids, groups=groups or None)
    except InputError as error:
        raise error.within(f"{path}, {ids[-1]}" if ids else str(path)) from None


def _files(path: Path) -> Iterator[tuple[str, Any]]:
    if is_folder(path):
        names = in_folder(path, "*.npz")
        _check_some(path, names)
        for each in names:
            with opened(each, OUTPUT_BYTES) as file:
                yield each.stem, file
        return
    with opened(path, OUTPUT_BYTES) as whole:
        try:
            archive = zipfile.ZipFile(whole)
            members = sorted(name for name in archive.namelist() if name.endswith(".npz"))
            _check_some(path, members)
            for name in members:
                yield PurePosixPath(name).stem, io.BytesIO(archive.read(name))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError):
            raise InputError(f"{path} must be a zip archive; it cannot be read") from None


def _check_some(path: Path, names: Sequence[object]) -> None:
    if not names:
        raise InputError(f"{path} must hold an .npz file for each image, it holds none")
