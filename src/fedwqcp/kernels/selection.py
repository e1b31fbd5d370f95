"""Order statistics, plain and weighted, without sorting.

A sample gives a bracket: two values between which the answer lies with near certainty. For a rank,
passes that only count narrow it, by interpolation between the counts at both ends. Then one pass
keeps what lies in the bracket. Where the sample was wrong, a full partition or sort decides: the
answer is exact in any case.
"""

from __future__ import annotations

from contextlib import nullcontext
from math import floor, inf, isfinite, nextafter, sqrt

import numpy as np

from fedwqcp._validation import Floats
from fedwqcp.kernels.compilation import Loops, count_numpy_time, loops_for

LARGE = 2**13
"""Samples below this size are partitioned or sorted as a whole."""

SAMPLE, WEIGHTED_SAMPLE = 2**12, 2**14
"""How many values are in a sample, at most, of one in `SPARSE`."""

SPARSE = 96
BLOCK = 2**16
"""How many values numpy compares at a time; they stay in cache."""

PASSES = 5
"""How often a bracket is narrowed before it is taken as it is."""

KEPT = 2**8
"""A bracket of one value in so many is narrow enough: its values are kept."""

SLACK = 0.03
"""How far, in widths of the bracket, values may lie from where even spacing puts them."""


def order_statistic(values: Floats, rank: int) -> float:
    """Return the rank-th smallest of n values without NaN and -inf, for a rank from 1 to n."""
    if len(values) >= LARGE and (found := _by_counting(values, rank)) is not None:
        return found
    return float(np.partition(values, rank - 1)[rank - 1])


def _by_counting(values: Floats, rank: int) -> float | None:
    """Return the value of a rank from a bracket around it, or None where there is no good one."""
    n = len(values)
    loops = loops_for("select", n, lambda loops: _first_call(loops, values))
    with count_numpy_time("select", n) if loops is None else nullcontext():
        return _narrow(values, rank, loops)


def _first_call(loops: Loops, values: Floats) -> None:
    """Compile the loops that are used here."""
    _below(values[:1], 0.0, 1.0, loops)
    _between(values[:1], 0.0, 1.0, 1, loops)


def _narrow(values: Floats, rank: int, loops: Loops | None) -> float | None:
    """Narrow a bracket, keep what lies in it and select from that."""
    n = len(values)
    low, high = _bracket(values, rank)  # the answer is at least low, and less than high
    below_low, below_high = _below(values, low, high, loops)
    for _ in range(PASSES):
        inside = below_high - below_low
        if not below_low < rank <= below_high or inside <= n // KEPT or not isfinite(high - low):
            break
        if nextafter(low, inf) >= high:  # nothing else lies between
            return low
        guess = low + (high - low) * ((rank - below_low) / inside)
        half = (high - low) * (2 / sqrt(inside) + SLACK)
        a, b = max(low, guess - half), min(high, guess + half)
        below_a, below_b = _below(values, a, b, loops)
        if rank <= below_a:
            high, below_high = a, below_a
        elif rank > below_b:
            low, below_low = b, below_b
        else:
            low, below_low, high, below_high = a, below_a, b, below_b
    if not below_low < rank <= below_high or below_high - below_low > n // 2:
        return None
    kept = _between(values, low, high, below_high - below_low, loops)
    return float(np.partition(kept, rank - 1 - below_low)[rank - 1 - below_low])


def _bracket(values: Floats, rank: int) -> tuple[float, float]:
    """Guess between which two values the one of a rank lies; the second lies beyond it."""
    sample = values[:: max(SPARSE, len(values) // SAMPLE)]
    m, share = len(sample), rank / len(values)
    margin = 4 * sqrt(m * share * (1 - share)) + 4
    first, last = floor(m * share - margin), floor(m * share + margin)
    ordered = np.partition(sample, (max(first, 0), min(last, m - 1)))
    low = ordered[first] if first >= 0 else values.min()
    high = ordered[last] if last < m else values.max()
    return float(low), nextafter(float(high), inf)


def _below(values: Floats, low: float, high: float, loops: Loops | None) -> tuple[int, int]:
    """Count the values below either end of a bracket."""
    if loops is not None:
        below_low, below_high = loops.numba.count_below(values, low, high)
        return int(below_low), int(below_high)
    below_low, below_high = 0, 0
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        below_low += int(np.count_nonzero(block < low))
        below_high += int(np.count_nonzero(block < high))
    return below_low, below_high


def _between(values: Floats, low: float, high: float, inside: int, loops: Loops | None) -> Floats:
    """Collect the values of a bracket, which are so many."""
    if loops is not None:
        kept = np.empty(inside + 1)
        loops.numba.keep_between(values, low, high, kept)
        return kept[:inside]
    blocks = (values[start : start + BLOCK] for start in range(0, len(values), BLOCK))
    return np.concatenate([block[(block >= low) & (block < high)] for block in blocks])


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
    step = max(SPARSE, len(values) // WEIGHTED_SAMPLE)
    order = np.argsort(values[::step], kind="stable")
    sample, w = values[::step][order], weights[::step][order] * step
    reached = np.cumsum(w)
    margin = 4 * sqrt(float(w @ w)) + float(w.max())
    low, high = np.searchsorted(reached, [target - margin, target + margin])
    return (
        float(sample[low - 1]) if low else -np.inf,
        float(sample[high]) if high < len(sample) else np.inf,
    )
