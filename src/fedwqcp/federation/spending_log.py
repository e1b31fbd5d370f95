"""What answers spent, on disk before they leave: a folder with one numbered file for each.

A file is written whole, and a number only once, also where two processes write at the same time; so
neither a crash nor a race gives anything back. ``count.json`` says how many there are, so that one
that is lost is missed, the last one too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from fedwqcp._io import (
    exists,
    from_json,
    in_folder,
    locked,
    make_folder,
    read,
    sync_folder,
    to_json,
    write_atomic,
)
from fedwqcp.errors import RecordError

E = TypeVar("E", bound=msgspec.Struct)

COUNT = "count.json"
"""How many answers were ever given."""


class _Count(msgspec.Struct):
    answers: Annotated[int, Meta(ge=0)]


class SpendingLog(Generic[E]):
    """The entries of one folder; they are only ever added to."""

    def __init__(self, folder: Path, kind: type[E]) -> None:
        self.folder = folder
        self._kind = kind

    def append(self, charge: Callable[[list[E]], E | None]) -> None:
        """Add the entry that ``charge`` returns, given all earlier ones; None adds nothing.

        It is asked again where another process was quicker.
        """
        while True:
            before = self.read()
            entry = charge(before)
            if entry is None:
                if before:
                    self._count_up(len(before))  # a crash may have come before it was counted
                return
            if not before:
                self.begin()
            path = self.folder / f"{len(before) + 1:06d}.json"
            if write_atomic(path, to_json(entry, indent=1), replace=False):
                self._count_up(len(before) + 1)
                sync_folder(self.folder)
                return  # else another process took this number: look again

    def begin(self) -> None:
        """Make the folder of no answer yet."""
        make_folder(self.folder, private=True)
        write_atomic(self.folder / COUNT, to_json(_Count(0)), replace=False)

    def read(self) -> list[E]:
        """Return all entries in order; a gap or a damaged file is refused.

        The count is read first: another process writes its entry before it counts it.
        """
        counted = exists(self.folder / COUNT)
        count = _count(self.folder / COUNT) if counted else 0
        paths = in_folder(self.folder, "[0-9]*.json")
        for number, path in enumerate(paths, 1):
            if path.name != f"{number:06d}.json":
                raise _missing(self.folder, f"{number:06d}.json")
        entries = [self._entry(path) for path in paths]
        if paths and not counted and not exists(self.folder / COUNT):
            raise _missing(self.folder, COUNT)
        if count > len(paths):
            raise _missing(self.folder, f"{len(paths) + 1:06d}.json")
        return entries

    def _entry(self, path: Path) -> E:
        entry = from_json(read(path), self._kind)
        if entry is None:
            raise RecordError(f"{path} is damaged: it must say what an answer spent; restore it")
        return entry

    def _count_up(self, answers: int) -> None:
        """Keep how many answers there are; it never falls."""
        with locked(self.folder):
            if _count(self.folder / COUNT) < answers:
                write_atomic(self.folder / COUNT, to_json(_Count(answers)))


def _missing(folder: Path, name: str) -> RecordError:
    return RecordError(f"{folder} is damaged: {name} is missing; restore it")


def _count(path: Path) -> int:
    count = from_json(read(path), _Count)
    if count is None:
        raise RecordError(f"{path} is damaged: it must say how many answers left; restore it")
    return count.answers
