"""Compiled loops over rows that lie one after the other: how many labels are within a threshold.

`_cuts` brings two cuts around the crossing of sixteen rows at a time. Rows that stay open are left
to `_wide`, which is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedwqcp.arrays import Labels, Probabilities
from fedwqcp.kernels._cuts import HIGH, OWN, WHOLE, Row, begin, first_look, follow, narrow
from fedwqcp.kernels._jit import Truth, Whole, jit, jit_inline
from fedwqcp.kernels._rows import SURE
from fedwqcp.kernels._search import Cut, Lanes
from fedwqcp.kernels._wide import Out
from fedwqcp.kernels.lanes import (
    LANES,
    choose,
    count,
    fixed,
    flags,
    index,
    largest_float,
    like,
    load,
    load_some,
    long,
    lowest,
    negate,
    put,
    spread,
    start,
    store,
    sums,
    truncated,
    value,
)


@jit_inline
def stands_before(row: Row, y: Whole, size: Whole) -> Truth:
    """Tell whether a label is one of the first few, by counting those before it."""
    rows, at, C, tail = row
    own, full = fixed(spread(value(rows, at + y))), C // LANES * LANES
    j, n, label = index(), np.int64(0), spread(np.int32(y))
    for k in range(0, full, LANES):
        x = fixed(load(rows, at + k))
        n += count((x > own) | ((x == own) & (j < label)))
        j = j + spread(np.int32(LANES))
    if full < C:
        x = fixed(load_some(rows, at + full, tail))
        n += count((x > own) | ((x == own) & (j < label)))  # lanes beyond the row stand behind y
    return n < size


@jit_inline
def cover(group: Row, of: tuple[Any, Any, Any], first: Whole, near: Whole) -> None:
    """Tell of some of sixteen rows whether their labels are among the first few."""
    rows, at, C, tail = group
    labels, sizes, covered = of
    while near:
        i = lowest(near)
        near &= near - np.uint64(1)
        y, size = value(labels, first + i), value(sizes, first + i)
        put(covered, first + i, stands_before((rows, at + i * C, C, tail), y, size))


@jit_inline
def mark(row: Row, height: Any, mask: Any) -> None:
    """Mark the labels of a row above a cut; some twice, if the row does not end with sixteen."""
    rows, at, C, _ = row
    cut = spread(height)
    for j in range(0, C - LANES, LANES):
        store(mask, at + j, fixed(load(rows, at + j)) > cut)
    store(mask, at + C - LANES, fixed(load(rows, at + C - LANES)) > cut)


@jit_inline
def next_label(row: Row, height: Any, least: Any) -> Whole:
    """Return the label that comes next below a cut; -1 where numbers do not tell their order."""
    rows, at, C, tail = row
    cut, full = spread(height), C // LANES * LANES
    found = like(cut, -1.0)
    for j in range(0, full, LANES):
        found = below(fixed(load(rows, at + j)), cut, found)
    if full < C:
        found = below(fixed(load_some(rows, at + full, tail)), cut, found)
    most = largest_float(found)
    if not most > least:
        return np.int64(-1)
    for j in range(0, full, LANES):
        here = flags(fixed(load(rows, at + j)) == spread(most))
        if here:
            return j + lowest(here)
    return full + lowest(flags(fixed(load_some(rows, at + full, tail)) == spread(most)))


@jit_inline
def below(x: Lanes, cut: Lanes, found: Lanes) -> Lanes:
    """Return the larger of two numbers each, one of which must lie below a cut."""
    return choose((x <= cut) & (x > found), x, found)


@jit_inline
def decide(
    room: Any, ends: tuple[Cut, Cut], least: Lanes, wanted: tuple[Truth, Truth]
) -> tuple[Lanes, Lanes, Lanes]:
    """Return which rows are sure, which true labels are in, and which must be counted.

    Numbers up to a least one may stand in another order than their fixed point.
    """
    high, low, own = ends[0][0], ends[1][0], fixed(load(room, OWN))
    labelled, marked = wanted
    inside = own > high
    sure = low < high
    if marked:
        sure = sure & (high >= least)
    if labelled:
        sure = sure & ((own > least) | ((own <= low) & (low >= least)))
    return sure, inside, negate(inside) & (own > low)


@jit
def count_fitting(
    probs: Probabilities, labels: Labels, limits: tuple[Any, Any, Truth, Any], out: Out, room: Any
) -> Whole:
    """Count the labels that fit, and mark them and find the next where wanted; return what is open.

    There are at least sixteen rows; open ones have -1. The room holds the first cuts; the limits
    are those of each number of labels, how far a sum may be off, whether all but the first and the
    last are one, and up to which number labels may stand in another order than their fixed point.
    """
    n, C = probs.shape
    _, fits, after, ahead, mask = out
    rows, side, opened = start(probs), start(room), np.int64(0)
    sizes, covered, marks, true = start(fits), start(ahead), start(mask), start(labels)
    at, slack, one, least = limits
    tail, size = index() < spread(np.int32(C % LANES)), spread(room.dtype.type(C))
    bound = (start(at), one, spread(at[1]), spread(slack))
    wanted = (labels.size > 0, (mask.size > 0) | (after.size > 0))
    for block in range(-(-n // LANES)):
        first = min(block * LANES, n - LANES)  # the last rows may be looked at twice
        group = (rows, first * C, C, tail)
        for i in range(LANES):
            first_look((rows, (first + i) * C, C, tail), side, i)
            if labels.size:
                put(side, OWN + i, value(rows, (first + i) * C + labels[first + i]))
        whole = sums(side, WHOLE)
        sound = (whole > like(whole, 1 - SURE)) & (whole < like(whole, 1 + SURE))
        ends, k, still = narrow(
            group, side, begin(side, size, bound, sound), sound, (size, bound, wanted[1])
        )
        sure, inside, near = decide(side, ends, spread(least), wanted)
        sure = sure & sound & negate(still)
        found = choose(sure, truncated(ends[0][1] + k), spread(np.int32(-1)))
        store(sizes, first, long(found))
        opened += LANES - count(sure)
        follow(side, ends[0][0])
        if labels.size:
            store(covered, first, inside)
            cover(group, (true, sizes, covered), first, flags(near & sure))
        store(side, HIGH, ends[0][0])
        for i in range(LANES if mask.size else 0):
            mark((rows, (first + i) * C, C, tail), value(side, HIGH + i), marks)
        for i in range(LANES if after.size else 0):
            row = (rows, (first + i) * C, C, tail)
            after[first + i] = next_label(row, value(side, HIGH + i), least)
            if after[first + i] < 0 <= fits[first + i]:
                fits[first + i] = -1
                opened += 1
    return opened
