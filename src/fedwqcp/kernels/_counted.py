"""Compiled loops over rows that lie one after the other: how many labels are within a threshold.

Sixteen rows at a time are cut at the same heights (`_cuts`); those that this does not settle wait
for other looks (`_waiting`). Rows that stay open are left to `_wide`, which is exact.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fedwqcp.arrays import Floats, Labels, Probabilities
from fedwqcp.kernels._cuts import (
    OWN,
    WHOLE,
    begin,
    first_looks,
    follow,
)
from fedwqcp.kernels._jit import Truth, Whole, jit, jit_inline
from fedwqcp.kernels._rows import SURE
from fedwqcp.kernels._search import Cut, Lanes, aim, settle, still_open
from fedwqcp.kernels._told import Found, Task, Wanted, tell
from fedwqcp.kernels._waiting import (
    DEEP,
    PASSES,
    SIZES,
    Pile,
    clear,
    pile_up,
    step,
    write_down,
)
from fedwqcp.kernels._wide import Out
from fedwqcp.kernels.compiled import Integers
from fedwqcp.kernels.lanes import (
    LANES,
    choose,
    count,
    fixed,
    flags,
    index,
    like,
    load,
    long,
    negate,
    put,
    spread,
    start,
    store,
    sums,
    truncated,
    value,
)

HERE, PILED = DEEP, DEEP + LANES
"""Behind the rows that wait, which rows are at hand."""

Known: TypeAlias = tuple[tuple[Cut, Cut], Lanes, Lanes, Lanes]
"""Two cuts around the crossing of sixteen rows; which rows there are, which of them are rows of
probabilities, and how often they were looked at again."""


@jit_inline
def decide(
    own: Lanes, ends: tuple[Cut, Cut], least: Lanes, wanted: Wanted
) -> tuple[Lanes, Lanes, Lanes]:
    """Return which rows are sure, which true labels are in, and which must be counted.

    Numbers up to a least one may stand in another order than their fixed point.
    """
    high, low = ends[0][0], ends[1][0]
    labelled, masked, placed = wanted
    inside = own > high
    sure = low < high
    if masked | placed:
        sure = sure & (high >= least)
    if labelled:
        sure = sure & ((own > least) | ((own <= low) & (low >= least)))
    return sure, inside, negate(inside) & (own > low)


@jit_inline
def conclude(task: Task, room: Any, known: Known) -> Found:
    """Settle what can be, and write down what is known of the rest."""
    ends, _, sound, tries = known
    _, _, wanted, (C, limits, least, _) = task
    k, settled, about = settle(ends, C, limits)
    more = sound & still_open(settled, k, wanted[1] | wanted[2])
    write_down(room, ends, aim(ends, k, about, settled), tries + like(tries, 1.0))
    sure, inside, near = decide(fixed(load(room, OWN)), ends, spread(least), wanted)
    sure = sure & sound & negate(more)
    sizes = choose(sure, ends[0][1] + k, like(k, -1.0))
    store(room, SIZES, sizes)
    return more & (tries < like(tries, PASSES)), sizes, inside, near & sure


@jit_inline
def line_up(some: Labels, which: Any, first: Whole, n: Whole) -> Lanes:
    """Write down which sixteen of n rows come next; tell which of them there are."""
    for i in range(LANES):
        at = min(first + i, n - 1)
        put(which, HERE + i, some[at] if some.size else at)
    return index() < spread(np.int32(min(n - first, LANES)))


@jit_inline
def look_first(task: Task, pile: Pile, some: Labels, first: Whole, n: Whole) -> Known:
    """Look at the next sixteen of n rows; return what is known of them then."""
    rows, _, _, (C, limits, _, _) = task
    side, which = pile
    there = line_up(some, which, first, n)
    first_looks(rows, side, which, HERE)
    whole = sums(side, WHOLE)
    sound = there & (whole > like(whole, 1 - SURE)) & (whole < like(whole, 1 + SURE))
    ends = begin(side, C, limits, sound)
    follow(side, ends[0][0])
    return ends, there, sound, like(C, 0.0)


@jit_inline
def look_again(task: Task, pile: Pile, waiting: Whole) -> Known:
    """Look again at the last rows that wait, sixteen at most."""
    at = max(waiting - LANES, 0)
    there = index() < spread(np.int32(waiting - at))
    ends, tries = step(task[0], pile, at, there, task[3])
    return ends, there, there, tries


@jit
def count_fitting(  # noqa: PLR0917
    probs: Probabilities,
    labels: Labels,
    limits: tuple[Any, Any, Truth, Any, Floats],
    out: Out,
    room: tuple[Any, Integers],
    some: Integers,
) -> Whole:
    """Count the labels that fit, and mark them and find the next where wanted; return what is open.

    Only some of the rows are looked at, if any are named. Open ones have -1. The limits are those
    of each number of labels, how far a sum may be off, whether all but the first and the last are
    one, up to which number labels may stand in another order than their fixed point, and the same
    limits exactly. The room begins with the first cuts; sums are floats of its kind.
    """
    C, n = probs.shape[1], some.size if some.size else len(probs)
    pile = start(room[0]), start(room[1])
    clear(pile, C)
    tail = index() < spread(np.int32(C % LANES))
    rows = (start(probs), C, tail, start(labels), labels.size > 0)
    size, bound = spread(room[0].dtype.type(C)), start(limits[0])
    bounds = (bound, limits[2], spread(value(bound, 1)), spread(limits[1]))
    told = (start(out[1]), start(out[3]), start(out[4]), start(out[2]))
    wanted = (labels.size > 0, out[4].size > 0, out[2].size > 0)
    plain = (some.size == 0) & (labels.size > 0) & (out[4].size + out[2].size == 0)
    task = (rows, told, wanted, (size, bounds, limits[3], start(limits[4])))
    first, waiting, opened = np.int64(0), np.int64(0), np.int64(0)
    while first < n or waiting > 0:
        fresh = (first < n) & (waiting < LANES)
        at = HERE if fresh else max(waiting - LANES, 0)
        if fresh:  # noqa: SIM108
            known = look_first(task, pile, some, first, n)
        else:
            known = look_again(task, pile, waiting)
        found = conclude(task, pile[0], known)
        left = known[1] & negate(found[0])
        if fresh & plain & (first + LANES <= n):
            store(told[0], first, long(truncated(found[1])))
            store(told[1], first, found[2])
            opened += count(left & (found[1] < like(size, 0.0)))
            left = found[3]
        opened += tell(task, pile, at, flags(left), found)
        waiting = pile_up(pile, waiting if fresh else at, at, flags(found[0]))
        first += LANES if fresh else 0
    return opened
