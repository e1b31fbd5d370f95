"""Model outputs read in batches: files and folders of any size, URIs, loaders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp.errors import InputError
from fedwqcp.outputs import Outputs, in_file
from fedwqcp.readers.arrays import mapped
from fedwqcp.readers.parquet import ParquetFiles
from fedwqcp.readers.tables import Cells, csv_parts, from_columns

LARGE = 2**26
"""Files of more bytes are read in batches by commands and sites; smaller ones whole."""
_ROWS = 2**16
_CELLS = 2**20
"""A batch has at most so many rows and, beyond a few hundred columns, so many numbers."""


class OutputBatches:
    """A model's outputs on disk, in a store or from a loader, read in batches.

    `calibrate` takes it in place of `Outputs`: it keeps the scores in a temporary file, 8 bytes for
    each row, and memory does not grow with the rows. Iterating gives `Outputs`.

    Parameters
    ----------
    source : str, Path or iterable
        A Parquet file, a folder of them, or the URI of either (``s3://``, ``gs://``, ``abfs://``
        and what else pyarrow reads); a CSV file; an ``.npy`` file. Or what gives `Outputs` or
        tuples of outputs, labels and ids each time it is iterated, such as a PyTorch DataLoader.
        Columns of tables are named as in every file of outputs.
    labels : str or Path, optional
        An ``.npy`` file with the labels, where the source has none.
    scores : bool, optional
        Whether the source is a table of scores: columns ``score``, ``label`` and ``group``.

    Raises
    ------
    InputError
        If there is no such file; what is wrong with its rows is said when they are read.
    MissingExtraError
        If Parquet is to be read, and pyarrow is not installed.

    Examples
    --------
    >>> import fedwqcp as fw
    >>> loader = [([[0.2, 0.8], [0.5, 0.5]], [1, 0]), ([[0.9, 0.1]], [0])]
    >>> batches = fw.OutputBatches(loader)
    >>> [len(part.values) for part in batches]
    [2, 1]
    >>> release = fw.calibrate({"here": batches}, alpha=0.4, score="lac")
    >>> round(release.threshold("here"), 6)
    0.5
    """

    def __init__(
        self,
        source: str | Path | Iterable[Any],
        labels: str | Path | None = None,
        *,
        scores: bool = False,
    ) -> None:
        self.name = str(source) if isinstance(source, str | Path) else "batches"
        self.scores = scores
        self._source, self._dataset = source, None
        self._labels = None if labels is None else Path(labels)
        if self._labels is not None:
            mapped(self._labels)
        if not isinstance(source, str | Path):
            if isinstance(source, Iterator):
                raise InputError("must be read again and again; an iterator is not", "source")
        elif self._suffix == ".npy":
            mapped(Path(source))
        elif self._suffix != ".csv":
            self._dataset = ParquetFiles(self.name)
        elif not Path(source).is_file():
            raise InputError(f"{source} must be a file; it does not exist")

    def __repr__(self) -> str:
        return f"OutputBatches({self.name!r})"

    def __iter__(self) -> Iterator[Outputs]:
        return (outputs for _, outputs in self.batches())

    @property
    def rows(self) -> int | None:
        """How many rows there are; None where only reading them would tell."""
        if self._dataset is not None:
            return self._dataset.rows
        if isinstance(self._source, str | Path) and self._suffix == ".npy":
            return len(mapped(Path(self._source)))
        return None

    @property
    def version(self) -> str:
        """What an interrupted reader compares before it goes on; empty for a loader."""
        if self._dataset is not None:
            version = self._dataset.version
        elif isinstance(self._source, str | Path):
            version = _version(Path(self._source))
        else:
            return ""
        return f"{version} {'' if self._labels is None else _version(self._labels)} {self.scores}"

    def first(self) -> Outputs:
        """Return the first batch."""
        batch = next(iter(self), None)
        if batch is None:
            raise InputError(f"{self.name} must hold at least one row, it holds none")
        return batch

    def batches(self, start: int = 0) -> Iterator[tuple[int, Outputs]]:
        """Give each batch with the number of its first row, from a row on."""
        row = start
        for part in self._read(start):
            outputs, n = part, len(part.values)
            if self._labels is not None:
                beside = mapped(self._labels)
                if self.rows not in (None, len(beside)):
                    raise InputError(
                        f"{self._labels} must hold {self.rows} labels, it holds {len(beside)}"
                    )
                with in_file(self._labels):
                    outputs = replace(part, labels=np.array(beside[row : row + n]))
            yield row, outputs
            row += n

    @property
    def _suffix(self) -> str:
        return Path(self.name).suffix if "://" not in self.name else ""

    def _read(self, start: int) -> Iterator[Outputs]:
        path = Path(self.name)
        if self._dataset is not None:
            for name, columns in self._dataset.batches(start, _rows_of):
                with in_file(Path(name)):
                    outputs = self._of_table(columns)
                yield outputs
        elif not isinstance(self._source, str | Path):
            yield from _of_loader(self._source, start)
        elif self._suffix == ".npy":
            shape = mapped(path).shape
            rows = _rows_of(shape[1] if len(shape) > 1 else 1)
            for first in range(start, shape[0], rows):  # mapped anew: what was read is let go
                yield Outputs(np.array(mapped(path)[first : first + rows]))
        elif self.scores:
            raise InputError(f"{path}: scores must be in Parquet, or in .npy beside their labels")
        else:
            yield from csv_parts(path, None, _ROWS // 4, start)

    def _of_table(self, columns: dict[str, Cells]) -> Outputs:
        if self.scores:
            if "score" not in columns:
                raise InputError(f"must have a column score, got {', '.join(columns)}")
            kept = [name for name in ("label", "group", "id") if name in columns]
            columns = {name: columns[name] for name in kept} | {"prediction": columns["score"]}
        return from_columns(columns, None)


def batched(path: str, labels: Path | None, *, scores: bool = False) -> OutputBatches | None:
    """Return a source that is to be read in batches; None for a small file, read whole."""
    if "://" in path or scores or any(Path(path).rglob("*.parquet")):  # other folders are images
        return OutputBatches(path, labels, scores=scores)
    known = Path(path).suffix in (".parquet", ".csv", ".npy") and Path(path).is_file()
    return OutputBatches(path, labels) if known and Path(path).stat().st_size > LARGE else None


def _rows_of(columns: int) -> int:
    return max(64, min(_ROWS, _CELLS // max(1, columns)))


def _version(path: Path) -> str:
    about = path.stat()
    return f"{path.resolve()} {about.st_size} {about.st_mtime_ns}"


def _of_loader(source: Iterable[Any], start: int) -> Iterator[Outputs]:
    if start:
        raise InputError("a loader must be read from its first row on")
    for number, item in zip(count(), source, strict=False):
        parts = item if isinstance(item, tuple | list) else (item,)
        if not 1 <= len(parts) <= 3:
            raise InputError(
                f"batch {number} must be Outputs, or outputs, labels and ids, got {len(parts)} "
                "parts"
            )
        if isinstance(item, Outputs):
            yield item
        else:
            arrays: list[npt.NDArray[Any]] = [np.asarray(part) for part in parts]
            yield Outputs(*arrays)
