"""Compiled loops that count the labels within a threshold, many rows of float32 side by side.

Each lane takes a row of its own, kept in steps of 2^-30 as in `_search`. All lanes try a cut in the
same pass: how many labels stand above it, and how much do they weigh? Of two cuts, the labels above
the higher surely fit, and those above the lower surely do not. A row is settled where one label
lies between, or where those between are on average too heavy: then the first of them does not fit.
Rows that stay open, and blocks with an unsound row, are left to `_wide`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Labels, Probabilities
from fedwqcp.kernels._few import Bits
from fedwqcp.kernels._jit import Truth, Whole, jit, jit_sums
from fedwqcp.kernels._rows import SURE, WHOLE
from fedwqcp.kernels._search import Steps
from fedwqcp.kernels._wide import Out
from fedwqcp.kernels.compiled import Integers

Pairs: TypeAlias = npt.NDArray[np.uint64]
HALF = np.uint64(32)
ROWS = 32
PASSES = 10
"""How many cuts are tried."""

HIGH, N_HIGH, MASS_HIGH = 0, ROWS, 2 * ROWS
LOW, N_LOW, MASS_LOW = 3 * ROWS, 4 * ROWS, 5 * ROWS
CUT, N, MASS, LIMIT = 6 * ROWS, 7 * ROWS, 8 * ROWS, 9 * ROWS
TOP, SEEN, OPEN, END = 10 * ROWS, 11 * ROWS, 12 * ROWS, 13 * ROWS
"""Where the numbers of all lanes begin: two cuts around the crossing, the one being tried, the
largest label, the bits of all labels, and whether the row is still open."""

STEP = np.float32(2**30)
ONE = np.float32(1)
BEYOND = np.float32(1 / 16)
"""How far beyond the likely crossing a cut aims, in labels for each that lies between."""


@jit
def load(pairs: Pairs, bits: Bits, side: Pairs) -> None:
    """Put rows side by side, two labels at a time; lanes without a row repeat the last."""
    for i in range(ROWS):
        at = min(i, len(pairs) - 1)
        row = pairs[at]
        for k in range(len(row)):
            side[k, i] = row[k]
        if bits.shape[1] % 2:
            side[len(row), i] = bits[at, bits.shape[1] - 1]


@jit_sums
def begin(side: Pairs, steps: Steps, total: Probabilities, w: Steps) -> Truth:
    """Keep the rows in steps; tell whether all are surely sound, and find their largest labels."""
    for i in range(ROWS):
        w[SEEN + i], w[TOP + i], total[i] = 0, 0, 0
    for k in range(len(side)):
        pair, both = side[k], steps[k]
        for i in range(ROWS):
            a, b = np.int32(pair[i]), np.int32(pair[i] >> HALF)
            x, y = np.int32(a).view(np.float32), np.int32(b).view(np.float32)
            both[i], both[ROWS + i] = np.int32(x * STEP), np.int32(y * STEP)
            total[i] += x + y
            most = a if a > b else b  # bits are in the order of numbers without a sign
            w[TOP + i] = most if most > w[TOP + i] else w[TOP + i]
            w[SEEN + i] |= a | b  # negative where one had a sign
    sound = True
    for i in range(ROWS):
        sound &= (w[SEEN + i] >= 0) & (w[TOP + i] <= WHOLE) & (abs(total[i] - ONE) < SURE)
    for i in range(ROWS):
        w[TOP + i] = np.int32(np.int32(w[TOP + i]).view(np.float32) * STEP)
    return sound


@jit
def above(steps: Steps, w: Steps) -> None:
    """Count and weigh the labels above the cut of each lane."""
    for i in range(ROWS):
        w[N + i], w[MASS + i] = 0, 0
    for k in range(len(steps) // 2):
        first, second = steps[2 * k], steps[2 * k + 1]
        for i in range(ROWS):
            cut = w[CUT + i]
            a, b, c, d = first[i], first[ROWS + i], second[i], second[ROWS + i]
            n = np.int32(a > cut) + np.int32(b > cut) + np.int32(c > cut) + np.int32(d > cut)
            mass = (a if a > cut else np.int32(0)) + (b if b > cut else np.int32(0))
            mass += (c if c > cut else np.int32(0)) + (d if d > cut else np.int32(0))
            w[N + i] += np.int32(n)
            w[MASS + i] += np.int32(mass)


@jit
def take(w: Steps, limits: Steps) -> None:
    """Make the cut of each lane one of its two ends, unless rounding decides."""
    C = np.int32(limits.size - 1)
    for i in range(ROWS):
        w[LIMIT + i] = limits[w[N + i]]
    for i in range(ROWS):
        cut, n, mass = w[CUT + i], w[N + i], w[MASS + i]
        higher = (n < C) & (np.int32(mass + n) <= w[LIMIT + i]) & (cut < w[HIGH + i])
        lower = ((n == C) | (mass > w[LIMIT + i])) & (cut > w[LOW + i])
        w[HIGH + i] = cut if higher else w[HIGH + i]
        w[N_HIGH + i] = n if higher else w[N_HIGH + i]
        w[MASS_HIGH + i] = mass if higher else w[MASS_HIGH + i]
        w[LOW + i] = cut if lower else w[LOW + i]
        w[N_LOW + i] = n if lower else w[N_LOW + i]
        w[MASS_LOW + i] = mass if lower else w[MASS_LOW + i]


@jit
def aim(w: Steps, limits: Steps) -> Whole:
    """Choose the next cut of each lane as if labels were evenly spaced; count the open lanes."""
    still = np.int32(0)
    for i in range(ROWS):
        w[LIMIT + i] = limits[w[N_HIGH + i] + 1]
    for i in range(ROWS):
        high, low = np.float32(w[HIGH + i]), np.float32(w[LOW + i])
        between = np.float32(np.int32(w[N_LOW + i] - w[N_HIGH + i]))
        room = np.float32(np.int32(w[LIMIT + i] - w[MASS_HIGH + i]))
        weight = np.float32(np.int32(w[MASS_LOW + i] - w[MASS_HIGH + i]))
        # the first label between weighs at least their mean; 0.999 is for rounding here
        decided = (between == ONE) | (room * between < weight * np.float32(0.999))
        w[OPEN + i] = np.int32(not decided)
        still += w[OPEN + i]
        fit = between * room / weight
        whole = np.float32(np.int32(fit))  # cut between two labels, so that the farther end moves
        at = whole + ONE + BEYOND * between if fit + fit < between else whole - BEYOND * between
        at = at if at > ONE else ONE
        at = at if at < between - ONE else between - ONE
        cut = np.int32(high - (high - low) * at / between)
        cut = cut if cut < w[HIGH + i] else np.int32(w[HIGH + i] - np.int32(1))
        w[CUT + i] = cut if cut > w[LOW + i] else np.int32(w[LOW + i] + np.int32(1))
    return still


@jit
def search(steps: Steps, limits: Steps, w: Steps, guess: Any) -> float:
    """Bring two cuts around the crossing of each lane; return where the higher ones are."""
    for i in range(ROWS):
        w[HIGH + i], w[N_HIGH + i], w[MASS_HIGH + i] = w[TOP + i], 0, 0
        w[LOW + i], w[N_LOW + i], w[MASS_LOW + i] = -1, limits.size - 1, 2**30
        w[CUT + i] = guess
    for _ in range(PASSES):
        above(steps, w)
        take(w, limits)
        if aim(w, limits) == 0:
            break
    mean = 0.0
    for i in range(ROWS):
        mean += w[HIGH + i] / ROWS
    return mean


@jit
def from_step(step: Whole) -> Any:
    """Return the least float32 of at least so many steps."""
    exact = step * 2.0**-30
    near = np.float32(exact)
    if np.float64(near) >= exact:
        return near
    return np.uint32(np.float32(near).view(np.uint32) + np.uint32(1)).view(np.float32)


@jit
def write(probs: Probabilities, labels: Labels, w: Steps, out: Out) -> None:
    """Write what is wanted of the settled rows; the open ones have rank 0."""
    _, rank, _, ahead, mask = out
    for i in range(len(probs)):
        rank[i] = 0 if w[OPEN + i] else w[N_HIGH + i] + 1
        if w[OPEN + i]:
            continue
        least = from_step(w[HIGH + i] + 1)
        if labels.size:
            ahead[i] = probs[i, labels[i]] >= least
        for j in range(mask.shape[1]):
            mask[i, j] = probs[i, j] >= least


@jit
def crossings_beside(
    pairs: Pairs, probs: Probabilities, labels: Labels, limits: Integers, out: Out
) -> None:
    """Do what `crossings` does without places, except for rows that stay open.

    Rows come two labels at a time, too; the limits are in steps.
    """
    n, C = probs.shape
    masses, rank, label, ahead, mask = out
    bits, near = probs.view(np.uint32), np.minimum(limits, 2**31 - 1).astype(np.int32)
    side = np.zeros(((C + 3) // 4 * 2, ROWS), np.uint64)
    steps, w = np.zeros((len(side), 2 * ROWS), np.int32), np.zeros(END, np.int32)
    total, guess = np.zeros(ROWS, np.float32), 2.0**30 / C
    for start in range(0, n, ROWS):
        end = min(start + ROWS, n)
        some = (masses, rank[start:end], label, ahead[start:end], mask[start:end])
        load(pairs[start:end], bits[start:end], side)
        w[OPEN:END] = 1
        if begin(side, steps, total, w):
            guess += 0.2 * (search(steps, near, w, np.int32(guess)) - guess)
        write(probs[start:end], labels[start:end], w, some)
