"""Compiled loops for few classes in float32: where a label stands, many rows side by side.

A short row leaves most of a processor's lanes empty; so each lane takes a row of its own. Bits of
numbers without a sign are in the order of the numbers, and sums of the numbers above `EXACT` are
exact in float64, as `_rows` says.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats, Labels, Probabilities
from fedwqcp.kernels._jit import Truth, Whole, jit
from fedwqcp.kernels._rows import EXACT, SURE, WHOLE, Places, places

Bits: TypeAlias = npt.NDArray[np.uint32]
Pairs: TypeAlias = npt.NDArray[np.uint64]
"""The bits of two numbers in one, the second one higher: half as many to move.

So they lie in memory where the low byte comes first, as on every machine that numba compiles for.
"""

HALF = np.uint64(32)

ROWS = 128
OWN, LABEL, RANK, TOP, END = 0, ROWS, 2 * ROWS, 3 * ROWS, 4 * ROWS
"""Where the integers of all lanes begin: the label's number, the label, its rank, the largest."""

TOTAL, BEFORE = 0, ROWS
"""Where the masses begin: of all labels, and of those before the label."""


@jit
def begin(rows: tuple[Pairs, Bits, Labels], side: Pairs, whole: Bits, real: Floats) -> None:
    """Put rows side by side, two labels at a time, and look up their labels."""
    pairs, bits, labels = rows
    for k in range(pairs.shape[1]):
        for i in range(len(pairs)):
            side[k, i] = pairs[i, k]
    if bits.shape[1] % 2:
        for i in range(len(bits)):
            side[len(side) - 1, i] = bits[i, bits.shape[1] - 1]
    for i in range(len(labels)):
        whole[LABEL + i] = labels[i]
        whole[OWN + i] = bits[i, labels[i]]
    for i in range(ROWS):
        whole[RANK + i], whole[TOP + i] = 1, 0
        real[TOTAL + i], real[BEFORE + i] = 0.0, 0.0


@jit
def add(pairs: Pairs, j: Whole, whole: Bits, real: Floats) -> None:
    """Add labels j and j + 1 of all rows."""
    for i in range(ROWS):
        a, b = np.uint32(pairs[i]), np.uint32(pairs[i] >> HALF)
        x = np.float64(np.uint32(a).view(np.float32))
        y = np.float64(np.uint32(b).view(np.float32))
        own, label = whole[OWN + i], whole[LABEL + i]
        a_ahead = np.uint32(a + np.uint32(np.uint32(j) < label)) > own
        b_ahead = np.uint32(b + np.uint32(np.uint32(j + 1) < label)) > own
        real[TOTAL + i] += x + y
        real[BEFORE + i] += (x if a_ahead else 0.0) + (y if b_ahead else 0.0)
        whole[RANK + i] += np.uint32(a_ahead) + np.uint32(b_ahead)
        top = a if a > b else b
        whole[TOP + i] = top if top > whole[TOP + i] else whole[TOP + i]


@jit
def finish(C: Whole, whole: Bits, real: Floats, out: Places) -> Truth:
    """Write the places as `_rows.store` does; tell whether sums are exact and rows sound."""
    before, upto, top, ranks = out
    sure = True
    for i in range(len(ranks)):
        sure &= (whole[OWN + i] > EXACT) & (whole[TOP + i] <= WHOLE)
        sure &= abs(real[TOTAL + i] - 1) < SURE
    for i in range(len(ranks)):
        before[i] = min(real[BEFORE + i], 1.0)
    for i in range(len(ranks)):
        own = np.float64(np.uint32(whole[OWN + i]).view(np.float32))
        upto[i] = 1.0 if whole[RANK + i] == C else min(real[BEFORE + i] + own, 1.0)
    for i in range(len(ranks)):
        top[i] = np.float64(np.uint32(whole[TOP + i]).view(np.float32))
    for i in range(len(ranks)):
        ranks[i] = whole[RANK + i]
    return sure


@jit
def places_of_few(pairs: Pairs, probs: Probabilities, labels: Labels, out: Places) -> Truth:
    """Do what `places` does, for short rows of float32; they come two labels at a time, too."""
    n, C = probs.shape
    bits = probs.view(np.uint32)
    side = np.zeros(((C + 1) // 2, ROWS), np.uint64)  # a label of no mass changes nothing
    whole, real = np.zeros(END, np.uint32), np.zeros(2 * ROWS)
    sound = True
    for start in range(0, n, ROWS):
        end = min(start + ROWS, n)
        some = (out[0][start:end], out[1][start:end], out[2][start:end], out[3][start:end])
        begin((pairs[start:end], bits[start:end], labels[start:end]), side, whole, real)
        for k in range(len(side)):
            add(side[k], 2 * k, whole, real)
        if not finish(C, whole, real, some):
            sound &= places(probs[start:end], labels[start:end], some)
    return sound
