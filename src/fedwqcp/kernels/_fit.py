"""Compiled loops for few classes in float32: how many labels fit, sixteen rows side by side.

Each lane takes a row of its own and sorts it in registers. Sums in float32 bound the exact ones: a
row whose sum comes near a limit, or with equals on both sides of the crossing, stays open.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedwqcp.arrays import Labels, Probabilities
from fedwqcp.kernels._few import OWN, SIDE
from fedwqcp.kernels._jit import Whole, jit, jit_inline
from fedwqcp.kernels._memory import load, sort_beside, start, store, value
from fedwqcp.kernels._rows import EXACT, SURE, WHOLE
from fedwqcp.kernels._vectors import (
    LANES,
    bits,
    choose,
    count,
    long,
    negate,
    numbers,
    ones,
    spread,
)
from fedwqcp.kernels._wide import Out

NONE = np.uint32(2**32 - 1)
"""More than the bits of any number."""


@jit_inline
def fitting(side: Any, C: Whole, surely: Any, maybe: Any) -> tuple[Any, Any, Any]:
    """Return how many labels fit, the bits of the least of them, and whether that is sure."""
    mass, n, least = spread(np.float32(0)), spread(np.int32(0)), spread(NONE)
    before, sure = spread(np.int32(0)) <= n, load(side, SIDE) <= spread(WHOLE)
    for j in range(C):
        x = load(side, SIDE + LANES * j)
        mass = mass + numbers(x)
        fits = mass <= spread(value(surely, j + 1))
        near = negate(fits) & (mass <= spread(value(maybe, j + 1)))
        tied = before & negate(fits) & (x == least)
        sure = sure & negate(near | tied)
        n, least, before = n + ones(fits), choose(fits, x, least), fits
    sure = sure & ((least > spread(EXACT)) | (n == spread(np.int32(C))))  # smaller ones may be tied
    sure = sure & (mass < spread(np.float32(1 + SURE)))
    return n, least, sure & (mass > spread(np.float32(1 - SURE)))


@jit
def fit_of_few(  # noqa: PLR0917
    probs: Probabilities,
    labels: Labels,
    limits: tuple[Probabilities, Probabilities],
    out: Out,
    room: Probabilities,
    classes: tuple[int, ...],
) -> Whole:
    """Count the labels that fit, and mark them where a mask is wanted; return how many stay open.

    Rows that stay open, and the last few, have -1. The limits are those that a sum surely keeps,
    and those that it surely does not; there are as many ``classes`` as a row has labels.
    """
    C, n = len(classes), len(probs)
    _, fits, _, ahead, mask = out
    rows, lanes, side = start(probs), start(room), start(room.view(np.uint32))
    sizes, covered, marks = start(fits), start(ahead), start(mask)
    surely, maybe, flat = start(limits[0]), start(limits[1]), start(probs.view(np.uint32))
    i, opened = 0, np.int64(0)
    while (i + LANES - 1) * C + LANES <= probs.size and i + LANES <= n:
        sort_beside(flat, i * C, classes, side, SIDE)
        found, least, sure = fitting(side, C, surely, maybe)
        store(sizes, i, long(choose(sure, found, spread(np.int32(-1)))))
        opened += LANES - count(sure)
        if labels.size:
            for k in range(LANES):
                room[OWN + k] = value(rows, (i + k) * C + labels[i + k])
            store(covered, i, bits(load(lanes, OWN)) >= least)
        if mask.size:
            store(side, OWN, least)
            for k in range(LANES):
                row = load(flat, (i + k) * C)
                store(marks, (i + k) * C, row >= spread(value(side, OWN + k)))
        i += LANES
    fits[i:] = -1
    return opened + n - i
