"""Compiled loops for few classes in float32: how many labels fit, sixteen rows side by side.

Each lane takes a row of its own and sorts it in registers. Sums in float32 bound the exact ones: a
row whose sum comes near a limit, or with equals on both sides of the crossing, is not sure, and is
sorted again in `_sorted`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fedwqcp.arrays import Floats, Labels, Probabilities
from fedwqcp.kernels._few import OWN, Scratch, in_groups
from fedwqcp.kernels._jit import Whole, jit, jit_inline
from fedwqcp.kernels._rows import EXACT, SURE, WHOLE
from fedwqcp.kernels._sorted import crossings_of_few
from fedwqcp.kernels._wide import Out
from fedwqcp.kernels.compiled import Integers
from fedwqcp.kernels.lanes import (
    LANES,
    beside,
    bits,
    choose,
    count,
    flags,
    index,
    load,
    long,
    lowest,
    negate,
    numbers,
    ordered,
    spread,
    start,
    store,
    value,
)

Limits: TypeAlias = tuple[Probabilities, Probabilities, Floats, Integers]
"""Those that a sum in float32 surely keeps, those that it surely does not keep, and the exact ones;
and a sorting network."""

TRIES = 64
"""So often, sixteen rows are looked at again at once."""

NONE = np.uint32(2**32 - 1)
"""More than the bits of any number."""


@jit_inline
def add_up(columns: Any, surely: Any, maybe: Any) -> tuple[Any, Any, Any, Any]:
    """Return how many labels fit, the bits of the least and of the next, and whether it is sure.

    Behind the columns of all labels stands one that no label has.
    """
    mass, n, most = spread(np.float32(0)), spread(np.int32(0)), spread(np.int32(0))
    least, beyond, C = spread(NONE), columns[0], len(columns) - 1
    for j in range(C):
        x, rank = columns[j], spread(np.int32(j + 1))
        mass = mass + numbers(x)
        fits = mass <= spread(value(surely, j + 1))
        n, least = choose(fits, rank, n), choose(fits, x, least)
        beyond = choose(fits, columns[j + 1], beyond)
        most = choose(mass <= spread(value(maybe, j + 1)), rank, most)
    tied = (least == beyond) | ((least <= spread(EXACT)) & (n < spread(np.int32(C))))
    sound = (columns[0] <= spread(WHOLE)) & (mass < spread(np.float32(1 + SURE)))
    sound = sound & (mass > spread(np.float32(1 - SURE)))
    return n, least, beyond, sound & (n == most) & negate(tied)


@jit
def sort_again(
    rows: tuple[Whole, Whole], probs: Probabilities, labels: Labels, limits: Limits, out: Out
) -> Whole:
    """Fill in some rows, from one to another; return how many stay open: none, or all."""
    some = slice(rows[0], rows[1])
    masses = np.empty((3, rows[1] - rows[0]))  # they are found in another way
    part = (masses, out[1][some], out[2][some], out[3][some], out[4][some])
    y = labels[some] if labels.size else labels
    if crossings_of_few(probs[some], y, (limits[2], False), part, limits[3]):
        return 0
    out[1][some] = -1
    return rows[1] - rows[0]


@jit
def fit_of_few(
    probs: Probabilities, labels: Labels, limits: Limits, out: Out, scratch: Scratch
) -> Whole:
    """Count the labels that fit, and mark them and find the next where wanted; return what is open.

    Open rows have -1: those that are not sound, and where there are many, those that are not sure.
    """
    room, classes = scratch
    C, n = len(classes), len(probs)
    _, fits, after, ahead, mask = out
    rows, lanes, side = start(probs), start(room), start(room.view(np.uint32))
    sizes, covered, marks = start(fits), start(ahead), start(mask)
    surely, maybe, flat = start(limits[0]), start(limits[1]), start(probs.view(np.uint32))
    opened, tries, nothing = np.int64(0), 0, spread(np.uint32(NONE - 1))
    grouped = in_groups(n, C)
    for i in range(0, grouped, LANES):
        columns = ordered(beside(flat, i * C, classes))
        found, least, beyond, sure = add_up((*columns, nothing), surely, maybe)
        store(sizes, i, long(choose(sure, found, spread(np.int32(-1)))))
        if labels.size:
            for k in range(LANES):
                room[OWN + k] = value(rows, (i + k) * C + labels[i + k])
            store(covered, i, bits(load(lanes, OWN)) >= least)
        if mask.size:
            store(side, OWN, least)
            for k in range(LANES):
                row = load(flat, (i + k) * C)
                store(marks, (i + k) * C, row >= spread(value(side, OWN + k)))
        if after.size:
            sure = sure & ((beyond > spread(EXACT)) | (found == spread(np.int32(C))))
            store(sizes, i, long(choose(sure, found, spread(np.int32(-1)))))
            store(side, OWN, beyond)
            for k in range(LANES):
                same = load(flat, (i + k) * C) == spread(value(side, OWN + k))
                here = flags(same & (index() < spread(np.int32(C))))
                after[i + k] = lowest(here) if here else -1
        unsure = LANES - count(sure)
        if unsure and tries < TRIES:
            tries, unsure = tries + 1, sort_again((i, i + LANES), probs, labels, limits, out)
        opened += unsure
    return opened + sort_again((grouped, n), probs, labels, limits, out)
