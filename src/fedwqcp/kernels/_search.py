"""Compiled loops that count the labels within a threshold, without their order.

A row is kept in steps of 2^-30, rounded down: sums of 32-bit integers run in twice as many lanes as
exact ones, and bound the exact ones from both sides. A cut at any height says how many labels stand
above it and how much they weigh. Two cuts around the crossing, a few labels apart, settle how many
of the labels between them fit, whatever their order. Where a bound does not settle it, the caller
asks `_cross`, which is exact.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Probabilities
from fedwqcp.kernels._jit import Truth, Whole, jit, jit_inline, jit_sums
from fedwqcp.kernels._rows import SURE
from fedwqcp.kernels.compiled import Integers

Steps: TypeAlias = npt.NDArray[np.int32]
Cut: TypeAlias = tuple[Whole, Whole, Whole]
"""Its height, and how many labels stand above it and their mass; -1 where that is not known."""

NUMBER = np.uint32(0x7F800000)
"""Below it are the bits of all finite float32 without a sign."""

UNSURE = np.int64(-1)
TRIES = 12
"""How many cuts a row is worth before it is left to the exact loops."""

GUESSED = 7
"""How many of them follow the slope; the others halve the range."""

BEYOND = 1.5
"""How many labels beyond the likely crossing a cut aims, so that both sides become known."""

LANES = 64
"""Rows are filled up with zeros to a multiple of this: no loop has a remainder."""


@jit_sums
def load(row: Probabilities, r: Steps, scale: Any, cut: Any) -> tuple[Truth, Any, Any, Any]:
    """Keep a row in steps; return its soundness, its largest, and count and mass above a cut."""
    total, top = scale - scale, np.uint32(0)
    n, mass = np.int32(0), np.int32(0)
    for j in range(row.size):
        x = row[j]
        total += x
        top = max(top, np.float32(x).view(np.uint32))  # a sign or a NaN is larger than any number
        p = np.int32(x * scale)
        n = np.int32(n + np.int32(p > cut))
        mass = np.int32(mass + (p if p > cut else np.int32(0)))
        r[j] = p
    return (top < NUMBER) & (abs(total - 1) < SURE), top, n, mass


@jit
def above(r: Steps, cut: Any) -> tuple[Any, Any]:
    """Return how many labels lie above a cut, and their mass in steps."""
    n, mass = np.int32(0), np.int32(0)
    for j in range(r.size):
        p = r[j]
        n = np.int32(n + np.int32(p > cut))
        mass = np.int32(mass + (p if p > cut else np.int32(0)))
    return n, mass


@jit_inline
def settled(upper: Cut, lower: Cut, limits: Integers) -> Whole:
    """Return how many labels fit, where two cuts settle it, or UNSURE."""
    high, n, mass = upper
    low, n_low, mass_low = lower
    between, known = n_low - n, mass_low >= 0
    weight = mass_low - mass if known else between * (high + 1)
    fall = limits[n + 1] - limits[min(n + 2, limits.size - 1)]
    room = limits[n + 1] - mass - n + fall
    k: Whole = np.int64(np.float64(room * between) / np.float64(weight + fall * between))
    k = min(max(k, 0), between - 1)
    most, left = k * (high + 1), limits[n + k + 1] - mass
    full = (k + 1 == between) | ((k + 1) * (low + 1) > left)
    if known:  # the k largest weigh at least their share, and leave the others their least
        most = min(most, weight + between - (between - k) * (low + 1))
        full |= (k + 1) * weight - between > left * between
    return n + k if full & ((k == 0) | (mass + n + most <= limits[n + k])) else UNSURE


@jit_inline
def search(r: Steps, limits: Integers, ends: Integers, cut: Cut, slope: float) -> Whole:
    """Return how many labels fit, or UNSURE; ends[6] is about where the row crosses."""
    upper, lower = (ends[0], ends[1], ends[2]), (ends[3], ends[4], ends[5])
    size = UNSURE
    height, n, mass = cut
    for step in range(TRIES):
        if n < limits.size - 1 and mass + n <= limits[n]:
            upper = (height, n, mass) if height < upper[0] else upper
        elif n == limits.size - 1 or mass > limits[n]:
            lower = (height, n, mass)
        else:
            break
        short = limits[max(n, 1)] - mass
        ends[6] = height - np.int64(slope * short)
        size = settled(upper, lower, limits)
        if size >= 0 or upper[0] - lower[0] <= 1:
            break
        aim = BEYOND * height
        height = np.int64(height - slope * (short + (aim if short > 0 else -aim)))
        if not lower[0] < height < upper[0] or step >= GUESSED:
            height = (lower[0] + upper[0]) >> 1
        above_it = above(r, np.int32(height))
        n, mass = np.int64(above_it[0]), np.int64(above_it[1])
    ends[0], ends[1], ends[2] = upper
    ends[3], ends[4], ends[5] = lower
    return size


@jit
def next_below(r: Steps, cut: Any) -> tuple[Any, Any]:
    """Return the largest height below a cut, and how many labels have it."""
    value, equal = np.int32(-1), np.int32(0)
    for j in range(r.size):
        p = r[j] if r[j] < cut else np.int32(-1)
        value = p if p > value else value
    for j in range(r.size):
        equal = np.int32(equal + np.int32(r[j] == value))
    return value, equal


@jit
def next_above(r: Steps, cut: Any) -> tuple[Any, Any]:
    """Return the smallest height above a cut, and how many labels have it."""
    least, equal = np.int32(-(2**31) + 1), np.int32(0)
    value = least
    for j in range(r.size):
        p = np.int32(-r[j]) if r[j] > cut else least
        value = p if p > value else value  # a smallest one would not run in lanes
    value = np.int32(-value)
    for j in range(r.size):
        equal = np.int32(equal + np.int32(r[j] == value))
    return value, equal


@jit_inline
def lowest(r: Steps, ends: Integers, size: Whole) -> Any:
    """Return the least height of the labels that fit; -1 where equals cannot be told apart."""
    if size - ends[1] < ends[4] - size:  # walk from the nearer cut
        cut, n = np.int32(ends[0] + 1), ends[1]
        while n < size:
            cut, equal = next_below(r, cut)
            n += equal
        gap = cut - next_below(r, cut)[0]
    else:
        cut, n = np.int32(ends[3]), ends[4]
        while n > size:
            cut, equal = next_above(r, cut)
            n -= equal
        gap = next_above(r, cut)[0] - cut
        cut = np.int32(cut + gap)
    return cut if (n == size) & (gap > 1) else np.int32(-1)
