"""An agent's calibration data on disk: scores in sorted runs, by class and group."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

import msgspec
import numpy as np
import numpy.typing as npt

from fedwqcp._io import exists, from_json, make_folder, open_private, read, to_json, write_atomic
from fedwqcp._validation import Floats, Labels, Texts, unchecked
from fedwqcp.errors import InputError
from fedwqcp.groups import combinations
from fedwqcp.methods._calibration import Calibration
from fedwqcp.quantile import Scores
from fedwqcp.stored import SortedRun, StoredScores, refuse

ROWS = 2**20
"""So many rows are sorted at a time, which takes about 50 MB."""
_NONE = -1
"""Class or group of a row that has none."""
_GROUPS = 2**32
"""A row's class and group are one number: class * _GROUPS + group + 1."""
_ODD = np.uint64(0x9E3779B97F4A7C15)


class _Piece(msgspec.Struct, frozen=True, array_like=True):
    """Scores of one class, group and column that were sorted together, in the file of scores."""

    label: int
    group: int  # which combination of groups
    column: int
    start: int
    length: int
    digest: int  # a sum over the scores, whatever their order


class _Sorted(NamedTuple):
    piece: _Piece
    run: SortedRun


class StoredCalibration(Calibration):
    """Calibration data whose scores are on disk; ``labels`` and ``groups`` hold each value once."""

    parts: tuple[_Sorted, ...]
    names: tuple[tuple[str, ...], ...]  # of each combination of groups
    facts: dict[str, list[int]]  # what was counted while the rows were read

    @property
    def n(self) -> int:
        """Number of calibration points."""
        return sum(part.piece.length for part in self.parts) // self.columns

    @property
    def columns(self) -> int:
        """Number of scores of a point that have a threshold of their own."""
        return max(1, len({part.piece.column for part in self.parts}))

    @property
    def scores(self) -> Scores:  # type: ignore[override]  # in place of an array
        """The scores of all points."""
        return StoredScores([part.run for part in self.parts])

    def column(self, index: int) -> StoredCalibration:
        """Return the same points with one column of the scores."""
        kept = [part for part in self.parts if part.piece.column == index]
        return unchecked(self, parts=tuple(kept))

    def part(self, *, label: int | None = None, group: str | None = None) -> Calibration:
        """Return the points of one class, or of one group."""
        places = [code for code, names in enumerate(self.names) if group in names]
        kept = [
            part
            for part in self.parts
            if (part.piece.label == label if group is None else part.piece.group in places)
        ]
        return unchecked(self, parts=tuple(kept))

    def by_class(self, method: str) -> list[Scores]:
        """Return the scores of each class, for a method that needs them."""
        return [self.part(label=c).scores for c in range(self.class_count(method))]

    def sizes(self, *kinds: str) -> npt.NDArray[np.int64]:
        """Return how many points each class has, each combination of groups, or both crossed."""
        cells = Counter[tuple[int, ...]]()
        for piece, _ in self.parts:
            by = {"class": piece.label, "group": piece.group}
            cells[tuple(by[kind] for kind in kinds)] += piece.length
        return np.array(list(cells.values()), dtype=np.int64) // self.columns

    def digest(self) -> str:
        """Return a digest by which the same sample is known again; it stays at the agent."""
        sums = Counter[tuple[int, tuple[str, ...], int]]()
        for piece, _ in self.parts:
            names = self.names[piece.group] if piece.group != _NONE else ()
            sums[piece.label, names, piece.column] += piece.digest
        return " ".join(f"{key}:{sums[key] % 2**64:x}" for key in sorted(sums))

    def take(self, rows: npt.NDArray[Any] | slice) -> Calibration:
        """Return some of the points, in memory; of a row its class and group alone are known."""
        chosen, first = np.sort(np.arange(self.n)[rows]), 0
        scores, cells = [], []
        for parts in zip(*(self.column(k).parts for k in range(self.columns)), strict=True):
            piece = parts[0].piece
            places = chosen[(chosen >= first) & (chosen < first + piece.length)] - first
            first += piece.length
            values = [part.run.read(0, piece.length)[places] for part in parts]
            scores.append(np.stack(values, axis=1))
            cells.append(np.tile([piece.label, piece.group], (len(places), 1)))
        labels, groups = np.concatenate(cells).T
        return Calibration(
            np.concatenate(scores) if self.columns > 1 else np.concatenate(scores)[:, 0],
            None if self.labels is None else labels,
            n_classes=self.n_classes,
            groups=None if self.groups is None else self.groups[groups],
            classes=self.classes or None,
        )

    def labelled(self, method: object) -> NoReturn:
        """Refuse, as `featured` does: rows have no order here."""
        refuse(method)

    featured = labelled

    def __repr__(self) -> str:
        return f"StoredCalibration(n={self.n})"


