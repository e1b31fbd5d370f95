"""Integrals of many functions of one variable at once, by panels that halve where they must."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedwqcp.arrays import Floats

NODES, WEIGHTS = np.polynomial.legendre.leggauss(15)
"""The Gauss-Legendre rule on [-1, 1] that every panel uses."""


def integrate(
    function: Callable[[Floats], Floats],
    ends: Floats,
    tolerance: float,
    columns: Sequence[int] | None = None,
) -> Floats:
    """Integrate functions from the first to the last break point.

    A panel is accepted once its two halves agree with the whole; the halves' sum, which is far more
    accurate than that difference, is taken.

    Parameters
    ----------
    function : callable
        Takes points of shape (p,) and gives values of shape (p, m), of order 1.
    ends : Floats
        Break points, increasing.
    tolerance : float
        How far the halves may be from the whole; ten times as much relative to the panel's width,
        for the rounding of the values.
    columns : sequence of int, optional
        The functions that must be accurate; all by default.

    Returns
    -------
    Floats, shape (m,)
        The integrals.

    Examples
    --------
    >>> integrate(lambda u: np.stack([u, u**2], axis=1), np.array([0.0, 1.0]), 1e-14).round(12)
    array([0.5       , 0.33333333])
    """
    kept = slice(None) if columns is None else list(columns)
    low, high = ends[:-1], ends[1:]
    whole, total = _gauss(function, low, high), 0.0
    while len(low):
        middle = (low + high) / 2
        low, high = np.stack([low, middle], 1).ravel(), np.stack([middle, high], 1).ravel()
        halves = _gauss(function, low, high)
        both = halves[0::2] + halves[1::2]
        allowed = tolerance * (1 + 10 * (high[1::2] - low[0::2]))
        settled = np.abs(both - whole)[:, kept].max(axis=1) <= allowed
        total = total + both[settled].sum(axis=0)
        again = np.repeat(~settled, 2)
        low, high, whole = low[again], high[again], halves[again]
    return np.asarray(total)


def _gauss(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Gauss-Legendre integrals over panels, shape (panels, m)."""
    half = (high - low)[:, None] / 2
    u = low[:, None] + half * (1 + NODES)
    values = function(u.ravel()).reshape(len(low), len(NODES), -1)
    return np.asarray(np.einsum("pim,pi->pm", values, half * WEIGHTS))
