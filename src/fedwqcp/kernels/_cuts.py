"""Parts of compiled loops: two cuts around the crossing of each of sixteen rows.

How many labels stand above a cut and what they weigh is seen in a pass over the row, sixteen labels
at a time; the first pass tries four cuts, which follow where earlier rows crossed, and checks the
row. `_search` says what follows from it.
"""

from __future__ import annotations

from math import nan
from typing import Any, TypeAlias

import numpy as np

from fedwqcp.kernels._jit import Truth, Whole, jit_inline
from fedwqcp.kernels._search import Cut, Lanes, Limits, aim, settle, still_open, take
from fedwqcp.kernels.lanes import (
    LANES,
    choose,
    count,
    either,
    fixed,
    flags,
    like,
    load,
    load_some,
    lowest,
    put,
    signed,
    spread,
    store,
    sums,
    value,
)

Row: TypeAlias = tuple[Any, Whole, Whole, Lanes]
"""Where numbers are, where the row begins, how many it has, and which of the last lanes it uses."""

Seen: TypeAlias = tuple[Lanes, Whole]
"""What labels weigh, in sixteen parts, and how many they are."""

CUTS = 4
SHARES = (0.1, 0.37, 0.63, 0.9)
"""Of the rows, cross below each of the first cuts."""

PACE = 0.15
"""How fast the first cuts follow."""

LOWEST = 2.0**-29
"""The first cuts stay from here to 1, from where they can always come back."""

PASSES = 8
BLOCK = LANES * LANES
FIRST, HIGH, LOW, OWN, COUNTS = (k * LANES for k in range(5))
SUMS = COUNTS + CUTS * LANES
WHOLE, CUT_ROOM = SUMS + CUTS * BLOCK, SUMS + (CUTS + 1) * BLOCK
"""Where in the room the first cuts begin, two of each row, the numbers of true labels, how many
labels stand above each cut, and, in sixteen parts, sums of these and of whole rows."""


@jit_inline
def more(x: Lanes, cut: Lanes, seen: Seen) -> Seen:
    """Add the labels above a cut to those seen before."""
    above = x > cut
    return choose(above, seen[0] + x, seen[0]), seen[1] + count(above)


@jit_inline
def keep(room: Any, i: Whole, cut: Whole, seen: Seen) -> None:
    """Keep what row i has above one of the cuts."""
    store(room, SUMS + BLOCK * cut + LANES * i, seen[0])
    put(room, COUNTS + LANES * cut + i, seen[1])


@jit_inline
def look(x: Lanes, cuts: Any, seen: Any) -> Any:
    """Add what the first pass wants to know to what was seen before."""
    a, b, c, d, whole, signs = seen
    return (
        more(x, cuts[0], a),
        more(x, cuts[1], b),
        more(x, cuts[2], c),
        more(x, cuts[3], d),
        whole + x,
        either(signs, x),
    )


@jit_inline
def first_look(row: Row, room: Any, i: Whole) -> None:
    """Weigh row i for the first cuts; the sum of a row with a sign in it is not a number."""
    rows, at, C, tail = row
    cuts = (
        spread(value(room, FIRST)),
        spread(value(room, FIRST + 1)),
        spread(value(room, FIRST + 2)),
        spread(value(room, FIRST + 3)),
    )
    zero = like(cuts[0], 0.0)
    nothing, full = (zero, np.int64(0)), C // LANES * LANES
    seen = (nothing, nothing, nothing, nothing, zero, zero)
    for j in range(0, full, LANES):
        seen = look(fixed(load(rows, at + j)), cuts, seen)
    if full < C:
        seen = look(fixed(load_some(rows, at + full, tail)), cuts, seen)
    keep(room, i, 0, seen[0])
    keep(room, i, 1, seen[1])
    keep(room, i, 2, seen[2])
    keep(room, i, 3, seen[3])
    store(room, WHOLE + LANES * i, choose(signed(seen[5]), like(zero, nan), seen[4]))


@jit_inline
def look_again(row: Row, room: Any, i: Whole) -> None:
    """Weigh row i for two cuts of its own."""
    rows, at, C, tail = row
    high, low = spread(value(room, HIGH + i)), spread(value(room, LOW + i))
    nothing, full = (like(high, 0.0), np.int64(0)), C // LANES * LANES
    a, b = nothing, nothing
    for j in range(0, full, LANES):
        x = fixed(load(rows, at + j))
        a, b = more(x, high, a), more(x, low, b)
    if full < C:
        x = fixed(load_some(rows, at + full, tail))
        a, b = more(x, high, a), more(x, low, b)
    keep(room, i, 0, a)
    keep(room, i, 1, b)


@jit_inline
def cut_of(height: Lanes, room: Any, cut: Whole) -> Cut:
    """Return a cut, with how many labels every row has above it, and their weight."""
    return height, load(room, COUNTS + LANES * cut), sums(room, SUMS + BLOCK * cut)


@jit_inline
def begin(room: Any, C: Lanes, limits: Limits, still: Lanes) -> tuple[Cut, Cut]:
    """Return two cuts around the crossing of every row, from the first pass."""
    zero = like(C, 0.0)
    ends = ((like(C, 2.0), zero, zero), (like(C, -1.0), C, sums(room, WHOLE)))
    for k in range(CUTS):
        ends = take(cut_of(spread(value(room, FIRST + k)), room, k), ends, still, C, limits)
    return ends


@jit_inline
def narrow(
    group: Row, room: Any, ends: tuple[Cut, Cut], still: Lanes, goal: tuple[Lanes, Limits, Truth]
) -> tuple[tuple[Cut, Cut], Lanes, Lanes]:
    """Try more cuts where needed; return the last ends, how many labels between fit, and where not
    even that is sure."""
    rows, at, labels, tail = group
    C, limits, marked = goal
    k, settled, about = settle(ends, C, limits)
    still = still & still_open(settled, k, marked)
    for _ in range(PASSES):
        left = flags(still)
        if left == 0:
            break
        high, low = aim(ends, k, about, settled)
        store(room, HIGH, high)
        store(room, LOW, low)
        while left:
            i = lowest(left)
            left &= left - np.uint64(1)
            look_again((rows, at + i * labels, labels, tail), room, i)
        ends = take(cut_of(high, room, 0), ends, still, C, limits)
        ends = take(cut_of(low, room, 1), ends, still, C, limits)
        now, settled, about = settle(ends, C, limits)
        k = choose(still, now, k)
        still = still & still_open(settled, k, marked)
    return ends, k, still


@jit_inline
def follow(room: Any, high: Lanes) -> None:
    """Move the first cuts to where the last rows crossed."""
    for k in range(CUTS):
        height = value(room, FIRST + k)
        share = count(high <= spread(height)) / LANES
        moved = height * (1 + PACE * (SHARES[k] - share))
        put(room, FIRST + k, min(max(moved, LOWEST), 1.0))
