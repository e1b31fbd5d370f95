"""Images of a site: a folder, or a zip archive, with an .npz for each; read one at a time."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedwqcp._io import in_folder, is_folder, opened
from fedwqcp._validation import unchecked
from fedwqcp.errors import InputError
from fedwqcp.groups import columns_of
from fedwqcp.outputs import MaskOutputs
from fedwqcp.readers.arrays import groups_in, load_numpy
from fedwqcp.readers.tables import OUTPUT_BYTES


class Image(NamedTuple):
    """An image as it is read: its file's name, and what the file holds."""

    name: str
    probs: npt.NDArray[Any]
    mask: npt.NDArray[Any] | None
    groups: set[Any] | None  # the names of all groups that it is in


def images(path: Path) -> Iterator[Image]:
    """Read one image after another: ``probs``, perhaps ``mask``, and of all or none its groups."""
    grouped, seen = None, set[str]()
    for name, file in _files(path):
        where = f"{path}, {name}"
        arrays = load_numpy(file, where)
        if not isinstance(arrays, dict) or "probs" not in arrays:
            raise InputError("must hold 'probs', the probability of each pixel").within(where)
        groups = _groups(arrays)
        if grouped not in (None, groups is not None):
            raise InputError("must hold its group in every image, or in none").within(where)
        if name in seen:
            raise InputError("must be the name of one image alone").within(where)
        grouped = groups is not None
        seen.add(name)
        yield Image(name, arrays["probs"], arrays.get("mask"), groups)


def reduced(path: Path, images: Iterable[Image]) -> MaskOutputs:
    """Reduce images as they come; each must hold its mask, and their names are their ids."""
    ids: list[str] = []
    groups: list[set[Any]] = []

    def _pairs() -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        for image in images:
            ids.append(image.name)
            groups.extend([] if image.groups is None else [image.groups])
            if image.mask is None:
                raise InputError("must hold 'mask', 1 inside an object and 0 outside")
            yield image.probs, image.mask

    try:
        outputs = MaskOutputs(_pairs(), ids=ids)  # ids are complete when the last pair was read
        return unchecked(outputs, groups=columns_of(groups)) if groups else outputs
    except InputError as error:
        if error.where.startswith(str(path)):  # it names its image
            raise
        raise error.within(f"{path}, {ids[-1]}" if ids else str(path)) from None


def _groups(arrays: Mapping[str, npt.NDArray[Any]]) -> set[Any] | None:
    """Return the names of an image's groups; None where the file holds no array of them."""
    given = groups_in(arrays)
    names = None if given is None else np.ravel(columns_of(given)).tolist()
    return None if names is None else set(names) - {""}


def _files(path: Path) -> Iterator[tuple[str, Any]]:
    if is_folder(path):
        names = in_folder(path, "*.npz")
        _check_some(names)
        for image in names:
            with opened(image, OUTPUT_BYTES) as file:
                yield image.stem, file
        return
    with opened(path, OUTPUT_BYTES) as whole:
        try:
            archive = zipfile.ZipFile(whole)
            members = sorted(name for name in archive.namelist() if name.endswith(".npz"))
            _check_some(members)
            for name in members:
                yield PurePosixPath(name).stem, io.BytesIO(archive.read(name))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError):
            raise InputError("must be a zip archive; it cannot be read") from None


def _check_some(names: Sequence[object]) -> None:
    if not names:
        raise InputError("must hold an .npz file for each image, it holds none")
