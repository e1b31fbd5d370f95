"""Compiled loops over rows of float32: where a label stands, sixteen numbers of a row at a time.

Sums of the numbers above `EXACT` are exact in float64, as `_rows` says; rows whose label is below
it, and rows that are not surely sound, are left to the exact loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedwqcp.arrays import Labels, Probabilities
from fedwqcp.kernels._few import Bits
from fedwqcp.kernels._jit import Truth, Whole, jit, jit_inline
from fedwqcp.kernels._rows import EXACT, SURE, WHOLE, Places, places_between
from fedwqcp.kernels.lanes import (
    LANES,
    bits,
    choose,
    count,
    double,
    index,
    largest,
    load,
    load_some,
    spread,
    start,
    total,
    value,
)


@jit_inline
def stand(
    row: tuple[Any, Whole, Whole], tail: Any, smaller: Any, own: Any
) -> tuple[Any, Whole, Any, Any]:
    """Return mass before a label, its rank, the bits of the largest, and the sum in float32.

    ``smaller`` is where a row of 1 begins for each label before this one, and of 0 from it on.
    """
    rows, at, C = row
    key, full = bits(spread(own)), C // LANES * LANES
    before, whole, top, rank = spread(0.0), spread(np.float32(0)), key, np.int64(1)
    for j in range(0, full, LANES):
        x = load(rows, at + j)
        ahead = (bits(x) + load(smaller[0], smaller[1] + j)) > key
        before = before + choose(ahead, double(x), spread(0.0))
        whole = whole + x
        top = choose(bits(x) > top, bits(x), top)  # a sign or a NaN is larger than any number
        rank += count(ahead)
    if full < C:
        x = load_some(rows, at + full, tail)
        ahead = (bits(x) + load(smaller[0], smaller[1] + full)) > key
        before = before + choose(ahead, double(x), spread(0.0))
        whole = whole + x
        top = choose(bits(x) > top, bits(x), top)
        rank += count(ahead)
    return total(before), rank, largest(top), total(whole)


@jit
def places_single(probs: Probabilities, labels: Labels, out: Places, smaller: Bits) -> Truth:
    """Do what `places` does, for rows of float32 that lie one after the other.

    ``smaller`` is 1 as many times as there are labels, and then 0 as often and sixteen times more.
    """
    C, sound = probs.shape[1], True
    rows, steps = start(probs), start(smaller)
    tail = index() < spread(np.int32(C % LANES))
    for i in range(len(labels)):
        y = labels[i]
        own = value(rows, i * C + y)
        before, rank, top, whole = stand((rows, i * C, C), tail, (steps, C - y), own)
        if np.float32(own).view(np.uint32) <= EXACT or top > WHOLE or not abs(whole - 1) < SURE:
            sound &= places_between(i, i + 1, probs, labels, out)
            continue
        out[1][i] = 1.0 if rank == C else min(before + np.float64(own), 1.0)
        if out[0].size:
            out[0][i] = min(before, 1.0)
        if out[2].size:
            out[2][i] = np.float64(np.uint32(top).view(np.float32))
        if out[3].size:
            out[3][i] = rank
    return sound
