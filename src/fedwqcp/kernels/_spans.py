"""Compiled loops over regressions: scores and interval ends in one pass, checks included.

The numbers are those of `scores._intervals`, to the last bit; the nudges by one unit in the last
place are made on the bits of the float.
"""

from __future__ import annotations

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.kernels._jit import Truth, Whole, jit


@jit
def up(x: float) -> float:
    """Return the next float above; x is not +inf."""
    bits = np.float64(x).view(np.int64)
    moved = bits + np.int64(1) if bits >= 0 else bits - np.int64(1)
    return np.int64(np.int64(1) if x == 0 else moved).view(np.float64)


@jit
def distance(base: float, y: float) -> float:
    """Return y - base, raised where base plus the rounded difference would fall short of y."""
    q = y - base
    return up(q) if base + q < y else q


@jit
def reach(base: float, q: float) -> float:
    """Return base + q, lowered where its distance from the base would pass q."""
    y = base + q
    return -up(-y) if y - base > q else y


@jit
def score(a: float, b: float, y: float) -> float:
    """Return how far y lies outside two estimates, in whatever order they come."""
    below, above = distance(-(a if a < b else b), -y), distance(b if a < b else a, y)
    return below if below > above else above


@jit
def scores_of_one(f: Floats, y: Floats, out: Floats) -> Truth:
    """Score y by one estimate; tell whether all numbers are finite."""
    finite = True
    for i in range(len(y)):
        below, above = distance(-f[i], -y[i]), distance(f[i], y[i])
        out[i] = below if below > above else above
        finite &= (f[i] - f[i] == 0) & (y[i] - y[i] == 0)
    return finite


@jit
def scores(lo: Floats, hi: Floats, y: Floats, out: Floats) -> Truth:
    """Score y by two estimates."""
    finite = True
    for i in range(len(y)):
        out[i] = score(lo[i], hi[i], y[i])
        finite &= (lo[i] - lo[i] == 0) & (hi[i] - hi[i] == 0) & (y[i] - y[i] == 0)
    return finite


@jit
def scores_of_pairs(flat: Floats, y: Floats, out: Floats) -> Truth:
    """Do the same where both estimates of a row lie side by side."""
    finite = True
    for i in range(len(y)):
        a, b = flat[2 * i], flat[2 * i + 1]
        out[i] = score(a, b, y[i])
        finite &= (a - a == 0) & (b - b == 0) & (y[i] - y[i] == 0)
    return finite


@jit
def end_of_pair(
    a: float, b: float, q: tuple[float, float], i: Whole, out: tuple[Floats, Floats]
) -> Truth:
    """Write both ends of one interval; tell whether it comes from finite numbers."""
    out[0][i] = -reach(-(a if a < b else b), q[0])
    out[1][i] = reach(b if a < b else a, q[1])
    return (a - a == 0) & (b - b == 0)


@jit
def ends(lo: Floats, hi: Floats, q: tuple[float, float], out: tuple[Floats, Floats]) -> Truth:
    """Find both ends of every interval; tell whether all numbers are finite."""
    finite = True
    for i in range(len(lo)):
        finite &= end_of_pair(lo[i], hi[i], q, i, out)
    return finite
