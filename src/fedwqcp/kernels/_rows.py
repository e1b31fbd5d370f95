"""Compiled loops over rows: is a row a row of probabilities, and where does its label stand?

A probability below 1 in fixed point is what the fraction of the float ``1 + p`` holds: adding 1
rounds p to a multiple of 2^-52, half to even. A float32 above `EXACT` is such a multiple already,
and sums of multiples of 2^-52 below 2 are exact in float64, whatever their order.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fedwqcp.arrays import Bools, Floats, Labels, Probabilities
from fedwqcp.kernels._jit import Truth, Whole, jit, jit_inline, jit_sums
from fedwqcp.kernels.compiled import Integers

BASE = np.int64(0x3FF0000000000000)
"""The bits of 1.0."""

ONE = np.int64(2**52)
EXACT = np.uint32(0x31000000)
"""The bits of 2^-29 as float32."""

WHOLE = np.uint32(0x3F800000)
"""The bits of 1 as float32."""

SURE = 4e-3
"""A row whose rounded sum is this near to 1 passes; the full check decides on the others."""

SURE_FIXED = np.int64(4e-3 * 2.0**52)
UNIT = 2.0**-52

Places: TypeAlias = tuple[Floats, Floats, Floats, Integers]
"""Mass before the label and up to it, largest mass of the row, rank of the label.

What is not wanted has no rows; the mass up to the label is."""


@jit
def fixed(x: Any) -> Whole:
    """Return a probability in units of 2^-52."""
    return np.float64(np.float64(x) + 1.0).view(np.int64) - BASE


@jit_inline
def place_exactly(row: Probabilities, y: Whole) -> tuple[Whole, Whole, Whole, Whole, Truth]:
    """Return mass before, own mass, rank, largest mass, and whether the row is sound."""
    own = fixed(row[y])
    before, rank, top, total, sound = np.int64(0), np.int64(1), own, np.int64(0), True
    for j in range(row.size):
        p = fixed(row[j])
        sound &= (row[j] >= 0) & (p <= ONE)  # more than 1 is not in fixed point, nor is infinity
        ahead = (p > own) | ((p == own) & (j < y))  # no branch: the loop runs in lanes
        before += p if ahead else 0
        rank += ahead
        total += p
        top = max(top, p)
    return before, own, rank, top, sound & (abs(total - ONE) <= SURE_FIXED)


@jit_inline
def store(
    i: Whole, found: tuple[Whole, Whole, Whole, Whole, Truth], n_classes: Whole, out: Places
) -> Truth:
    """Write a place as masses between 0 and 1; the label ranked last reaches exactly 1."""
    before, own, rank, top, sound = found
    out[1][i] = 1.0 if rank == n_classes else min(before + own, ONE) * UNIT
    if out[0].size:
        out[0][i] = min(before, ONE) * UNIT
    if out[2].size:
        out[2][i] = min(top, ONE) * UNIT
    if out[3].size:
        out[3][i] = rank
    return sound


@jit
def places_between(
    first: Whole, end: Whole, probs: Probabilities, labels: Labels, out: Places
) -> Truth:
    """Find where the labels of some rows stand; tell whether the rows are sound."""
    sound = True
    for i in range(first, end):
        sound &= store(i, place_exactly(probs[i], labels[i]), probs.shape[1], out)
    return sound


@jit
def places(probs: Probabilities, labels: Labels, out: Places) -> Truth:
    """Do so for all rows."""
    return places_between(0, len(probs), probs, labels, out)


@jit_sums
def sound_rows(probs: Probabilities) -> Truth:
    """Tell whether all rows are surely probabilities; float32 or float64."""
    for i in range(len(probs)):
        total, least = 0.0, True
        for j in range(probs.shape[1]):
            total += np.float64(probs[i, j])
            least &= probs[i, j] >= 0
        if not (least and abs(total - 1) < SURE):
            return False
    return True


@jit_sums
def counts_from(
    probs: Probabilities, labels: Labels, least: Any, out: tuple[Bools, Integers]
) -> Truth:
    """Count the probabilities from a least one on, and tell whether a label's is one of them.

    Return whether all rows are surely sound.
    """
    covered, counts = out
    sound = True
    for i in range(len(probs)):
        total, good, n = probs[i, 0] - probs[i, 0], True, np.int32(0)
        for j in range(probs.shape[1]):
            total += probs[i, j]
            good &= probs[i, j] >= 0
            n += np.int32(probs[i, j] >= least)
        sound &= good & (abs(total - 1) < SURE)
        counts[i] = n
        covered[i] = probs[i, labels[i]] >= least
    return sound
