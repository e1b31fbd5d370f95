"""Order statistics, plain and weighted."""

from __future__ import annotations

import numpy as np

from fedwqcp._validation import Floats
from fedwqcp.kernels.dispatch import backend

LARGE = 2**13
"""Samples below this size are sorted as a whole."""


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
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    total = (reached[-1] if len(reached) else 0.0) + weight_at_inf
    position = int(np.searchsorted(reached, share * total))
    return float(values[order[position]]) if position < len(values) else np.inf
