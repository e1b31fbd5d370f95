"""Order statistics, plain and weighted."""

from __future__ import annotations

from math import sqrt

import numpy as np

from fedwqcp._validation import Floats
from fedwqcp.kernels.dispatch import backend

LARGE = 2**13
"""Samples below this size are sorted as a whole."""

SPARSE, SAMPLE = 96, 2**14
"""A weighted sample is one value in SPARSE, and at most SAMPLE values."""


def order_statistic(values: Floats, rank: int) -> float:
    """Return the rank-th smallest of n values without NaN and -inf, for a rank from 1 to n."""
    loops = backend().loops
    if loops is not None and len(values) >= LARGE:
        return float(loops.order_statistic(np.ascontiguousarray(values), rank))
    return float(np.partition(values, rank - 1)[rank - 1])


def weighted_order_statistic(
    values: Floats, weights: Floats, share: float, weight_at_inf: float
) -> float:
    """Return the smallest value at which a share of the positive weights is reached, or +inf.

    The share is one of the sum of all weights and of ``weight_at_inf``, which lies at +inf.
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
    step = max(SPARSE, len(values) // SAMPLE)
    order = np.argsort(values[::step], kind="stable")
    sample, w = values[::step][order], weights[::step][order] * step
    reached = np.cumsum(w)
    margin = 4 * sqrt(float(w @ w)) + float(w.max())
    low, high = np.searchsorted(reached, [target - margin, target + margin])
    return (
        float(sample[low - 1]) if low else -np.inf,
        float(sample[high]) if high < len(sample) else np.inf,
    )
