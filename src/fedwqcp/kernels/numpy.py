"""The reference, in numpy: ranks, sets by sorting, intervals.

The compiled loops must give these numbers to the last bit; where they are not built, this serves.
Rows are worked on in blocks that stay in cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import SUM_TOLERANCE, Bools, Floats, Labels, Probabilities
from fedwqcp.kernels import Given, Integers, KernelFormula, Ranked, Sets

ONE = np.int64(2**52)
BLOCK = 2**16
"""How many probabilities are worked on at a time (512 KiB as integers: they stay in cache)."""

# glibc keeps freed memory for later blocks, up to the largest that was freed so far. Without this
# line each block of a fresh process gets new pages from the system, up to half of a call's time.
np.empty(2**23, np.uint8)

SHORT = 48
"""Rows of at most so many labels are worked on side by side, one column after the other."""
PACKED = 2**10
"""With at most so many labels, probability and label are one integer of 63 bits."""

G = TypeVar("G", bound=np.generic)


def blocks(n: int, n_classes: int) -> Iterator[slice]:
    """Yield the rows in blocks of at most BLOCK probabilities."""
    step = max(1, BLOCK // n_classes)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def surely_probabilities(probs: Probabilities) -> bool:
    """Tell whether rounded sums leave no doubt that rows are probabilities."""
    n, n_classes = probs.shape
    slack = n_classes * float(np.finfo(probs.dtype).eps)  # a sum errs by less, in any order
    if n == 0 or slack > SUM_TOLERANCE / 4 or not probs.flags.c_contiguous:
        return False
    if not probs.min() >= 0:
        return False
    sums = _row_sums(probs)
    return bool(np.abs(sums - 1).max() <= SUM_TOLERANCE - 2 * slack)


def _row_sums(values: npt.NDArray[G]) -> npt.NDArray[G]:
    """Return the rounded sum of each row, as a product with ones: the fastest way for short rows.

    Silent: infinity is for the caller to see, and the BLAS of some processors reports errors where
    every number is finite (numpy issues 24067 and 28967).
    """
    with np.errstate(all="ignore"):
        return values @ np.ones(values.shape[1], values.dtype)


def of_labels(probs: Probabilities, labels: Labels) -> Probabilities:
    """Return the probability of one label of each row, shape (n,)."""
    n, n_classes = probs.shape
    if not probs.flags.c_contiguous:
        return probs[np.arange(n), labels]
    return probs.reshape(-1).take(np.arange(0, n * n_classes, n_classes) + labels)


def count_from(probs: Probabilities, least: Probabilities) -> Integers:
    """Return how many probabilities of each row are at least some number, shape (n,).

    Sums of zeros and ones in float32 are exact below 2^24 labels.
    """
    n, n_classes = probs.shape
    counts = np.empty(n, np.int64)
    for rows in blocks(n, n_classes):
        needed = least[rows] if least.ndim == 2 else least
        counts[rows] = _row_sums((probs[rows] >= needed).astype(np.float32))
    return counts


# Ranks --------------------------------------------------------------------------------------------


def fixed_point(probs: Probabilities) -> Integers:
    """Return probabilities as integers in units of 2^-52, rounded once, half to even."""
    scaled = probs.astype(np.float64) * 2.0**52  # exact
    return np.rint(scaled, out=scaled).astype(np.int64)


def rank_labels(probs: Probabilities, labels: Labels) -> Ranked:
    """Return where one label of each row stands, without sorting; fields have shape (n,)."""
    n, n_classes = probs.shape
    before, upto, rank, top = (np.empty(n, np.int64) for _ in range(4))
    short = n_classes <= SHORT  # one column of all rows after the other, or row after row
    axis, index = (0, np.arange(n_classes)[:, None]) if short else (1, np.arange(n_classes))
    for rows in blocks(n, n_classes):
        p = fixed_point(np.ascontiguousarray(probs[rows].T) if short else probs[rows])
        y = np.expand_dims(labels[rows], axis)
        mass = np.take_along_axis(p, y, axis=axis)
        ahead = (p > mass) | ((p == mass) & (index < y))
        before[rows] = (p * ahead).sum(axis=axis)
        upto[rows] = before[rows] + mass.reshape(-1)
        rank[rows] = ahead.sum(axis=axis) + 1
        top[rows] = p.max(axis=axis)
    return _capped(before, upto, rank, top, n_classes)


def rank_every_label(probs: Probabilities) -> Ranked:
    """Return where every label stands; fields have shape (n, C), ``top`` has (n, 1)."""
    p, n_classes = fixed_point(probs), probs.shape[1]
    if n_classes > PACKED:
        return rank_in_order(p, np.argsort(-p, axis=1, kind="stable"))
    keys = np.arange(n_classes) - p * PACKED  # sorted faster than indices
    keys.sort(axis=1)
    return rank_in_order(p, keys & (PACKED - 1))


def rank_in_order(p: Integers, order: Integers) -> Ranked:
    """Return where every label stands when each row, in fixed point, is read in a given order."""
    n_classes = p.shape[1]
    upto = _scatter(np.cumsum(np.take_along_axis(p, order, axis=1), axis=1), order)
    rank = _scatter(np.broadcast_to(np.arange(1, n_classes + 1), p.shape), order)
    return _capped(upto - p, upto, rank, p.max(axis=1, keepdims=True, initial=0), n_classes)


def rank_in_float32(probs: Probabilities) -> Ranked:
    """Return where every label stands, with sums rounded to float32 and not capped.

    This is what plain float32 code computes: a saturated softmax reaches 1 early and a sum may pass
    1 by rounding. It serves comparisons with published results only.
    """
    p = probs.astype(np.float32, copy=False)
    order = np.argsort(-p, axis=1, kind="stable")
    upto = np.cumsum(np.take_along_axis(p, order, axis=1), axis=1, dtype=np.float32)
    before = np.concatenate([np.zeros_like(upto[:, :1]), upto[:, :-1]], axis=1)
    rank = _scatter(np.broadcast_to(np.arange(1, p.shape[1] + 1), p.shape), order)
    return Ranked(
        _scatter(before, order).astype(np.float64),
        _scatter(upto, order).astype(np.float64),
        rank,
        p.max(axis=1, keepdims=True, initial=0).astype(np.float64),
    )


def _capped(
    before: Integers, upto: Integers, rank: Integers, top: Integers, n_classes: int
) -> Ranked:
    """Cap masses at 1, let the last label reach exactly 1, and leave fixed point."""
    upto = np.where(rank == n_classes, ONE, np.minimum(upto, ONE))
    return Ranked(_real(np.minimum(before, ONE)), _real(upto), rank, _real(np.minimum(top, ONE)))


def _real(fixed: Integers) -> Floats:
    """Return fixed point as floats; exact, since a mass has at most 53 bits."""
    return fixed.astype(np.float64) * 2.0**-52


def _scatter(values: npt.NDArray[G], order: Integers) -> npt.NDArray[G]:
    """Put values that stand in reading order back to their labels."""
    out = np.empty(order.shape, values.dtype)
    np.put_along_axis(out, order, values, axis=1)
    return out


# Sets by sorting ----------------------------------------------------------------------------------


def sets(
    probs: Probabilities,
    formula: KernelFormula,
    u: Floats | None,
    given: Given,
    labels: Labels | None,
) -> Sets:
    """Find the sets of checked rows: masks, or without labels' masks coverage and sizes."""
    n, n_classes = probs.shape
    out = Sets.allocate(n, n_classes, labels is not None)
    for rows in blocks(n, n_classes):
        ranked = rank_every_label(probs[rows])
        q = given.q[rows] if given.q.ndim == 2 else given.q
        mask = formula.of(ranked, 1.0 if u is None else u[rows, None]) <= q
        if given.rule != "leq":
            mask |= ranked.rank == 1
        if given.rule == "until":
            mask |= formula.of(ranked.previous(), 1.0) < q
        out.sizes[rows] = np.count_nonzero(mask, axis=1)
        if labels is None:
            out.mask[rows] = mask
        else:
            out.covered[rows] = mask[np.arange(len(mask)), labels[rows]]
    return out


