"""Compiled loops for few classes: many rows are sorted side by side.

A sorting network compares the same places in every row, so that the processor sorts several rows
with each instruction. A label's key is its probability in fixed point, then its index, smaller
first: no two keys of a row are equal.
"""

from __future__ import annotations

import numpy as np

from fedwqcp.arrays import Bools, Floats, Labels, Probabilities
from fedwqcp.kernels._cross import most_by_top
from fedwqcp.kernels._jit import Truth, Whole, jit
from fedwqcp.kernels._rows import BASE, ONE, SURE_FIXED, UNIT
from fedwqcp.kernels.compiled import Integers

ROWS = 64
INDEX = np.int64(1023)
"""The ten bits of a key that hold the index, counted down."""


@jit
def load(probs: Probabilities, start: Whole, rows: Whole, side: Floats) -> None:
    """Put some rows side by side."""
    for i in range(rows):
        for j in range(len(side)):
            side[j, i] = probs[start + i, j]


@jit
def to_keys(side: Floats, keys: Integers, total: Integers) -> Truth:
    """Make keys of probabilities; tell whether the rows are sound."""
    sound = True
    for i in range(ROWS):
        total[i] = -ONE
    for j in range(len(keys)):
        for i in range(ROWS):
            x = side[j, i]
            p = np.float64(x + 1.0).view(np.int64) - BASE
            sound &= x >= 0
            total[i] += p
            keys[j, i] = (min(p, ONE) << 10) | (INDEX - j)
    for i in range(ROWS):
        sound &= abs(total[i]) <= SURE_FIXED
    return sound


@jit
def descend(keys: Integers, pairs: Integers) -> None:
    """Sort every column, largest key first."""
    for k in range(len(pairs)):
        a, b = pairs[k, 0], pairs[k, 1]
        for i in range(ROWS):
            x, y = keys[a, i], keys[b, i]
            keys[a, i] = max(x, y)
            keys[b, i] = min(x, y)


@jit
def add_up(keys: Integers, sums: Integers) -> None:
    """Add up the masses of the leading labels of every column; all together have mass 1."""
    C = len(keys)
    for i in range(ROWS):
        sums[0, i] = 0
    for k in range(C):
        for i in range(ROWS):
            sums[k + 1, i] = sums[k, i] + (keys[k, i] >> 10)
    for i in range(ROWS):
        sums[C, i] = ONE


@jit
def count(sums: Integers, limits: Integers, n: Integers) -> None:
    """Count the leading labels of every column that fit."""
    for i in range(ROWS):
        n[i] = 0
    for k in range(1, len(sums)):
        limit = limits[k] if limits[k] < ONE else np.int64(2**62)  # a sum beyond 1 counts as 1
        for i in range(ROWS):
            n[i] += sums[k, i] <= limit


@jit
def crossings_of_few(
    probs: Probabilities,
    labels: Labels,
    limits: tuple[Integers, Integers],
    out: tuple[Floats, Integers, Bools, Bools],
    pairs: Integers,
) -> Truth:
    """Do what `crossings` does, for rows of few labels."""
    rows, C = probs.shape
    by_mass, by_top = limits
    masses, found, ahead, mask = out
    keys = np.empty((C, ROWS), np.int64)
    side, sums = np.full((C, ROWS), 1.0 / C), np.empty((C + 1, ROWS), np.int64)
    n, total = np.empty(ROWS, np.int64), np.empty(ROWS, np.int64)
    sound = True
    for start in range(0, rows, ROWS):
        some = min(ROWS, rows - start)
        load(probs, start, some, side)
        sound &= to_keys(side, keys, total)
        descend(keys, pairs)
        add_up(keys, sums)
        count(sums, by_mass, n)
        if by_top.size:
            for i in range(ROWS):
                n[i] = most_by_top(keys[0, i] >> 10, by_top)
        for i in range(some):
            row, k, mass = start + i, n[i], min(sums[n[i], i], ONE)
            key = keys[k, i] if k < C else np.int64(-1)
            masses[0, row] = mass * UNIT
            masses[1, row] = 1.0 if k >= C - 1 else min(mass + (key >> 10), ONE) * UNIT
            masses[2, row] = (keys[0, i] >> 10) * UNIT
            found[0, row] = k + 1
            found[1, row] = INDEX - (key & INDEX) if k < C else np.int64(-1)
            if labels.size:
                ahead[row] = key_of(probs[row, labels[row]], labels[row]) > key
            if mask.size:
                for j in range(C):
                    mask[row, j] = key_of(probs[row, j], j) > key
    return sound


@jit
def key_of(x: float, label: Whole) -> Whole:
    """Return the key of one label."""
    p = np.float64(np.float64(x) + 1.0).view(np.int64) - BASE
    return (min(p, ONE) << 10) | (INDEX - label)
