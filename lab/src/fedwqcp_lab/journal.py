"""Files to which records are only ever appended; a kill loses at most what was being written."""

from __future__ import annotations

import lzma
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from fedwqcp.demo.lines import from_line, to_line
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.files import write_atomic
from fedwqcp_lab.result import VERSION


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
        self._packed = path.with_name(f"{path.name}.xz")
        self._kind: type[R] = kind

    @property
    def exists(self) -> bool:
        """Whether there is a file, plain or packed."""
        return self.path.exists() or self._packed.exists()

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
        if not self.exists:
            return ()
        text = self._text()
        try:
            lines = text[: _whole(text)].decode("utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise RecordError(f"{self.path} cannot be read as records: {error}") from error
        records = tuple(
            from_line(line, self._kind, VERSION, f"{self.path}, line {number}")
            for number, line in enumerate(lines, 1)
        )
        if len({record.key for record in records}) < len(records):
            raise RecordError(f"{self.path}: the same row occurs twice; run the experiment again")
        return records

    def mend(self) -> bool:
        """Make ready for `append`: cut off a torn last line, which a kill can leave, and unpack.

        Returns
        -------
        bool
            Whether there was a torn line.

        Raises
        ------
        RecordError
            If the file cannot be read.
        """
        if not self.exists:
            return False
        text = self._text()
        if not self.path.exists():  # an appended plain file would hide the packed one
            write_atomic(self.path, text)
        whole = _whole(text)
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
                while text:  # a disk that becomes full takes a part, and only then refuses
                    text = text[file.write(text) :]
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(
                f"cannot write {self.path}: {error.strerror}; "
                "make room, then run the same command with --resume"
            ) from None

    def _text(self) -> bytes:
        """Read the file, packed or not."""
        try:
            if self.path.exists():
                return self.path.read_bytes()
            return lzma.decompress(self._packed.read_bytes())
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise RecordError(f"{self.path} cannot be read as records: {error}") from error


def _whole(text: bytes) -> int:
    """Return the length of the text up to the end of its last whole line."""
    return text.rfind(b"\n") + 1
