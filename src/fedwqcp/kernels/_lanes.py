"""Compiled loops for few classes: many rows are sorted side by side.

A sorting network compares the same places in every row, so that the processor sorts several rows
with each instruction. Only values are sorted: labels are told apart afterwards, by the value at
which their row crosses, and by index where equals stand on both sides of the crossing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedwqcp.arrays import Floats, Labels, Probabilities
from fedwqcp.kernels._jit import Truth, Whole, jit
from fedwqcp.kernels._rows import SURE
from fedwqcp.kernels._wide import Out
from fedwqcp.kernels.compiled import Integers

ROWS = 64


@jit
def rounded(x: Any) -> float:
    """Return a probability rounded to a multiple of 2^-52: sums of such are exact."""
    return (np.float64(x) + 1.0) - 1.0


@jit
def load(probs: Probabilities, start: Whole, rows: Whole, side: Probabilities) -> None:
    """Put some rows side by side."""
    for i in range(rows):
        for j in range(len(side)):
            side[j, i] = probs[start + i, j]


@jit
def descend(side: Probabilities, pairs: Integers) -> None:
    """Sort every column, largest first."""
    for k in range(len(pairs)):
        a, b = pairs[k, 0], pairs[k, 1]
        for i in range(ROWS):
            x, y = side[a, i], side[b, i]
            side[a, i] = x if x > y else y
            side[b, i] = y if x > y else x


@jit
def settle(side: Probabilities, limits: tuple[Floats, Truth], total: Floats, n: Integers) -> Truth:
    """Count the leading labels of every column that fit; tell whether all columns are sound."""
    at, by_top = limits
    C = len(side)
    for i in range(ROWS):
        total[i], n[i] = 0.0, 0
    for k in range(C):
        limit = at[k + 1]
        for i in range(ROWS):
            total[i] += rounded(side[k, i])
            n[i] += (rounded(side[0, i]) if by_top else total[i]) <= limit
    sound = True
    for i in range(ROWS):
        sound &= (abs(total[i] - 1) <= SURE) & (side[C - 1, i] >= 0)
    return sound


@jit
def crossing_label(row: Probabilities, value: float, n: Whole) -> Whole:
    """Return the label that n others stand before, given its value."""
    skip = n
    for j in range(row.size):
        skip -= rounded(row[j]) > value
    for j in range(row.size):
        if rounded(row[j]) == value:
            if skip == 0:
                return np.int64(j)
            skip -= 1
    return np.int64(-1)


@jit
def store(i: Whole, column: Probabilities, n: Whole, masses: Floats) -> None:
    """Write the masses at the crossing; the label ranked last reaches exactly 1."""
    C, before = column.size - 1, 0.0
    for k in range(n):
        before += rounded(column[k])
    masses[0, i] = 1.0 if n == C else min(before, 1.0)
    masses[1, i] = 1.0 if n >= C - 1 else min(before + rounded(column[n]), 1.0)
    masses[2, i] = min(rounded(column[0]), 1.0)


@jit
def write(
    i: Whole, row: Probabilities, labels: Labels, order: tuple[Probabilities, Whole], out: Out
) -> None:
    """Write what is wanted of one row, given its values in order and how many of them fit."""
    masses, _, label, ahead, mask = out
    column, n = order
    value = rounded(column[n])
    at = crossing_label(row, value, n)
    if label.size:
        label[i] = at
        store(i, column, n, masses)
    if labels.size:
        p = rounded(row[labels[i]])
        ahead[i] = (p > value) | ((p == value) & (labels[i] < at))
    for j in range(row.size if mask.size else 0):
        p = rounded(row[j])
        mask[i, j] = (p > value) | ((p == value) & (j < at))


@jit
def crossings_of_few(
    probs: Probabilities, labels: Labels, limits: tuple[Floats, Truth], out: Out, pairs: Integers
) -> Truth:
    """Do what `crossings` does, for rows of few labels."""
    rows, C = probs.shape
    _, rank, label, ahead, mask = out
    side = np.empty((C + 1, ROWS), probs.dtype)
    side[:C], side[C] = 1.0 / C, -1.0  # no label stands after the last
    n, total = np.empty(ROWS, np.int64), np.empty(ROWS)
    sound = True
    for start in range(0, rows, ROWS):
        some = min(ROWS, rows - start)
        load(probs, start, some, side[:C])
        descend(side[:C], pairs)
        sound &= settle(side[:C], limits, total, n)
        for i in range(some):
            row, k = start + i, n[i]
            rank[row] = k + 1
            least = side[k - 1, i] if k else side.dtype.type(2)  # no label has 2
            if label.size or rounded(least) == rounded(side[k, i]):  # equals around the crossing
                write(row, probs[row], labels, (side[:, i], k), out)
                continue
            if labels.size:
                ahead[row] = probs[row, labels[row]] >= least
            for j in range(C if mask.size else 0):
                mask[row, j] = probs[row, j] >= least
    return sound
