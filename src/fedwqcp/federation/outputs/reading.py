"""Model outputs in files: ``.npz``, ``.npy``, ``.csv`` and ``.parquet``.

An ``.npz`` holds ``probs`` or ``logits`` (n, C) or ``outputs`` (n,) or (n, 2), and where there are
any ``labels`` (``label``, ``y``), ``ids``, ``features`` and ``groups``. A table has columns
``p0, p1, ...``, or ``z0, z1, ...`` for logits; ``prediction``; ``prediction, sigma``;
``lower, upper`` for regression; and ``label`` (or ``y``; or ``y0, y1, ...`` for labels that occur
together), ``id``, ``group``, ``x0, x1, ...``. An ``.npy`` holds the outputs alone; labels come in a
file of their own.
"""

from __future__ import annotations

import csv
import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Bools
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.federation.files import read
from fedwqcp.federation.outputs.columns import numbered, numbers, stacked, texts, whole

_DAMAGED = (
    *(ValueError, OSError, EOFError, MemoryError, NotImplementedError),
    *(zipfile.BadZipFile, zlib.error),
)
_REGRESSION = (("prediction", "sigma"), ("lower", "upper"), ("prediction",))


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a model put out, and what belongs to it.

    Parameters
    ----------
    values : ndarray, shape (n, C), (n, 2) or (n,)
        Probabilities or logits, two numbers per row, or predictions.
    labels : ndarray, shape (n,) or (n, L), optional
        Labels or true values; or which of L labels are there.
    ids : ndarray, shape (n,), optional
        Ids of the rows: integers or text.
    features : ndarray, shape (n, d), optional
        Features of the inputs.
    groups : ndarray, shape (n,), optional
        Group of each row: integers or text.
    first_line : int or None, optional
        Line of the first row where they come from a text file, for errors.
    logits : bool, optional
        Whether the values are logits; `fedwqcp.federation.outputs.temperature` makes probabilities
        of them.
    """

    values: npt.NDArray[Any]
    labels: npt.NDArray[Any] | None = None
    ids: npt.NDArray[Any] | None = None
    features: npt.NDArray[Any] | None = None
    groups: npt.NDArray[Any] | None = None
    first_line: int | None = None
    logits: bool = False

    def __post_init__(self) -> None:
        if self.values.ndim not in (1, 2):
            raise InputError(f"outputs must have one or two axes, got shape {self.values.shape}")
        for what in ("labels", "ids", "features", "groups"):
            part = getattr(self, what)
            if part is not None and part.ndim == 0:
                raise InputError(f"{what} must have one entry for each row, got a single value")
            if part is not None and len(part) != len(self.values):
                raise InputError(
                    f"{what} must have one entry for each of the {len(self.values)} rows, "
                    f"got {len(part)}"
                )

    def take(self, rows: Bools) -> Outputs:
        """Return some of the rows.

        Parameters
        ----------
        rows : Bools, shape (n,)
            True for those to keep.

        Returns
        -------
        Outputs
            These; where some are left out, nothing tells their lines in a file any more.
        """
        if rows.all():
            return self
        parts = ("values", "labels", "ids", "features", "groups")
        there = {what: getattr(self, what) for what in parts if getattr(self, what) is not None}
        return replace(self, first_line=None, **{what: part[rows] for what, part in there.items()})

    def __repr__(self) -> str:
        return f"Outputs(shape={self.values.shape})"


def load_outputs(path: Path, labels: Path | None = None) -> Outputs:
    """Read model outputs from a file.

    Parameters
    ----------
    path : Path
        A file ending in .npz, .npy, .csv or .parquet.
    labels : Path, optional
        An .npy file with the labels, for outputs that carry none.

    Returns
    -------
    Outputs
        What the file holds.

    Raises
    ------
    InputError
        If the file cannot be read, or lacks what must be there.
    MissingExtraError
        If a .parquet file is given and pyarrow is not installed.
    """
    readers = {".npz": _from_npz, ".npy": _from_npy, ".csv": _from_csv, ".parquet": _from_parquet}
    if path.suffix not in readers:
        raise InputError(f"outputs must be one of {', '.join(readers)}, got {path.name}")
    found = readers[path.suffix](path)
    if found.ids is not None and (again := found.ids.size - np.unique(found.ids).size):
        raise InputError(
            f"{path}: an id must name one row; {again} of the rows repeat an earlier id"
        )
    if labels is None:
        return found
    return replace(found, labels=_array(labels))


def _from_npz(path: Path) -> Outputs:
    """Read an archive of arrays."""
    archive = _load_numpy(path)
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise InputError(f"{path} must be an archive of arrays; rename a single array to .npy")
    try:
        arrays = {key: archive[key] for key in archive.files}
    except _DAMAGED:
        raise InputError(f"{path} must hold plain arrays; objects are not read") from None
    kind = next((key for key in ("probs", "outputs", "logits") if key in arrays), None)
    if kind is None:
        known = ", ".join(sorted(arrays)) or "nothing"
        raise InputError(f"{path} must hold 'probs', 'outputs' or 'logits', got {known}")
    labels = next((arrays[key] for key in ("labels", "label", "y") if key in arrays), None)
    groups = arrays.get("groups", arrays.get("group"))
    rest = arrays.get("ids"), arrays.get("features"), groups
    return Outputs(arrays[kind], labels, *rest, logits=kind == "logits")


def _from_npy(path: Path) -> Outputs:
    """Read one array of outputs."""
    return Outputs(_array(path))


def _array(path: Path) -> npt.NDArray[Any]:
    """Read one array."""
    array = _load_numpy(path)
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} must hold one array; rename an archive to .npz")
    return array


def _load_numpy(path: Path) -> Any:
    """Read a NumPy file without running any code in it."""
    data = read(path)
    try:
        return np.load(io.BytesIO(data), allow_pickle=False)
    except _DAMAGED:
        raise InputError(
            f"{path} must be a NumPy file without objects; it cannot be read"
        ) from None


def _from_csv(path: Path) -> Outputs:
    """Read a table with a header line."""
    try:
        rows = list(csv.reader(io.StringIO(read(path).decode("utf-8-sig"))))
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{path} must be a CSV table in UTF-8") from None
    if not rows:
        raise InputError(f"{path} must begin with a line of column names, it is empty")
    header, *body = rows
    if len(set(header)) != len(header):
        raise InputError(f"{path}: each column name may occur once")
    for number, row in enumerate(body, start=2):
        if len(row) != len(header):
            raise InputError(f"{path}, line {number}: {len(row)} fields, the header {len(header)}")
    columns = dict(
        zip(header, zip(*body, strict=True) if body else [()] * len(header), strict=True)
    )
    return replace(_from_columns(path, columns), first_line=2)


def _from_parquet(path: Path) -> Outputs:
    """Read a Parquet table."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("reading .parquet", "parquet") from None
    data = read(path)
    try:
        table = pyarrow.parquet.read_table(io.BytesIO(data))
    except (pyarrow.ArrowInvalid, OSError):
        raise InputError(f"{path} must be a Parquet file; it cannot be read") from None
    return _from_columns(path, {name: table[name].to_pylist() for name in table.column_names})


