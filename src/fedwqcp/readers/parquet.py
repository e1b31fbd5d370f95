"""Model outputs in Parquet tables; needs pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy.typing as npt

from fedwqcp._io import opened
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.outputs import Outputs, in_file
from fedwqcp.readers.tables import OUTPUT_BYTES, Cells, from_columns, no_memory

_BUFFER = 2**20
"""Bytes of a column that are read ahead."""


def from_parquet(path: Path, classes: tuple[str, ...] | None) -> Outputs:
    """Read a table whole."""
    parquet = _pyarrow("parquet")
    with opened(path, OUTPUT_BYTES) as file, _unreadable(path):
        table = parquet.ParquetFile(file).read()
        columns = {name: _cells(table[name]) for name in table.column_names}
    with in_file(path):
        return from_columns(columns, classes)


class ParquetFiles:
    """Parquet files as one table: a file, a folder, or the URI of either."""

    def __init__(self, source: str) -> None:
        dataset, self._parquet = _pyarrow("dataset"), _pyarrow("parquet")
        self._pool = _pyarrow("lib").default_memory_pool()
        try:
            table = dataset.dataset(source, format="parquet")
        except Exception as error:  # whatever a file system raises
            why = str(error).splitlines()[0][:200]
            raise InputError(f"{source} must be Parquet files that can be read: {why}") from None
        self.files, self._system = tuple(table.files), table.filesystem
        if not self.files:
            raise InputError(f"{source} must hold Parquet files, it holds none")
        self.rows: int = sum(self._open(name).metadata.num_rows for name in self.files)

    @property
    def version(self) -> str:
        """Names, sizes and times of the files."""
        infos = self._system.get_file_info(list(self.files))
        return " ".join(f"{info.path} {info.size} {info.mtime_ns}" for info in infos)

    def batches(
        self, start: int, rows_of: Callable[[int], int]
    ) -> Iterator[tuple[str, dict[str, Cells]]]:
        """Give batches of columns with the name of their file, from a row on.

        A batch begins at a multiple of ``rows_of(columns)`` in its row group, wherever the reading
        begins. Of a file the next bytes alone are in memory, however large its row groups are.
        """
        for name in self.files:
            file = self._open(name)
            with _unreadable(Path(name)):
                columns = [f.name for f in file.schema_arrow if _is_read(f.type)]
            for group in range(file.num_row_groups):
                n = file.metadata.row_group(group).num_rows
                if start >= n:
                    start -= n
                    continue
                options = {"row_groups": [group], "columns": columns, "use_threads": False}
                parts = file.iter_batches(batch_size=rows_of(len(columns)), **options)
                while True:
                    with _unreadable(Path(name)):
                        part = next(parts, None)
                    if part is None:
                        break
                    taken, start = part.slice(start), max(0, start - len(part))
                    if len(taken):
                        yield name, {key: _cells(taken[key]) for key in columns}
                    self._pool.release_unused()  # else its size varies by a tenth

    def _open(self, name: str) -> Any:
        with _unreadable(Path(name)):
            file = self._system.open_input_file(name)
            return self._parquet.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER)


def _pyarrow(module: str) -> Any:
    try:
        return import_module(f"pyarrow.{module}")
    except ImportError:
        raise MissingExtraError("reading .parquet", "parquet") from None


def _is_read(kind: Any) -> bool:
    """Tell whether a column is of numbers or text, which all that are read are."""
    from pyarrow import types

    scalar = types.is_primitive(kind) or types.is_string(kind) or types.is_large_string(kind)
    return bool(scalar or types.is_decimal(kind) or types.is_dictionary(kind))


@contextmanager
def _unreadable(path: Path) -> Iterator[None]:
    """Name the file where it takes too much memory, or pyarrow did not write it."""
    try:
        yield
    except MemoryError:
        raise no_memory(path) from None
    except Exception:  # whatever pyarrow raises on bytes that it did not write
        raise InputError(f"{path} must be a Parquet file; it cannot be read") from None


def _cells(column: Any) -> Cells:
    """Return a column of a Parquet table: numbers as an array, others as they are in Python."""
    import pyarrow.types

    of_numbers = pyarrow.types.is_floating(column.type) or pyarrow.types.is_integer(column.type)
    if of_numbers and not column.null_count:
        one = column.chunk(0) if getattr(column, "num_chunks", 0) == 1 else column  # is not copied
        cells: npt.NDArray[Any] = one.to_numpy()
        return cells
    objects: list[object] = column.to_pylist()
    return objects
