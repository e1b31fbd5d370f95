"""Parts of compiled loops: rows that wait until sixteen of them can be looked at again.

Few rows need another look, and one that does should not hold up the others. What is known of it is
kept in a pile, and the last sixteen take the next step together.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fedwqcp.kernels._cuts import (
    COUNTS,
    QUARTERS,
    ROOM,
    SUMS,
    WHOLE,
    Row,
    Rows,
    cut_of,
    keep,
    keep_own,
    read,
    read_some,
    row_of,
    second_look,
)
from fedwqcp.kernels._jit import Whole, jit_inline
from fedwqcp.kernels._search import Cut, Goal, Lanes, judged, take
from fedwqcp.kernels.lanes import (
    LANES,
    choose,
    flags,
    like,
    load,
    lowest,
    negate,
    put,
    spread,
    store,
    total,
    value,
)

Pile: TypeAlias = tuple[Any, Any]
"""Where numbers of rows that wait are, and which rows they are."""

PASSES = 16.0
"""After so many more looks, a row is left open."""

NUMBERS = 9
"""Of each row: two cuts around its crossing (height, labels above and their weight each), the next
two heights, and how often it was looked at."""

DEEP = 2 * LANES
STEP, SIZES = COUNTS, COUNTS + NUMBERS * LANES
OVER = WHOLE
WAIT, NEXT, CUT_ROOM = ROOM, ROOM + 6 * DEEP, ROOM + NUMBERS * DEEP
"""Where in the room numbers of the rows at hand are and how many of their labels fit, in place of
what was weighed; by how much limits are passed, in place of the weights of whole rows; and numbers
of the rows that wait, their next heights among them."""


@jit_inline
def clear(pile: Pile, C: Whole) -> None:
    """Let places where no row waits be of the first row, whose crossing lies anywhere.

    Lanes that no row uses compute something too, and must stay within all arrays.
    """
    room, which = pile
    for i in range(DEEP):
        put(which, i, 0)
        put(room, WAIT + DEEP + i, 0)
        put(room, WAIT + 4 * DEEP + i, C)


@jit_inline
def write_down(
    room: Any, ends: tuple[Cut, Cut], heights: tuple[Lanes, Lanes], tries: Lanes
) -> None:
    """Write down what is known of the rows at hand."""
    upper, lower = ends
    store(room, STEP, upper[0])
    store(room, STEP + LANES, upper[1])
    store(room, STEP + 2 * LANES, upper[2])
    store(room, STEP + 3 * LANES, lower[0])
    store(room, STEP + 4 * LANES, lower[1])
    store(room, STEP + 5 * LANES, lower[2])
    store(room, STEP + 6 * LANES, heights[0])
    store(room, STEP + 7 * LANES, heights[1])
    store(room, STEP + 8 * LANES, tries)


@jit_inline
def pile_up(pile: Pile, at: Whole, of: Whole, left: Whole) -> Whole:
    """Let some of the rows at hand wait; return how many wait then."""
    room, which = pile
    while left:
        i = lowest(left)
        left &= left - np.uint64(1)
        for k in range(NUMBERS):
            put(room, WAIT + DEEP * k + at, value(room, STEP + LANES * k + i))
        put(which, at, value(which, of + i))
        at += 1
    return at


@jit_inline
def again(rows: Rows, pile: Pile, at: Whole, i: Whole) -> Any:
    """Weigh two of the rows that wait, and keep what is known of them from row i of sixteen on."""
    room, which = pile
    n, m = value(which, at), value(which, at + 1)
    high, low = value(room, NEXT + at), value(room, NEXT + DEEP + at)
    top, bottom = value(room, NEXT + at + 1), value(room, NEXT + DEEP + at + 1)
    weights = second_look((row_of(rows, n), row_of(rows, m)), (high, low, top, bottom), room, i)
    keep_own(rows, n, room, i)
    keep_own(rows, m, room, i + 1)
    return weights


@jit_inline
def looks_again(rows: Rows, pile: Pile, at: Whole) -> None:
    """Weigh sixteen rows that wait for two more cuts each."""
    room, _ = pile
    for i in range(0, LANES, 4):
        a, b = again(rows, pile, at + i, i), again(rows, pile, at + i + 2, i + 2)
        keep(room, SUMS, i, (a[0], a[2], b[0], b[2]))
        keep(room, SUMS + QUARTERS, i, (a[1], a[3], b[1], b[3]))


@jit_inline
def weigh(row: Row, height: Any) -> Any:
    """Return what the labels above a cut weigh, exactly: sums of fixed point are so in float64."""
    rows, at, C, tail = row
    cut, found, full = spread(np.float64(height)), spread(0.0), C // LANES * LANES
    for j in range(0, full, LANES):
        x = read(rows, at + j, cut)
        found = choose(x > cut, found + x, found)
    if full < C:
        x = read_some(rows, at + full, tail, cut)
        found = choose(x > cut, found + x, found)
    return total(found)


@jit_inline
def judge_exactly(rows: Rows, pile: Pile, at: Whole, left: Whole, limits: Any) -> None:
    """Write down how far some of sixteen rows pass their limits at their next heights."""
    room, which = pile
    while left:
        i = lowest(left)
        left &= left - np.uint64(1)
        row = row_of(rows, value(which, at + i))
        for k in range(2):
            n = np.int64(value(room, COUNTS + LANES * k + i))
            over = weigh(row, value(room, NEXT + DEEP * k + at + i)) - value(limits, n)
            put(room, OVER + LANES * k + i, over)


@jit_inline
def nearer(ends: tuple[Cut, Cut], before: tuple[Cut, Cut]) -> Lanes:
    """Tell of which rows one of the ends has moved."""
    return (ends[0][0] < before[0][0]) | (ends[1][0] > before[1][0])


@jit_inline
def step(
    rows: Rows, pile: Pile, at: Whole, still: Lanes, goal: Goal
) -> tuple[tuple[Cut, Cut], Lanes]:
    """Look at the rows from one on again; return nearer cuts, and how often that was done.

    What rounded sums do not tell is weighed exactly. Where nothing changes even so, the next look
    would not change it either: it counts as the last.
    """
    room, _ = pile
    C, limits, least, exact = goal
    looks_again(rows, pile, at)
    here = WAIT + at
    upper = load(room, here), load(room, here + DEEP), load(room, here + 2 * DEEP)
    lower = load(room, here + 3 * DEEP), load(room, here + 4 * DEEP), load(room, here + 5 * DEEP)
    high = cut_of(load(room, NEXT + at), room, 0)
    low = cut_of(load(room, NEXT + DEEP + at), room, 1)
    ends = take(high, (upper, lower), judged(high, still, C, limits))
    ends = take(low, ends, judged(low, still, C, limits))
    stuck = still & negate(nearer(ends, (upper, lower))) & (low[0] >= spread(least))
    if flags(stuck):
        judge_exactly(rows, pile, at, flags(stuck), exact)
        over, zero = load(room, OVER), like(C, 0.0)
        ends = take(high, ends, (stuck & (over <= zero), stuck & (over > zero)))
        over = load(room, OVER + LANES)
        ends = take(low, ends, (stuck & (over <= zero), stuck & (over > zero)))
    tries = load(room, here + 8 * DEEP)
    return ends, choose(nearer(ends, (upper, lower)), tries, like(tries, PASSES))
