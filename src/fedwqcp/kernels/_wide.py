"""Compiled loops over rows of many labels: where each row passes its threshold, exactly."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fedwqcp.arrays import Bools, Floats, Labels, Probabilities
from fedwqcp.kernels._cross import cross_row
from fedwqcp.kernels._jit import Truth, Whole, jit, jit_inline
from fedwqcp.kernels._rows import ONE, UNIT
from fedwqcp.kernels.compiled import Integers

Out: TypeAlias = tuple[Floats, Integers, Labels, Bools, Bools]
"""Masses (before, upto, top), labels that fit, label, whether the true label is ahead, mask.

What is not wanted has no rows."""


@jit_inline
def store(i: Whole, n: Whole, masses: tuple[Whole, Whole, Whole], C: Whole, out: Floats) -> None:
    """Write the masses at the crossing; the label ranked last reaches exactly 1."""
    before, own, top = masses
    out[0, i] = min(before, ONE) * UNIT
    out[1, i] = 1.0 if n >= C - 1 else min(before + own, ONE) * UNIT
    out[2, i] = min(top, ONE) * UNIT


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
    masses, fits, label, ahead, mask = out
    good, value, at, top = cross_row(row, r, limits, ends, known)
    fits[i] = ends[3]
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
    probs: Probabilities, labels: Labels, limits: tuple[Integers, Integers], out: Out
) -> Truth:
    """Find where each row passes its limits; tell whether all rows are sound."""
    C, sound = probs.shape[1], True
    learned = np.array([2.0**52 / C, 1.0 / C])
    work = (limits, np.empty(C, np.int64), np.empty(6, np.int64), learned)
    for i in range(len(probs)):
        sound &= exactly(i, probs[i], labels, work, out)
    return sound