class _Progress(msgspec.Struct):
    """What is written so far: enough to go on from here."""

    source: str
    rows: int = 0
    end: int = 0  # scores in the file
    pieces: list[_Piece] = []
    names: list[tuple[str, ...]] = []
    n_classes: int | None = None
    classes: tuple[str, ...] = ()
    labelled: bool = False
    grouped: bool = False
    most_groups: int = 0  # of a point; 0 where groups do not overlap
    facts: dict[str, list[int]] = {}
    ids: bytes = b""  # of the rows, as their reader keeps them

    def groups(self) -> Texts:
        """Return each combination of groups once, as rows of a `Calibration` have them."""
        if not self.most_groups:
            return np.array([name for (name,) in self.names], dtype=np.str_)
        padded = [[*names, *[""] * (self.most_groups - len(names))] for names in self.names]
        return np.array(padded, dtype=np.str_)


class ScoreStore:
    """Takes calibration data in batches and keeps their scores in a folder, sorted in runs.

    As a context it removes the folder at its end, unless it is interrupted: a store of the same
    source then goes on from the rows that were kept.

    Parameters
    ----------
    folder : Path
        Made where it is missing, for its owner alone.
    source : str
        What is read, with its version: what is left of another one is overwritten.
    """

    def __init__(self, folder: Path, source: str) -> None:
        self.folder, self._waiting = folder, list[tuple[Floats, Labels]]()
        make_folder(folder, private=True)
        path = folder / "state.json"
        left = from_json(read(path), _Progress) if exists(path) else None
        self._file = open_private(folder / "scores")
        size = os.fstat(self._file.fileno()).st_size
        if left is None or left.source != source or size < 8 * left.end:
            left = _Progress(source)
        self.state = left
        self._file.truncate(8 * left.end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._file.close()
        if kind is None or issubclass(kind, Exception):
            shutil.rmtree(self.folder, ignore_errors=True)

    def add(self, cal: Calibration, rows: int | None = None) -> None:
        """Take in a batch; of features nothing is kept. Of ``rows`` some may be left out."""
        if cal.weights is not None:
            refuse()
        state, n = self.state, cal.n
        state.n_classes, state.classes = cal.n_classes, cal.classes
        state.labelled, state.grouped = cal.labels is not None, cal.groups is not None
        groups: Labels | int = _NONE
        if cal.groups is not None and n:
            codes = combinations(cal.groups)
            firsts = cal.groups[np.unique(codes, return_index=True)[1]].reshape(codes.max() + 1, -1)
            none = {""} if cal.groups.ndim == 2 else set[str]()
            names = [tuple(sorted(set(row) - none)) for row in firsts.tolist()]
            state.names += [name for name in names if name not in state.names]
            groups = np.array([state.names.index(name) for name in names], np.int64)[codes]
            state.most_groups = max(state.most_groups, cal.groups.ndim == 2 and cal.groups.shape[1])
        codes = (np.full(n, _NONE) if cal.labels is None else cal.labels) * _GROUPS + groups + 1
        self._waiting.append((cal.scores.reshape(n, cal.columns), codes))
        state.rows += n if rows is None else rows

    def count(self, facts: Mapping[str, Sequence[int]]) -> None:
        """Add up what is counted over all rows."""
        for name, numbers in facts.items():
            before = self.state.facts.get(name, [0] * len(numbers))
            self.state.facts[name] = [a + b for a, b in zip(before, numbers, strict=True)]

    @property
    def full(self) -> bool:
        """Whether it is time to `write`."""
        return sum(len(scores) for scores, _ in self._waiting) >= ROWS

    def write(self) -> None:
        """Sort what waits, and write it down."""
        state = self.state
        if self._waiting:
            scores, codes = map(np.concatenate, zip(*self._waiting, strict=True))
            self._waiting = []
            order = np.argsort(codes, kind="stable")
            ends = np.flatnonzero(np.diff(codes[order])) + 1
            for rows in np.split(order, ends) if len(order) else ():
                label, group = divmod(int(codes[rows[0]]), _GROUPS)
                for column in range(scores.shape[1]):
                    values = np.sort(scores[rows, column]) + 0.0  # one zero
                    self._append(values, label, group - 1, column)
        self._file.flush()
        os.fsync(self._file.fileno())
        write_atomic(self.folder / "state.json", to_json(state))

    def _append(self, values: Floats, label: int, group: int, column: int) -> None:
        words = values.view(np.uint64) * _ODD
        words = (words ^ (words >> np.uint64(29))) * _ODD
        digest = int((words ^ (words >> np.uint64(32))).sum(dtype=np.uint64))
        self._file.seek(8 * self.state.end)
        self._file.write(values.tobytes())
        piece = _Piece(label, group, column, self.state.end, len(values), digest)
        self.state.pieces.append(piece)
        self.state.end += len(values)

    def calibration(self) -> StoredCalibration:
        """Return all rows; they can be read until the store ends."""
        self.write()
        state, cal = self.state, object.__new__(StoredCalibration)
        if not state.rows:
            raise InputError("there must be at least one row, got none")
        runs = (SortedRun(self._file, piece.start, piece.length) for piece in state.pieces)
        labels = sorted({piece.label for piece in state.pieces})
        fields = {
            "labels": np.array(labels, dtype=np.int64) if state.labelled else None,
            "features": None,
            "n_classes": state.n_classes,
            "groups": state.groups() if state.grouped else None,
            "weights": None,
            "classes": state.classes,
            "parts": tuple(map(_Sorted, state.pieces, runs)),
            "names": tuple(state.names),
            "facts": state.facts,
        }
        cal.__dict__.update(fields)
        return cal
