"""Batches of model outputs: arrays, memory-mapped ``.npy`` files, Parquet row groups, loaders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedwqcp.errors import InputError, MissingExtraError

ROWS = 2**16
"""How many rows a batch has where nothing else decides."""

_REGRESSION = (("prediction", "sigma"), ("lower", "upper"), ("prediction",))


class Batch(NamedTuple):
    """Some rows of a model's outputs.

    Parameters
    ----------
    values : array_like, shape (b, C), (b, 2) or (b,)
        Probabilities, two numbers per row, or predictions.
    labels : array_like, shape (b,), optional
        Labels or true values.
    ids : array_like, shape (b,), optional
        Ids of the rows: integers or text.
    """

    values: npt.ArrayLike
    labels: npt.ArrayLike | None = None
    ids: npt.ArrayLike | None = None

    def __repr__(self) -> str:
        return f"Batch(shape={np.shape(self.values)})"


@dataclass(frozen=True, eq=False, repr=False)
class Arrays:
    """Arrays cut into batches; they can be read again and again.

    Parameters
    ----------
    values : ndarray
        Probabilities or predictions, one row each; a memory map is read batch by batch.
    labels, ids : ndarray, optional
        What belongs to the rows.
    rows : int, optional
        Rows of a batch.
    """

    values: npt.NDArray[Any]
    labels: npt.NDArray[Any] | None = None
    ids: npt.NDArray[Any] | None = None
    rows: int = ROWS

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InputError(f"rows must be at least 1, got {self.rows}")
        for what, part in (("labels", self.labels), ("ids", self.ids)):
            if part is not None and len(part) != len(self.values):
                raise InputError(
                    f"{what} must have one entry for each of the {len(self.values)} rows, "
                    f"got {len(part)}"
                )

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.values.shape}, rows={self.rows})"

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, len(self.values), self.rows):
            at = slice(start, start + self.rows)
            labels = None if self.labels is None else self.labels[at]
            yield Batch(self.values[at], labels, None if self.ids is None else self.ids[at])


class NpyFiles(Arrays):
    """Outputs in ``.npy`` files, mapped into memory and never loaded as a whole.

    Parameters
    ----------
    values : Path
        The outputs.
    labels, ids : Path, optional
        What belongs to the rows, in files of their own.
    rows : int, optional
        Rows of a batch.

    Raises
    ------
    InputError
        If a file is no plain ``.npy``, or lengths differ.
    """

    def __init__(
        self, values: Path, labels: Path | None = None, ids: Path | None = None, rows: int = ROWS
    ) -> None:
        beside = [None if path is None else _mapped(path) for path in (labels, ids)]
        super().__init__(_mapped(values), beside[0], beside[1], rows)


@dataclass(frozen=True)
class ParquetFile:
    """A table in a Parquet file, read by row groups; columns are named as in every outputs file.

    Parameters
    ----------
    path : Path
        With columns ``p0, p1, ...``, or ``prediction``, ``prediction, sigma``, or
        ``lower, upper``; and where there are any ``label`` or ``y``, and ``id``.
    rows : int, optional
        Most rows of a batch.

    Raises
    ------
    MissingExtraError
        If pyarrow is not installed.
    InputError
        If the file cannot be read, or lacks what must be there.
    """

    path: Path
    rows: int = ROWS

    def __iter__(self) -> Iterator[Batch]:
        file = self._open()
        names = file.schema_arrow.names
        columns = _outputs(names, self.path)
        label = next((name for name in ("label", "y") if name in names), None)
        wanted = [*columns, *([label] if label else []), *(["id"] if "id" in names else [])]
        for part in file.iter_batches(batch_size=self.rows, columns=wanted):
            values = np.stack([_numbers(part, name, self.path) for name in columns], axis=1)
            yield Batch(
                values[:, 0] if len(columns) == 1 else values,
                None if label is None else _numbers(part, label, self.path),
                np.array(part.column("id").to_pylist()) if "id" in names else None,
            )

    def __len__(self) -> int:
        return int(self._open().metadata.num_rows)

    def _open(self) -> Any:
        """Open the file; its rows are read later."""
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise MissingExtraError("reading .parquet", "parquet") from None
        try:
            return pyarrow.parquet.ParquetFile(self.path)
        except (pyarrow.ArrowInvalid, OSError):
            raise InputError(f"{self.path} must be a Parquet file; it cannot be read") from None


def as_batch(item: object) -> Batch:
    """Return what a loader gave as a batch.

    Parameters
    ----------
    item : Batch, sequence or array_like
        A batch; a tuple or list of outputs, labels and ids as a PyTorch DataLoader gives it
        (the last two may be missing); or outputs alone.

    Returns
    -------
    Batch
        Arrays.

    Raises
    ------
    InputError
        If it has more than three parts.
    """
    parts = item if isinstance(item, tuple | list) else (item,)
    if not 1 <= len(parts) <= 3:
        raise InputError(f"a batch must be outputs, labels and ids, got {len(parts)} parts")
    values, labels, ids = (*parts, None, None)[:3]
    return Batch(
        np.asarray(values),
        None if labels is None else np.asarray(labels),
        None if ids is None else np.asarray(ids),
    )


def _mapped(path: Path) -> npt.NDArray[Any]:
    """Map a file into memory."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"{path} must be a .npy file; it does not exist") from None
    except (ValueError, OSError, EOFError):
        raise InputError(f"{path} must be a .npy file without objects; it cannot be read") from None
    if not isinstance(found, np.ndarray):
        raise InputError(f"{path} must be a .npy file: an archive cannot be mapped into memory")
    return found


def _outputs(names: list[str], path: Path) -> tuple[str, ...]:
    """Return the columns that hold the outputs."""
    numbers = sorted(int(name[1:]) for name in names if re.fullmatch(r"p\d{1,6}", name))
    if numbers:
        if numbers != list(range(len(numbers))):
            raise InputError("columns p0, p1, ... must be numbered without a gap")
        return tuple(f"p{i}" for i in numbers)
    for group in _REGRESSION:
        if all(name in names for name in group):
            return group
    raise InputError(
        f"{path} must have columns p0, p1, ... or prediction, or lower and upper; "
        f"got {', '.join(names)}"
    )


def _numbers(part: Any, name: str, path: Path) -> npt.NDArray[Any]:
    """Return one column as numbers."""
    values: npt.NDArray[Any] = part.column(name).to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiu":
        raise InputError(f"{path}: column {name!r} must hold numbers in every row")
    return values
