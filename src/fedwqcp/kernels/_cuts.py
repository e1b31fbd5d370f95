"""Parts of compiled loops: how many labels of a row stand above a cut, and what they weigh.

That is seen in a pass over the row, sixteen labels at a time. The first pass tries four cuts, which
follow where earlier rows crossed, and checks the row; later ones try two of the row's own. What
sixteen rows have in each of sixteen lanes is summed up together. `_search` says what follows.
"""

from __future__ import annotations

from math import nan
from typing import Any, TypeAlias

import numpy as np

from fedwqcp.kernels._jit import Truth, Whole, jit_inline
from fedwqcp.kernels._search import Cut, Lanes, Limits, judged, take
from fedwqcp.kernels.lanes import (
    LANES,
    choose,
    count,
    either,
    fixed,
    like,
    load,
    load_some,
    put,
    quarters,
    signed,
    spread,
    store,
    sums,
    value,
    widened,
)

Rows: TypeAlias = tuple[Any, Whole, Lanes, Any, Truth]
"""Where numbers are, how many a row has, and which of the last lanes it uses; where true labels
are, and whether there are any."""

Row: TypeAlias = tuple[Any, Whole, Whole, Lanes]
"""Where numbers are, where the row begins, how many it has, and which of the last lanes it uses."""

Seen: TypeAlias = tuple[Lanes, Whole]
"""What labels weigh, in sixteen parts, and how many they are."""

CUTS = 4
SHARES = (0.05, 0.35, 0.65, 0.95)
"""Which part of the rows should cross below each of the first cuts."""

PACES = (0.6, 0.2, 0.2, 0.6)
"""How fast the first cuts follow, where they are far apart; outer ones learn from few rows."""

SLOWEST = 0.2
"""At least this part of it, where they are not."""

LOWEST = 2.0**-29
"""The first cuts stay from here to 1, from where they can always come back."""

PART = 16 * LANES
"""So many labels are summed up before they are added to others: less is lost by rounding."""

QUARTERS = 4 * LANES
FIRST, OWN, COUNTS = 0, LANES, 2 * LANES
SUMS = COUNTS + CUTS * LANES
WHOLE, ROOM = SUMS + CUTS * QUARTERS, SUMS + (CUTS + 1) * QUARTERS
"""Where in the room the first cuts begin, the numbers of true labels, how many labels of each row
stand above each cut, sums of these in quarters, and those of whole rows."""


@jit_inline
def row_of(rows: Rows, i: Whole) -> Row:
    """Return one of the rows."""
    return rows[0], i * rows[1], rows[1], rows[2]


@jit_inline
def keep_own(rows: Rows, n: Whole, room: Any, i: Whole) -> None:
    """Keep the number of the true label of row n, while it is at hand."""
    if rows[4]:
        put(room, OWN + i, value(rows[0], n * rows[1] + value(rows[3], n)))


@jit_inline
def read(rows: Any, at: Whole, kind: Lanes) -> Lanes:
    """Return sixteen numbers in fixed point, as floats of some kind."""
    return fixed(widened(load(rows, at), kind))


@jit_inline
def read_some(rows: Any, at: Whole, mask: Lanes, kind: Lanes) -> Lanes:
    """Return some of them, and 0 for the others, which is above no cut: none is negative."""
    return fixed(widened(load_some(rows, at, mask), kind))


@jit_inline
def more(x: Lanes, cut: Lanes, seen: Seen) -> Seen:
    """Add the labels above a cut to those seen before."""
    above = x > cut
    return choose(above, seen[0] + x, seen[0]), seen[1] + count(above)


@jit_inline
def look(given: Lanes, cuts: Any, seen: Any) -> Any:
    """Add what the first pass wants to know of numbers, as given, to what was seen before."""
    a, b, c, d, whole, signs = seen
    x = fixed(given)
    return (
        more(x, cuts[0], a),
        more(x, cuts[1], b),
        more(x, cuts[2], c),
        more(x, cuts[3], d),
        whole + x,
        either(signs, given),  # fixed point may lose a sign
    )


@jit_inline
def emptied(seen: Any, zero: Lanes) -> Any:
    """Return what was seen, without its weight."""
    a, b, c, d, _, signs = seen
    return (zero, a[1]), (zero, b[1]), (zero, c[1]), (zero, d[1]), zero, signs


@jit_inline
def heavier(seen: Any, before: Any) -> Any:
    """Return what was seen, with the weight of what was seen before."""
    a, b, c, d, whole, signs = seen
    return (
        (a[0] + before[0][0], a[1]),
        (b[0] + before[1][0], b[1]),
        (c[0] + before[2][0], c[1]),
        (d[0] + before[3][0], d[1]),
        whole + before[4],
        signs,
    )


