"""Model outputs in Parquet tables; needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy.typing as npt

from fedwqcp._io import opened
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.outputs import Outputs
from fedwqcp.readers.tables import OUTPUT_BYTES, Cells, from_columns, no_memory


def from_parquet(path: Path, classes: tuple[str, ...] | None) -> Outputs:
    """Read a table whole."""
    with opened(path, OUTPUT_BYTES) as file:
        table = opened_table(path, file)
        with _unreadable(path):
            table = table.read()
            columns = {name: _cells(table[name]) for name in table.column_names}
    return from_columns(path, columns, classes)


def opened_table(path: Path, file: Path | BinaryIO) -> Any:
    """Open a table; its rows are read later, with `ParquetFile.read` or batch by batch."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("reading .parquet", "parquet") from None
    with _unreadable(path):
        return pyarrow.parquet.ParquetFile(file)


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
        whole = column.chunk(0) if column.num_chunks == 1 else column  # one part is not copied
        cells: npt.NDArray[Any] = whole.to_numpy()
        return cells
    found: list[object] = column.to_pylist()
    return found
