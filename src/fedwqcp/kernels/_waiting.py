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
    Rows,
    cut_of,
    keep,
    keep_own,
    look_again,
    row_of,
)
from fedwqcp.kernels._jit import Whole, jit_inline
from fedwqcp.kernels._search import Cut, Lanes, Limits, take
from fedwqcp.kernels.lanes import LANES, load, lowest, put, store, value

Pile: TypeAlias = tuple[Any, Any]
"""Where numbers of rows that wait are, and which rows they are."""

PASSES = 8.0
"""After so many looks, a row is left open."""

NUMBERS = 9
"""Of each row: two cuts around its crossing (height, labels above and their weight each), the next
two heights, and how often it was looked at."""

DEEP = 2 * LANES
STEP, SIZES = COUNTS, COUNTS + NUMBERS * LANES
WAIT, NEXT, CUT_ROOM = ROOM, ROOM + 6 * DEEP, ROOM + NUMBERS * DEEP
"""Where in the room numbers of the rows at hand are and how many of their labels fit, in place of
what was weighed; and numbers of the rows that wait, their next heights among them."""


@jit_inline
def clear(pile: Pile, C: Whole) -> None:
    """Let the pile hold nothing, by the first row: lanes that no row uses compute something too."""
    room, which = pile
    for i in range(DEEP):
        put(which, i, 0)
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
def looks_again(rows: Rows, pile: Pile, at: Whole) -> None:
    """Weigh sixteen rows that wait for two more cuts each."""
    room, _ = pile
    for i in range(0, LANES, 4):
        a = again(rows, pile, at + i, i)
        b = again(rows, pile, at + i + 1, i + 1)
        c = again(rows, pile, at + i + 2, i + 2)
        d = again(rows, pile, at + i + 3, i + 3)
        keep(room, SUMS, i, (a[0], b[0], c[0], d[0]))
        keep(room, SUMS + QUARTERS, i, (a[1], b[1], c[1], d[1]))


@jit_inline
def again(rows: Rows, pile: Pile, at: Whole, i: Whole) -> tuple[Lanes, Lanes]:
    """Weigh one of them."""
    room, which = pile
    n, heights = value(which, at), (value(room, NEXT + at), value(room, NEXT + DEEP + at))
    weights = look_again(row_of(rows, n), heights, room, i)
    keep_own(rows, n, room, i)
    return weights


@jit_inline
def step(
    rows: Rows, pile: Pile, at: Whole, still: Lanes, goal: tuple[Lanes, Limits]
) -> tuple[tuple[Cut, Cut], Lanes]:
    """Look at the rows from one on again; return nearer cuts, and how often that was done."""
    room, _ = pile
    C, limits = goal
    looks_again(rows, pile, at)
    here = WAIT + at
    upper = load(room, here), load(room, here + DEEP), load(room, here + 2 * DEEP)
    lower = load(room, here + 3 * DEEP), load(room, here + 4 * DEEP), load(room, here + 5 * DEEP)
    high, low = load(room, NEXT + at), load(room, NEXT + DEEP + at)
    ends = take(cut_of(high, room, 0), (upper, lower), still, C, limits)
    ends = take(cut_of(low, room, 1), ends, still, C, limits)
    return ends, load(room, here + 8 * DEEP)
