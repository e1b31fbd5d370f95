"""Compiled loops for few classes in float32, sixteen rows side by side: places and counts.

A short row leaves most of a processor's lanes empty; so each lane takes a row of its own. Bits of
numbers without a sign are in the order of the numbers, and sums of the numbers above `EXACT` are
exact in float64, as `_rows` says.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Bools, Labels, Probabilities
from fedwqcp.kernels._jit import Truth, Whole, jit, jit_inline
from fedwqcp.kernels._rows import EXACT, SURE, WHOLE, Places, counts_from, places_between
from fedwqcp.kernels.compiled import Integers
from fedwqcp.kernels.lanes import (
    LANES,
    beside,
    bits,
    choose,
    double,
    flags,
    load,
    long,
    negate,
    numbers,
    ones,
    spread,
    start,
    store,
    unsigned_ones,
    value,
)

Bits: TypeAlias = npt.NDArray[np.uint32]

OWN, LABEL, ROOM = 0, LANES, 2 * LANES
"""Where in the room the label's number begins, and the label."""

Scratch: TypeAlias = tuple[Probabilities, tuple[int, ...]]
"""Room, and a tuple as long as a row: the compiler must know the length."""


@jit_inline
def in_groups(n: Whole, C: Whole) -> Whole:
    """Return how many of n short rows come in groups of which all lanes can be read.

    Sixteen numbers of every row are read, beyond a row of fewer: the last rows are left.
    """
    return max((n * C - LANES) // C + 1, 0) // LANES * LANES


@jit_inline
def stand(room: Any, columns: Any) -> tuple[Any, Any, Any, Any]:
    """Return mass before the labels, their rank, the largest, and whether that is surely exact."""
    label, key = bits(load(room, LABEL)), bits(load(room, OWN))
    before, total = spread(0.0), spread(np.float32(0))
    top, rank = key, spread(np.int32(1))
    for j in range(len(columns)):
        x = columns[j]
        key_of_x = bits(x)
        ahead = (key_of_x + unsigned_ones(spread(np.uint32(j)) < label)) > key
        before = before + choose(ahead, double(x), spread(0.0))
        total = total + x
        top = choose(key_of_x > top, key_of_x, top)  # a sign or a NaN is larger than any number
        rank = rank + ones(ahead)
    sound = (spread(EXACT) < key) & (top <= spread(WHOLE))
    sound = sound & (total < spread(np.float32(1 + SURE)))
    return before, rank, top, sound & (total > spread(np.float32(1 - SURE)))


@jit
def places_of_few(probs: Probabilities, labels: Labels, out: Places, scratch: Scratch) -> Truth:
    """Do what `places` does, for short rows of float32 that lie one after the other."""
    room, classes = scratch
    C, flat = len(classes), probs.reshape(-1)
    rows, lanes = start(flat), start(room)
    first, upto, tops, ranks = start(out[0]), start(out[1]), start(out[2]), start(out[3])
    whole, one = room.view(np.uint32), spread(1.0)
    sound, grouped = True, in_groups(len(labels), C)
    for i in range(0, grouped, LANES):
        for k in range(LANES):
            y = np.uint32(labels[i + k])
            whole[LABEL + k] = y
            room[OWN + k] = flat[np.uint64((i + k) * C) + y]
        before, rank, top, sure = stand(lanes, beside(rows, i * C, classes))
        if flags(negate(sure)):
            sound &= places_between(i, i + LANES, probs, labels, out)
        else:
            after = before + double(load(lanes, OWN))
            after = choose(rank == spread(np.int32(C)), one, choose(after < one, after, one))
            store(upto, i, after)
            if out[0].size:
                store(first, i, choose(before < one, before, one))
            if out[2].size:
                store(tops, i, double(numbers(top)))
            if out[3].size:
                store(ranks, i, long(rank))
    return sound & places_between(grouped, len(labels), probs, labels, out)


@jit
def counts_of_few(
    probs: Probabilities, labels: Labels, least: Any, out: tuple[Bools, Integers], scratch: Scratch
) -> Truth:
    """Do what `counts_from` does, for short rows of float32 that lie one after the other."""
    room, classes = scratch
    C, n = len(classes), len(probs)
    rows, lanes, covered, counts = start(probs), start(room), start(out[0]), start(out[1])
    low, wrong, grouped = spread(least), np.uint64(0), in_groups(n, C)
    for i in range(0, grouped, LANES):
        for k in range(LANES):
            room[OWN + k] = value(rows, (i + k) * C + labels[i + k])
        columns = beside(rows, i * C, classes)
        total, top, found = spread(np.float32(0)), spread(np.uint32(0)), spread(np.int32(0))
        for j in range(C):
            x = columns[j]
            total, found = total + x, found + ones(x >= low)
            top = choose(bits(x) > top, bits(x), top)
        sound = (total < spread(np.float32(1 + SURE))) & (total > spread(np.float32(1 - SURE)))
        wrong |= flags(negate(sound & (top <= spread(WHOLE))))
        store(counts, i, long(found))
        store(covered, i, load(lanes, OWN) >= low)
    end = (out[0][grouped:], out[1][grouped:])
    rest = counts_from(probs[grouped:], labels[grouped:], least, end)
    return rest & (wrong == 0)
