"""Compiled loops that find the label at which a row passes its threshold, without sorting.

A cut value divides a row into the labels above it and the others. One pass gives their number and
mass, and so whether all of them fit; a few guessed cuts come close to the crossing, and the labels
in between are read one after the other.
"""

from __future__ import annotations

import numpy as np

from fedwqcp.arrays import Floats, Probabilities
from fedwqcp.kernels._jit import Truth, Whole, jit
from fedwqcp.kernels._rows import BASE, ONE, SURE_FIXED
from fedwqcp.kernels.compiled import Integers

STEPS = 3
"""How many labels are read one by one rather than by another cut."""

FAR = 2.0**53
"""Beyond any value."""

GUESSES = 5
"""How many cuts are guessed before they are halved."""


@jit
def load(row: Probabilities, r: Integers, cut: Whole) -> tuple[Whole, Whole, Truth, Whole, Whole]:
    """Keep a row in fixed point; return its mass, largest, soundness, and count and mass above."""
    total, top, sound, n, mass = np.int64(0), np.int64(0), True, np.int64(0), np.int64(0)
    for j in range(r.size):
        x = row[j]
        p = np.float64(np.float64(x) + 1.0).view(np.int64) - BASE
        sound &= (x >= 0) & (p <= ONE)
        total += p
        top = max(top, p)
        n += p > cut
        mass += p if p > cut else 0
        r[j] = p
    return total, top, sound & (abs(total - ONE) <= SURE_FIXED), n, mass


@jit
def above(r: Integers, cut: Whole) -> tuple[Whole, Whole]:
    """Return how many labels lie above a cut, and their mass."""
    n, mass = np.int64(0), np.int64(0)
    for j in range(r.size):
        n += r[j] > cut
        mass += r[j] if r[j] > cut else 0
    return n, mass


@jit
def below(r: Integers, cut: Whole) -> tuple[Whole, Whole]:
    """Return the largest value below a cut, and how many labels lie on the cut."""
    largest, equal = np.int64(-1), np.int64(0)
    for j in range(r.size):
        equal += r[j] == cut
        p = r[j] if r[j] < cut else np.int64(-1)
        largest = p if p > largest else largest
    return largest, equal


@jit
def find(r: Integers, value: Whole, skip: Whole) -> Whole:
    """Return the first label of a value, or a later one."""
    first = np.int64(r.size)
    for j in range(r.size):
        first = min(first, np.int64(j) if r[j] == value else np.int64(r.size))
    while skip > 0:
        first += 1
        skip -= r[first] == value
    return first


@jit
def fits(mass: Whole, n: Whole, limits: Integers, most: Whole) -> Truth:
    """Tell whether the n most probable labels, of a given mass, are within the threshold."""
    if n == 0 or n > most:
        return n == 0
    return (ONE if n == limits.size - 1 else min(mass, ONE)) <= limits[n]


@jit
def approach(
    r: Integers, limits: Integers, ends: Integers, start: tuple[Whole, Whole, Whole, float]
) -> None:
    """Move the ends (low cut, count; high cut, count, mass; most) close around the crossing."""
    cut, n, mass, slope = start
    most = ends[5]
    guesses = GUESSES if slope > 0 else 0
    while True:
        left = min(np.float64(limits[max(n, 1)] - mass) / np.float64(max(cut, 1)), most - n)
        if fits(mass, n, limits, most):
            ends[2], ends[3], ends[4] = cut, n, mass
            if left <= STEPS:
                return
        else:
            ends[0], ends[1] = cut, n
        if ends[1] - ends[3] <= STEPS or ends[2] - ends[0] <= 1:
            return
        move = slope * (left - 1)
        cut = np.int64(cut / (1 + move) if move > 0 else min(cut * (1 - move), FAR))
        if guesses <= 0 or not ends[0] < cut < ends[2]:
            cut = ends[0] + (ends[2] - ends[0]) // 2
        guesses -= 1
        n, mass = above(r, cut)


@jit
def walk(r: Integers, limits: Integers, ends: Integers) -> tuple[Whole, Whole]:
    """Read on from the high cut; return the crossing value or -1, and its equals that fit."""
    most = ends[5]
    value, _ = below(r, ends[2] + 1)
    for _ in range(2 * STEPS):
        n, mass = ends[3], ends[4]
        if not fits(mass + value, n + 1, limits, most):
            return value, np.int64(0)
        lower, equal = below(r, value)
        k = np.int64(1)
        while k < equal and fits(mass + (k + 1) * value, n + k + 1, limits, most):
            k += 1
        ends[3] += k
        ends[4] += k * value
        if k < equal:
            return value, k
        ends[2] = value - 1
        value = lower
    return np.int64(-1), np.int64(0)


@jit
def cross(
    r: Integers, limits: Integers, ends: Integers, start: tuple[Whole, Whole, Whole, float]
) -> tuple[Whole, Whole]:
    """Return the value at which the row passes its limits, and how many of its equals still fit."""
    approach(r, limits, ends, start)
    while True:
        value, equal = walk(r, limits, ends)
        if value >= 0:
            return value, equal
        half = ends[0] + (ends[2] - ends[0]) // 2
        n, mass = above(r, half)
        approach(r, limits, ends, (half, n, mass, 0.0))


@jit
def learned(slope: float, guess: Whole, n: Whole, ends: Integers) -> float:
    """Return how much a cut falls for each label that it lets in, as seen in the last rows."""
    moved = np.float64(ends[3] - n)
    if abs(moved) < 4 or ends[2] < 1 or guess < 1:
        return slope
    ratio = guess / ends[2] if moved > 0 else ends[2] / guess
    seen = (ratio - 1) / abs(moved)
    return 0.9 * slope + 0.1 * seen if seen > 0 else slope


@jit
def most_by_top(top: Whole, limits: Integers) -> Whole:
    """Return how many ranks the largest probability lets in; limits fall with the rank."""
    low, high = np.int64(0), np.int64(limits.size - 1)
    while low < high:
        middle = (low + high + 1) // 2
        if min(top, ONE) <= limits[middle]:
            low = middle
        else:
            high = middle - 1
    return low


@jit
def cross_row(
    row: Probabilities,
    r: Integers,
    limits: tuple[Integers, Integers],
    ends: Integers,
    known: Floats,
) -> tuple[Truth, Whole, Whole, Whole]:
    """Return soundness, value and label of the crossing, or -1 and -1, and the largest mass.

    `known` holds a guessed cut and how much it falls with each label; both are learned. `ends`
    tells how many labels stand before the crossing (3), and their mass (4).
    """
    by_mass, by_top = limits
    C = r.size
    guess, slope = np.int64(known[0]), known[1]
    total, top, good, n, mass = load(row, r, guess)
    start = (guess if n else top, n, mass, slope)
    ends[0], ends[1], ends[2], ends[3], ends[4] = -1, C, top, 0, 0
    ends[5] = most_by_top(top, by_top) if by_top.size else C
    if not good or fits(total, C, by_mass, ends[5]):
        ends[3], ends[4] = C, ONE
        return good, np.int64(-1), np.int64(-1), top
    value, equal = cross(r, by_mass, ends, start)
    known[0] = max(value, np.int64(1))
    known[1] = learned(slope, start[0], start[1], ends)
    return good, value, find(r, value, equal), top
