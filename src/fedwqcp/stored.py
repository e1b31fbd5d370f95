"""Scores on disk in sorted runs: order statistics and counts in a memory that hardly grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import BinaryIO, NoReturn

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Floats
from fedwqcp.errors import InputError

BLOCK = 256
"""One score of so many is in memory: a sixteenth of a byte for each row at most."""
_READ = 2**18
"""So many scores are read at a time."""


@dataclass(frozen=True)
class SortedRun:
    """Sorted scores that lie together in a file of float64."""

    file: BinaryIO
    start: int
    length: int
    heads: Floats = field(init=False, repr=False)  # every BLOCK-th score, from the first on

    def __post_init__(self) -> None:
        parts = range(0, self.length, _READ)
        heads = [self.read(first, first + _READ)[::BLOCK].copy() for first in parts]
        object.__setattr__(self, "heads", np.concatenate(heads or [np.empty(0)]))

    def read(self, first: int, end: int) -> Floats:
        """Return the scores from one place to another."""
        end = min(end, self.length)
        self.file.seek(8 * (self.start + first))
        values = np.frombuffer(self.file.read(8 * max(0, end - first)), np.float64)
        if len(values) != max(0, end - first):
            raise InputError("the scores on disk were changed while they were read")
        return values


class StoredScores:
    """A sample of scores as sorted runs on disk.

    `quantile` reads ranks and counts from it as from an array; what needs every score at once is
    refused.
    """

    ndim = 1

    def __init__(self, runs: Sequence[SortedRun]) -> None:
        self.runs = tuple(run for run in runs if run.length)
        self._length = sum(run.length for run in self.runs)
        self._heads = np.sort(np.concatenate([np.empty(0), *(run.heads for run in self.runs)]))

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"StoredScores(n={len(self)})"

    def order_statistic(self, rank: int) -> float:
        """Return the rank-th smallest score, counted from 1.

        With k heads of a run up to v, from BLOCK (k - 1) + 1 to BLOCK k of its scores are at most
        v. So two heads bracket the score, and few blocks lie between them.
        """
        heads = self._heads
        low = (rank - 1) // BLOCK - 1  # so many heads and one more: fewer than rank scores
        if low >= 0 and BLOCK * int(np.searchsorted(heads, heads[low], "right")) >= rank:
            tie = float(heads[low])  # unless several are equal
            if self.count([tie])[0] >= rank:
                return tie
        high = (rank + (BLOCK - 1) * len(self.runs) - 1) // BLOCK
        top = float(heads[high]) if high < len(heads) else inf
        if BLOCK * int(np.searchsorted(heads, top)) < rank:  # too few lie below it
            return top
        parts, skipped = [], 0
        for run in self.runs:
            known = int(np.searchsorted(run.heads, heads[low], "right")) if low >= 0 else 0
            first, end = BLOCK * max(0, known - 1), BLOCK * int(np.searchsorted(run.heads, top))
            parts.append(run.read(first, max(first, end)))
            skipped += first
        between, i = np.concatenate(parts), rank - 1 - skipped
        return min(top, float(np.partition(between, i)[i])) if i < len(between) else top

    def count(self, values: Sequence[float] | Floats) -> npt.NDArray[np.int64]:
        """Return how many scores are at most each value."""
        counts = np.zeros(len(values), np.int64)
        for run in self.runs:
            blocks = np.searchsorted(run.heads, values, "right")
            for i, (block, value) in enumerate(zip(blocks.tolist(), values, strict=True)):
                if block:
                    first = BLOCK * (block - 1)
                    inside = np.searchsorted(run.read(first, first + BLOCK), value, "right")
                    counts[i] += first + int(inside)
        return counts

    def min(self, initial: float = inf) -> float:
        """Return the smallest score."""
        return self.order_statistic(1) if len(self) else initial

    def max(self, initial: float = -inf) -> float:
        """Return the largest score."""
        return self.order_statistic(len(self)) if len(self) else initial

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        refuse()

    __array__ = __getitem__ = __iter__ = __lt__ = __gt__ = __le__ = __ge__ = tolist = _refuse
    size = shape = property(_refuse)


def refuse(*_: object) -> NoReturn:
    """Refuse what needs every score in memory."""
    raise InputError(
        "this needs every score in memory, and they were read in parts",
        cure=(
            "give fewer rows, or use auto, split-cp, fcp or fedwq-cp, which read ranks and counts "
            "alone",
        )
        * 2,
    )