# Intervals: distances and their exact inversion ---------------------------------------------------
#
# In floating point ``y <= f + q`` and ``y - f <= q`` are different statements. Here a score and its
# interval are two sides of one: `distance` is raised by one unit in the last place where rounding
# would lose y, and `reach` is lowered by one where rounding would gain a y of larger distance. Then
# ``distance(f, y) <= q`` holds exactly where ``y <= reach(f, q)`` does, for all floats; likewise
# `ratio` and `stretch`. One unit is always enough, because rounding is monotone and keeps floats.
# Where y is base + q rounded, a `distance` that rounds to q is q: `reach` looks at y - base alone.


def distance(base: Floats, y: Floats) -> Floats:
    """Return y - base, or the next float: the smallest q with ``y <= reach(base, q)``.

    -base and -y measure downwards.
    """
    q = y - base
    return _nudged(q, base + q < y, np.inf)


def reach(base: Floats, q: Floats) -> Floats:
    """Return base + q, or the float before: the largest y with ``distance(base, y) <= q``."""
    y = base + q
    return _nudged(y, y - base > q, -np.inf)


def ratio(length: Floats, scale: Floats) -> Floats:
    """Return length / scale, or the next float: the smallest q with length <= stretch(q, scale)."""
    q = length / scale
    return _nudged(q, q * scale < length, np.inf)


def stretch(q: Floats, scale: Floats) -> Floats:
    """Return q * scale, or the float before: the largest length with ratio(length, scale) <= q."""
    length = q * scale
    return _nudged(length, length / scale > q, -np.inf)


def _nudged(values: Floats, where: Bools, towards: float) -> Floats:
    """Move some values, which are the caller's own, by one unit in the last place."""
    entries = np.nonzero(where)  # beats a mask
    values[entries] = np.nextafter(values[entries], towards)
    return values
