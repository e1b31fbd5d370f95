"""Means and medians of the agents' thresholds: exact sums, capped weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from statistics import median_low

import numpy as np

from fedwqcp._validation import Floats
from fedwqcp.quantile import Overflow
from fedwqcp.wire.messages import LocalQuantile


def counted(sent: Sequence[LocalQuantile], overflow: Overflow) -> list[LocalQuantile]:
    """Return the thresholds that count: those of agents with points, finite under ``exclude``."""
    return [s for s in sent if s.n and (overflow != "exclude" or s.threshold < inf)]


def weighted_mean(values: Sequence[float] | Floats, weights: Iterable[int]) -> float:
    """Return sum of weights times values over the sum of weights, correctly rounded.

    Sums are exact, so the mean lies between the smallest and the largest value, splitting a weight
    changes nothing, and the order does not matter. +inf without values.

    Examples
    --------
    >>> weighted_mean([0.9, 0.3], [10, 30])
    0.45
    """
    q = np.asarray(values, dtype=np.float64)
    if not q.size or q.max() == inf:
        return inf
    n = [int(weight) for weight in weights]  # Python's integers have no bounds
    fractions, exponents = np.frexp(q)  # a float is a 53-bit integer times a power of two
    integers, least = np.ldexp(fractions, 53).astype(np.int64), int(exponents.min())
    shifts = (exponents - least).tolist()
    top: int = sum(w * i << e for w, i, e in zip(n, integers.tolist(), shifts, strict=True))
    power = least - 53
    return (top << max(power, 0)) / (sum(n) << max(-power, 0))  # an exact ratio, rounded here


def capped(sizes: Sequence[int], cap: int | None) -> list[int]:
    """Return the sizes, none of them above the cap.

    Without a cap the lower median of the sizes is taken: more than half of the agents then count in
    full and alike, and fewer than half cannot raise it above every honest size.

    Examples
    --------
    >>> capped([50, 1_000_000, 80, 60], cap=None)
    [50, 60, 60, 60]
    """
    if not sizes:
        return []
    most = median_low(sizes) if cap is None else cap
    return [min(n, most) for n in sizes]


def weighted_median(sent: Sequence[LocalQuantile], cap: int | None, overflow: Overflow) -> float:
    """Return the least threshold at or below which more than half of the capped weight lies.

    Examples
    --------
    >>> weighted_median([LocalQuantile(0.9, 50), LocalQuantile(9.0, 10**6)], None, "propagate")
    9.0
    >>> weighted_median([LocalQuantile(0.9, 50), LocalQuantile(0.8, 60)], None, "propagate")
    0.9
    """
    some = counted(sent, overflow)
    weights = capped([s.n for s in some], cap)
    total, reached = sum(weights), 0
    for q_k, w_k in sorted(zip((s.threshold for s in some), weights, strict=True)):
        reached += w_k
        if 2 * reached > total:
            return q_k
    return inf  # nobody has a threshold
