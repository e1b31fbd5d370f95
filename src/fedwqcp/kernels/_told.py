"""Parts of compiled loops: what is told of a row, once it is known how many of its labels fit."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fedwqcp.kernels._cuts import Row, Rows, read, read_some, row_of
from fedwqcp.kernels._jit import Truth, Whole, jit_inline
from fedwqcp.kernels._search import Goal, Lanes
from fedwqcp.kernels._waiting import SIZES, STEP, Pile
from fedwqcp.kernels.lanes import (
    LANES,
    choose,
    count,
    fixed,
    flags,
    index,
    largest_float,
    like,
    lowest,
    put,
    spread,
    store,
    value,
    widened,
)

Wanted: TypeAlias = tuple[Truth, Truth, Truth]
"""Whether true labels, marks and the next labels are."""

Task: TypeAlias = tuple[Rows, tuple[Any, Any, Any, Any], Wanted, Goal]
"""Rows; where sizes, coverage, marks and next labels go; what is wanted; and what is searched."""

Found: TypeAlias = tuple[Lanes, Lanes, Lanes, Lanes]
"""Which rows must wait, how many labels fit, which true labels surely do, and which may."""


@jit_inline
def stands_before(row: Row, y: Whole, size: Whole, kind: Lanes) -> Truth:
    """Tell whether a label is one of the first few, by counting those before it."""
    rows, at, C, tail = row
    own, full = fixed(widened(spread(value(rows, at + y)), kind)), C // LANES * LANES
    above, n = np.int64(0), np.int64(0)
    for j in range(0, full, LANES):
        x = read(rows, at + j, kind)
        above, n = above + count(x > own), n + count(x >= own)
    if full < C:
        x = read_some(rows, at + full, tail, kind)
        above, n = above + count(x > own), n + count(x >= own)
    if above < size < n:  # of equals, some fit: the first ones
        label = spread(np.int32(y))
        for j in range(0, min(y, full), LANES):
            earlier = (index() + spread(np.int32(j))) < label
            above += count(earlier & (read(rows, at + j, kind) == own))
        if y > full:
            earlier = (index() + spread(np.int32(full))) < label
            above += count(earlier & (read_some(rows, at + full, tail, kind) == own))
    return above < size


@jit_inline
def mark(row: Row, cut: Lanes, mask: Any) -> None:
    """Mark the labels of a row above a cut; some twice, if the row does not end with sixteen."""
    rows, at, C, _ = row
    for j in range(0, C - LANES, LANES):
        store(mask, at + j, read(rows, at + j, cut) > cut)
    store(mask, at + C - LANES, read(rows, at + C - LANES, cut) > cut)


@jit_inline
def next_label(row: Row, cut: Lanes, least: Any) -> Whole:
    """Return the label that comes next below a cut; -1 where numbers do not tell their order."""
    rows, at, C, tail = row
    full, found = C // LANES * LANES, like(cut, -1.0)
    for j in range(0, full, LANES):
        found = below(read(rows, at + j, cut), cut, found)
    if full < C:
        found = below(read_some(rows, at + full, tail, cut), cut, found)
    most = largest_float(found)
    if not most > least:
        return np.int64(-1)
    for j in range(0, full, LANES):
        here = flags(read(rows, at + j, cut) == spread(most))
        if here:
            return j + lowest(here)
    return full + lowest(flags(read_some(rows, at + full, tail, cut) == spread(most)))


@jit_inline
def below(x: Lanes, cut: Lanes, found: Lanes) -> Lanes:
    """Return the larger of two numbers each, one of which must lie below a cut."""
    return choose((x <= cut) & (x > found), x, found)


@jit_inline
def tell(task: Task, pile: Pile, at: Whole, left: Whole, found: Found) -> Whole:
    """Write what was found of some of sixteen rows; return how many of them stay open."""
    rows, (sizes, covered, marks, after), wanted, (_, _, least, _) = task
    labelled, masked, placed = wanted
    room, which = pile
    inside, near, lost = flags(found[2]), flags(found[3]), np.int64(0)
    while left:
        i = lowest(left)
        left &= left - np.uint64(1)
        n, size = value(which, at + i), np.int64(value(room, SIZES + i))
        cut, row, bit = spread(value(room, STEP + i)), row_of(rows, n), np.uint64(1) << np.uint64(i)
        if labelled:
            within = (inside & bit) != 0
            if (near & bit) != 0:
                within = stands_before(row, value(rows[3], n), size, cut)
            put(covered, n, within)
        if masked:
            mark(row, cut, marks)
        if placed:
            label = next_label(row, cut, least)
            put(after, n, label)
            size = size if label >= 0 else np.int64(-1)
        put(sizes, n, size)
        lost += size < 0
    return lost
