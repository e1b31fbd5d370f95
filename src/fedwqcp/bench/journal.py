"""Files to which records are only ever appended; a kill loses at most what was being written."""

from __future__ import annotations

import lzma
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from fedwqcp.bench.lines import from_line, to_line
from fedwqcp.bench.result import VERSION
from fedwqcp.errors import InputError, RecordError


class Line(Protocol):
    """A record: a frozen dataclass that knows what makes it one of its kind."""

    @property
    def key(self) -> tuple[Any, ...]:
        """What no other record of the file shares."""


R = TypeVar("R", bound=Line)


class Journal(Generic[R]):
    """Records of one kind in one file of JSON lines.

    Parameters
    ----------
    path : Path
        The file; it need not exist. A finished one may lie there packed, as ``.xz`` beside it.
    kind : type
        Their dataclass.
    """

    def __init__(self, path: Path, kind: type[R]) -> None:
        self.path = path
        self._kind: type[R] = kind

    def read(self) -> tuple[R, ...]:
        """Return the records in their order.

        Returns
        -------
        tuple of records
            None where there is no file. A last line without an end was torn and is left out.

        Raises
        ------
        RecordError
            If the file cannot be read, a line is damaged or of another version, or a key returns.
        """
        packed = self.path.with_name(f"{self.path.name}.xz")
        if not self.path.exists() and not packed.exists():
            return ()
        try:
            there = self.path.exists()
            text = self.path.read_bytes() if there else lzma.decompress(packed.read_bytes())
            lines = text[: _whole(text)].decode("utf-8").splitlines()
        except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
            raise RecordError(f"{self.path} cannot be read as records: {error}") from error
        records = tuple(
            from_line(line, self._kind, VERSION, f"{self.path}, line {number}")
            for number, line in enumerate(lines, 1)
        )
        if len({record.key for record in records}) < len(records):
            raise RecordError(f"{self.path}: the same row occurs twice; run the experiment again")
        return records

    def mend(self) -> bool:
        """Cut off a torn last line, which a kill can leave.

        Returns
        -------
        bool
            Whether there was one.
        """
        if not self.path.exists():
            return False
        whole = _whole(self.path.read_bytes())
        if whole == self.path.stat().st_size:
            return False
        os.truncate(self.path, whole)
        return True

    def append(self, records: Sequence[R]) -> None:
        """Write records behind the others, and wait until the disk has them.

        Parameters
        ----------
        records : sequence
            The records of one unit of work.

        Raises
        ------
        InputError
            If the file cannot be written, as when the disk is full; `mend` cuts off what was begun.
        """
        text = "".join(to_line(record) for record in records).encode()
        try:
            with self.path.open("ab", buffering=0) as file:
                file.write(text)
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(
                f"cannot write {self.path}: {error.strerror}; "
                "make room, then run the same command with --resume"
            ) from None


def _whole(text: bytes) -> int:
    """Return the length of the text up to the end of its last whole line."""
    return text.rfind(b"\n") + 1
