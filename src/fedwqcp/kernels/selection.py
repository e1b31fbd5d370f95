"""The value of a given rank, or of a given share of the weight, without sorting.

A sorted sample says between which two values the answer lies, all but surely; one pass counts what
lies below and keeps what lies between. Where the sample was wrong, the full way decides: the answer
is exact in any case.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.kernels import compiled

LARGE = 2**13
"""Samples below this size are partitioned or sorted as a whole."""

SAMPLE = 2**14
BLOCK = 2**16
"""How many values are looked at in one go; they stay in cache."""


def order_statistic(values: Floats, rank: int) -> float:
    """Return the rank-th smallest value, counted from 1.

    Parameters
    ----------
    values : Floats, shape (n,)
        The sample, without NaN.
    rank : int
        From 1 to n.

    Returns
    -------
    float
        One of the values.
    """
    n = len(values)
    if n >= LARGE:
        sample = np.sort(values[:: _step(n)])
        at, m = rank / n * len(sample), len(sample)
        margin = 4 * sqrt(m * (rank / n) * (1 - rank / n)) + 4
        low = sample[int(at - margin)] if at > margin else -np.inf
        high = sample[int(at + margin)] if at + margin < m else np.inf
        below, between = _split(values, low, high)
        k = rank - 1 - below
        if 0 <= k < len(between):
            return float(np.partition(between, k)[k])
    return float(np.partition(values, rank - 1)[rank - 1])


def weighted_order_statistic(
    values: Floats, weights: Floats, share: float, weight_at_inf: float
) -> float:
    """Return the smallest value at which a share of the weight is reached.

    Parameters
    ----------
    values, weights : Floats, shape (n,)
        The sample, and positive weights.
    share : float
        Of the sum of all weights.
    weight_at_inf : float
        Further weight, at +inf.

    Returns
    -------
    float
        One of the values, or +inf.
    """
    if len(values) >= LARGE:
        target = share * (float(weights.sum()) + weight_at_inf)
        low, high = _weighted_bracket(values, weights, target)
        below = float(weights[values < low].sum())
        between = (values >= low) & (values <= high)
        if below < target and np.count_nonzero(between) <= len(values) // 2:
            found = _reach(values[between], weights[between], below, target)
            if found < np.inf:
                return found
    return _by_sorting(values, weights, share, weight_at_inf)


def _by_sorting(values: Floats, weights: Floats, share: float, weight_at_inf: float) -> float:
    """Add up all weights in the order of their values."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    total = (reached[-1] if len(reached) else 0.0) + weight_at_inf
    at = int(np.searchsorted(reached, share * total))
    return float(values[order[at]]) if at < len(values) else np.inf


def _reach(values: Floats, weights: Floats, start: float, target: float) -> float:
    """Add up weights in the order of their values, from a start, until they reach a target."""
    order = np.argsort(values, kind="stable")
    at = int(np.searchsorted(start + np.cumsum(weights[order]), target))
    return float(values[order[at]]) if at < len(values) else np.inf


def _weighted_bracket(values: Floats, weights: Floats, target: float) -> tuple[float, float]:
    """Guess two values between which the target is reached."""
    step = _step(len(values))
    order = np.argsort(values[::step], kind="stable")
    sample, w = values[::step][order], weights[::step][order] * step
    reached = np.cumsum(w)
    margin = 4 * sqrt(float(w @ w)) + float(w.max())
    low, high = np.searchsorted(reached, [target - margin, target + margin])
    return (
        float(sample[low - 1]) if low else -np.inf,
        float(sample[high]) if high < len(sample) else np.inf,
    )


def _step(n: int) -> int:
    """Return how far apart the values of the sample stand; it holds a thirty-second at most."""
    return max(32, n // SAMPLE)


def _split(values: Floats, low: float, high: float) -> tuple[int, Floats]:
    """Count the values below a bracket, and collect those inside; none if they are too many."""
    most = len(values) // 2
    if (loops := compiled.kernels(len(values))) is not None:
        inside = np.empty(most + 1)
        below, n = loops.split(values, low, high, inside)
        return int(below), inside[: n if n <= most else 0]
    below, kept, size = 0, [np.empty(0)], 0
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        under = block < low
        below += int(np.count_nonzero(under))
        part = block[~under & (block <= high)]
        size += len(part)
        if size > most:
            return below, np.empty(0)
        kept.append(part)
    return below, np.concatenate(kept)