@jit_inline
def first_look(row: Row, room: Any, i: Whole) -> tuple[Lanes, Lanes, Lanes, Lanes, Lanes]:
    """Weigh row i for the first cuts, and as a whole: not a number, if there is a sign in it."""
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
    for begin in range(0, full, PART):
        before, seen = seen, emptied(seen, zero)
        for j in range(begin, min(begin + PART, full), LANES):
            seen = look(widened(load(rows, at + j), zero), cuts, seen)
        seen = heavier(seen, before)
    if full < C:
        seen = look(widened(load_some(rows, at + full, tail), zero), cuts, seen)
    a, b, c, d, whole, signs = seen
    put(room, COUNTS + i, a[1])
    put(room, COUNTS + LANES + i, b[1])
    put(room, COUNTS + 2 * LANES + i, c[1])
    put(room, COUNTS + 3 * LANES + i, d[1])
    return a[0], b[0], c[0], d[0], choose(signed(signs), like(zero, nan), whole)


@jit_inline
def keep(room: Any, at: Whole, i: Whole, four: tuple[Lanes, Lanes, Lanes, Lanes]) -> None:
    """Keep what four rows weigh, from row i on."""
    store(room, at + 4 * i, quarters(four[0], four[1], four[2], four[3]))


@jit_inline
def first_of(rows: Rows, room: Any, n: Whole, i: Whole) -> tuple[Lanes, Lanes, Lanes, Lanes, Lanes]:
    """Weigh row n, and keep what is known of it as that of row i of sixteen."""
    weights = first_look(row_of(rows, n), room, i)
    keep_own(rows, n, room, i)
    return weights


@jit_inline
def first_looks(rows: Rows, room: Any, which: Any, at: Whole) -> None:
    """Weigh sixteen rows for the first cuts; which they are is written down from a place on."""
    for i in range(0, LANES, 4):
        a = first_of(rows, room, value(which, at + i), i)
        b = first_of(rows, room, value(which, at + i + 1), i + 1)
        c = first_of(rows, room, value(which, at + i + 2), i + 2)
        d = first_of(rows, room, value(which, at + i + 3), i + 3)
        keep(room, SUMS, i, (a[0], b[0], c[0], d[0]))
        keep(room, SUMS + QUARTERS, i, (a[1], b[1], c[1], d[1]))
        keep(room, SUMS + 2 * QUARTERS, i, (a[2], b[2], c[2], d[2]))
        keep(room, SUMS + 3 * QUARTERS, i, (a[3], b[3], c[3], d[3]))
        keep(room, WHOLE, i, (a[4], b[4], c[4], d[4]))


@jit_inline
def second_look(
    pair: tuple[Row, Row], heights: tuple[Any, Any, Any, Any], room: Any, i: Whole
) -> Any:
    """Weigh rows i and i + 1 for two cuts of their own each: side by side, neither waits."""
    (rows, at, C, tail), (_, to, _, _) = pair
    high, low = spread(heights[0]), spread(heights[1])
    top, bottom = spread(heights[2]), spread(heights[3])
    zero, full, none = like(high, 0.0), C // LANES * LANES, np.int64(0)
    a, b, c, d = (zero, none), (zero, none), (zero, none), (zero, none)
    for begin in range(0, full, PART):
        before = a[0], b[0], c[0], d[0]
        a, b, c, d = (zero, a[1]), (zero, b[1]), (zero, c[1]), (zero, d[1])
        for j in range(begin, min(begin + PART, full), LANES):
            x, y = read(rows, at + j, zero), read(rows, to + j, zero)
            a, b, c, d = more(x, high, a), more(x, low, b), more(y, top, c), more(y, bottom, d)
        a, b = (a[0] + before[0], a[1]), (b[0] + before[1], b[1])
        c, d = (c[0] + before[2], c[1]), (d[0] + before[3], d[1])
    if full < C:
        x, y = read_some(rows, at + full, tail, zero), read_some(rows, to + full, tail, zero)
        a, b, c, d = more(x, high, a), more(x, low, b), more(y, top, c), more(y, bottom, d)
    put(room, COUNTS + i, a[1])
    put(room, COUNTS + LANES + i, b[1])
    put(room, COUNTS + i + 1, c[1])
    put(room, COUNTS + LANES + i + 1, d[1])
    return a[0], b[0], c[0], d[0]


@jit_inline
def cut_of(height: Lanes, room: Any, cut: Whole) -> Cut:
    """Return a cut, with how many labels every row has above it, and their weight."""
    return height, load(room, COUNTS + LANES * cut), sums(room, SUMS + QUARTERS * cut)


@jit_inline
def begin(room: Any, C: Lanes, limits: Limits, still: Lanes) -> tuple[Cut, Cut]:
    """Return two cuts around the crossing of every row, from the first pass."""
    zero = like(C, 0.0)
    ends = ((like(C, 2.0), zero, zero), (like(C, -1.0), C, sums(room, WHOLE)))
    for k in range(CUTS):
        cut = cut_of(spread(value(room, FIRST + k)), room, k)
        ends = take(cut, ends, judged(cut, still, C, limits))
    return ends


@jit_inline
def follow(room: Any, high: Lanes) -> None:
    """Move the first cuts to where the last rows crossed."""
    apart = value(room, FIRST + CUTS - 1) / value(room, FIRST) - 1
    pace = min(max(apart, SLOWEST), 1.0)
    for k in range(CUTS):
        height = value(room, FIRST + k)
        share = count(high <= spread(height)) / LANES
        moved = height * (1 + pace * PACES[k] * (SHARES[k] - share))
        put(room, FIRST + k, min(max(moved, LOWEST), 1.0))
