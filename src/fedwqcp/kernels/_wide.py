"""Compiled loops over rows of many labels: where each row passes its threshold.

How many labels fit is searched for in steps first (`_search`), and exactly where that does not
settle it or where more than the number is wanted (`_cross`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fedwqcp.arrays import Bools, Floats, Labels, Probabilities
from fedwqcp.kernels._cross import cross_row
from fedwqcp.kernels._jit import Truth, Whole, jit, jit_inline
from fedwqcp.kernels._rows import ONE, UNIT, place_exactly
from fedwqcp.kernels._search import LANES, UNSURE, Steps, above, load, lowest, search
from fedwqcp.kernels.compiled import Integers

Out: TypeAlias = tuple[Floats, Integers, Labels, Bools, Bools]
"""Masses (before, upto, top), rank, label, whether the true label is ahead, mask: what is not
wanted has no rows."""

UNIT_STEP = 2.0**22
"""A step of 2^-30 in units of 2^-52."""


@jit_inline
def count(row: Probabilities, r: Steps, limits: Integers, ends: Integers, known: Floats) -> Whole:
    """Return how many labels of a sound row fit, or UNSURE; learn for the next row."""
    cut, slope = np.int64(known[0]), known[1]
    good, bits, above_it, weight = load(row, r, row.dtype.type(2**30), np.int32(cut))
    if not good:
        ends[1] = 0
        return UNSURE
    n: Whole = np.int64(above_it)
    mass: Whole = np.int64(weight)
    top = np.float64(np.uint32(bits).view(np.float32))
    ends[0], ends[1], ends[2] = np.int64(top * (2.0**30 + 2**8)) + 2, 0, 0  # above all labels
    ends[3], ends[4], ends[5] = 0, limits.size - 1, -1
    size = search(r, limits, ends, (cut, n, mass), slope)
    if size >= 0:
        moved, short = np.float64(cut - ends[6]), np.float64(limits[max(n, 1)] - mass)
        if abs(short) > 2 * cut and moved * short > 0:
            known[1] += 0.02 * (min(moved / short, 4 * slope) - slope)
        known[0] += 0.05 * (max(ends[6], 1) - cut)
    return size


@jit_inline
def stands_before(row: Probabilities, r: Steps, y: Whole, ends: Integers, size: Whole) -> Truth:
    """Tell whether a label is one of the first few; near the crossing its rank is counted."""
    own = r[y]
    if own < ends[3] or own > ends[0] + 1:
        return own > ends[0]
    if above(r, np.int32(own - 2))[0] <= size:
        return True
    return above(r, np.int32(own + 1))[0] < size and place_exactly(row, y)[2] <= size


@jit_inline
def store(i: Whole, n: Whole, masses: tuple[Whole, Whole, Whole], C: Whole, out: Floats) -> None:
    """Write the masses at the crossing; the label ranked last reaches exactly 1."""
    before, own, top = masses
    out[0, i] = min(before, ONE) * UNIT
    out[1, i] = 1.0 if n >= C - 1 else min(before + own, ONE) * UNIT
    out[2, i] = min(top, ONE) * UNIT


@jit_inline
def mark(i: Whole, near: Steps, ends: Integers, size: Whole, mask: Bools) -> Truth:
    """Mark the first few labels; False where equals near the crossing cannot be told apart."""
    least = lowest(near, ends, size)
    for j in range(mask.shape[1] if least >= 0 else 0):
        mask[i, j] = near[j] >= least
    return least >= 0


@jit
def exactly(
    i: Whole,
    row: Probabilities,
    labels: Labels,
    work: tuple[Any, Integers, Integers, Floats],
    out: Out,
) -> Truth:
    """Write all that is wanted of a row; tell whether it is sound."""
    limits, r, ends, known = work
    masses, rank, label, ahead, mask = out
    good, value, at, top = cross_row(row, r, limits, ends, known)
    rank[i] = ends[3] + 1
    if label.size:
        label[i] = at
        store(i, ends[3], (ends[4], value, top), row.size, masses)
    if labels.size:
        ahead[i] = r[labels[i]] > value - (labels[i] < at)
    for j in range(row.size if mask.size else 0):
        mask[i, j] = r[j] > value - (j < at)
    return good


@jit
def crossings(
    probs: Probabilities, labels: Labels, limits: tuple[Integers, Integers, Integers], out: Out
) -> Truth:
    """Find where each row passes its limits; tell whether all rows are sound."""
    _, rank, label, ahead, mask = out
    n, C = probs.shape
    learned = np.array([2.0**52 / C, 1.0 / C])
    work = ((limits[0], limits[1]), np.empty(C, np.int64), np.empty(6, np.int64), learned)
    near, ends = np.zeros(-(-C // LANES) * LANES, np.int32), np.zeros(7, np.int64)
    known, steps, sound = np.array([2.0**30 / C, 1.0 / C]), limits[2], True
    for i in range(n):
        size = count(probs[i], near, steps, ends, known) if steps.size else UNSURE
        if size < 0 or label.size or (mask.size and not mark(i, near, ends, size, mask)):
            if ends[1]:  # the cut above the crossing is a good one to begin with
                learned[0] = (ends[0] + 1) * UNIT_STEP - 1
            sound &= exactly(i, probs[i], labels, work, out)
            continue
        rank[i] = size + 1
        if labels.size:
            ahead[i] = stands_before(probs[i], near, labels[i], ends, size)
    return sound
