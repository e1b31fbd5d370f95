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

ROWS = 128


@jit
def rounded(x: Any) -> float:
    """Return a probability rounded to a multiple of 2^-52: sums of such are exact."""
    return (np.float64(x) + 1.0) - 1.0


@jit
def load(probs: Probabilities, side: Probabilities) -> None:
    """Put rows side by side."""
    for j in range(probs.shape[1]):
        for i in range(len(probs)):
            side[j, i] = probs[i, j]


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
def write_rows(
    probs: Probabilities, labels: Labels, order: tuple[Probabilities, Integers], out: Out
) -> None:
    """Write what is wanted of rows, given their values in order and how many of them fit."""
    side, n = order
    _, fits, label, ahead, mask = out
    least, beyond, own = side[-3], side[-2], side[-1]  # room for one more value of each row
    for i in range(len(probs)):
        least[i] = side[n[i], i]
    for i in range(len(probs)):
        beyond[i] = side[n[i] + 1, i]
    for i in range(len(probs)):
        fits[i] = n[i]
    for i in range(len(labels)):
        own[i] = probs[i, labels[i]]
    for i in range(len(labels)):
        ahead[i] = own[i] >= least[i]
    for i in range(len(mask)):
        for j in range(mask.shape[1]):
            mask[i, j] = probs[i, j] >= least[i]
    singly = label.size > 0
    for i in range(len(probs)):
        singly |= rounded(least[i]) == rounded(beyond[i])
    for i in range(len(probs) if singly else 0):
        if label.size or rounded(least[i]) == rounded(beyond[i]):  # equals around the crossing
            write(i, probs[i], labels, (side[1:-3, i], n[i]), out)


@jit
def crossings_of_few(
    probs: Probabilities, labels: Labels, limits: tuple[Floats, Truth], out: Out, pairs: Integers
) -> Truth:
    """Do what `crossings` does, for rows of few labels."""
    rows, C = probs.shape
    masses, fits, label, ahead, mask = out
    side = np.empty((C + 5, ROWS), probs.dtype)
    side[:], side[0], side[C + 1] = 1.0 / C, 2.0, -1.0  # before all labels, and after the last
    n, total = np.empty(ROWS, np.int64), np.empty(ROWS)
    sound = True
    for start in range(0, rows, ROWS):
        some = slice(start, min(start + ROWS, rows))
        load(probs[some], side[1:])
        descend(side[1 : C + 1], pairs)
        sound &= settle(side[1 : C + 1], limits, total, n)
        part = (masses[:, some], fits[some], label[some], ahead[some], mask[some])
        write_rows(probs[some], labels[some], (side, n), part)
    return sound