def _from_columns(path: Path, columns: Mapping[str, Sequence[object]]) -> Outputs:
    """Sort the columns of a table into outputs, labels, ids and features."""
    groups = [_several("p", columns), *[g for g in _REGRESSION if all(c in columns for c in g)]]
    names = next((group for group in groups if group), None) or _several("z", columns)
    if not names:
        raise InputError(
            f"{path} must have columns p0, p1, ... or prediction, or lower and upper, or logits "
            f"z0, z1, ...; got {', '.join(columns)}"
        )
    values = np.stack([numbers(path, columns, name) for name in names], axis=1)
    label = next((name for name in ("label", "y") if name in columns), None)
    labels = stacked(path, columns, numbered("y", columns))
    if label is not None:
        labels = numbers(path, columns, label)
    return Outputs(
        values[:, 0] if len(names) == 1 else values,
        None if labels is None else whole(labels),
        texts(path, columns, "id"),
        stacked(path, columns, numbered("x", columns)),
        texts(path, columns, "group"),
        logits=names[0] == "z0",
    )


def _several(letter: str, columns: Mapping[str, object]) -> tuple[str, ...]:
    """Return the columns of a classifier's outputs, of which there are two or none."""
    names = numbered(letter, columns)
    if len(names) == 1:
        raise InputError(f"columns {letter}0, {letter}1, ... must be at least two")
    return names
