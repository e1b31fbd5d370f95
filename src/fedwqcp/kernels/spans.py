"""Regressions as fast as the machine can read them; None where numpy shall serve."""

from __future__ import annotations

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.kernels import compiled

LARGE = 2**18
"""So many intervals leave no room in a cache for what comes next, and are written past it."""


def scores(out: Floats, y: Floats) -> Floats | None:
    """Return how far y lies outside one or two estimates.

    Parameters
    ----------
    out : Floats, shape (n,) or (n, 2)
        An estimate, or two in any order; not yet checked.
    y : Floats, shape (n,)
        The true values; not yet checked.

    Returns
    -------
    Floats or None
        The scores; None for a small input, without numba, or if a number is not finite.
    """
    loops = compiled.kernels(out.size)
    if loops is None:
        return None
    found = np.empty(len(y))

    def _work(rows: slice) -> bool:
        if out.ndim == 1:
            return bool(loops.scores_of_one(out[rows], y[rows], found[rows]))
        if (flat := _pairs(out[rows])) is not None:
            return bool(loops.scores_of_pairs(flat, y[rows], found[rows]))
        return bool(loops.scores(out[rows, 0], out[rows, 1], y[rows], found[rows]))

    return found if compiled.over_rows(len(out), 2 * out.size, _work) else None


def ends(out: Floats, q: tuple[float, float]) -> tuple[Floats, Floats] | None:
    """Return the intervals from q[0] below the lower estimate to q[1] above the higher.

    Parameters
    ----------
    out : Floats, shape (n,) or (n, 2)
        An estimate, or two in any order; not yet checked.
    q : tuple of float
        How far to go down and up.

    Returns
    -------
    tuple of Floats or None
        Both ends; None as in `scores`.
    """
    loops = compiled.kernels(out.size)
    if loops is None:
        return None
    low, high = np.empty(len(out)), np.empty(len(out))
    past_cache = len(out) >= LARGE and (low.ctypes.data | high.ctypes.data) % 16 == 0

    def _work(rows: slice) -> bool:
        found = low[rows], high[rows]
        if not out.flags.c_contiguous:
            lo, hi = (out, out) if out.ndim == 1 else (out[:, 0], out[:, 1])
            return bool(loops.ends(lo[rows], hi[rows], q, found))
        loop = loops.ends_of_one if out.ndim == 1 else loops.ends_of_pairs
        return bool(loop(out[rows].reshape(-1), q, found, past_cache))

    return (low, high) if compiled.over_rows(len(out), 2 * out.size, _work) else None


def _pairs(out: Floats) -> Floats | None:
    """Return two estimates of each row side by side, if they lie so."""
    return out.reshape(-1) if out.flags.c_contiguous else None
