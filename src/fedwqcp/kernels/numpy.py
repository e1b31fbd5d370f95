"""The reference, in numpy: ranks, sets by sorting, intervals.

The compiled loops must give these numbers to the last bit; where they are not built, this serves.
Rows are worked on in blocks that stay in cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeVar

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
FEW = 100
"""Of so few rows each is worked on by itself."""

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
        own = least[rows] if least.ndim == 2 else least
        counts[rows] = _row_sums((probs[rows] >= own).astype(np.float32))
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
        own = np.take_along_axis(p, y, axis=axis)
        ahead = (p > own) | ((p == own) & (index < y))
        before[rows] = (p * ahead).sum(axis=axis)
        upto[rows] = before[rows] + own.reshape(-1)
        rank[rows] = ahead.sum(axis=axis) + 1
        top[rows] = p.max(axis=axis)
    return _capped(before, upto, rank, top, n_classes)


def rank_every_label(probs: Probabilities) -> Ranked:
    """Return where every label stands; fields have shape (n, C), ``top`` has (n, 1)."""
    p = fixed_point(probs)
    return rank_in_order(p, np.argsort(-p, axis=1, kind="stable"))


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

BITS = 10
PACKED = 2**BITS
"""With at most so many labels, probability and index are one integer of 63 bits."""


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
        y = None if labels is None else labels[rows]
        find = _sets_in_order if given.by_label else _sets_by_value
        find(probs[rows], formula, None if u is None else u[rows], given.of(rows), y, out.of(rows))
    return out


def _within(formula: KernelFormula, place: Ranked, u: Floats | None, given: Given) -> Bools:
    """Tell which labels belong to their sets; arrays have one column per row."""
    within = formula.of(place, 1.0 if u is None else u) <= given.q.T
    if given.rule != "leq":
        within |= place.rank == 1
    if given.rule == "until":
        within |= formula.of(place.previous(), 1.0) < given.q.T
    return within


def _sets_by_value(
    probs: Probabilities,
    formula: KernelFormula,
    u: Floats | None,
    given: Given,
    labels: Labels | None,
    out: Sets,
) -> None:
    """Fill in a block of rows, whose sets are their first few labels, by sorting values alone."""
    n, C = probs.shape
    if C <= SHORT and n > FEW:
        ordered = np.array(probs.T, order="C")
        _sort_columns(ordered[::-1])
        mass = _rounded(ordered)
        for k in range(1, C):  # beats a sum along columns
            mass[k] += mass[k - 1]
    else:
        ordered = np.sort(probs, axis=1)[:, ::-1].T
        mass = _rounded(ordered)
        np.cumsum(mass, axis=0, out=mass)
    top = np.minimum(mass[0], 1.0)
    fitting = _within(formula, _places(mass, top), u, given).sum(axis=0)
    rows, last = np.arange(n), np.minimum(fitting, C - 1)
    least = np.where(fitting > 0, ordered[fitting - 1, rows], np.inf).astype(probs.dtype)
    out.sizes[:] = fitting
    if labels is None:
        np.greater_equal(probs, least[:, None], out=out.mask)
    else:
        out.covered[:] = probs[rows, labels] >= least
    tied = _rounded(least) == _rounded(ordered[last, rows])
    tied &= (fitting > 0) & (fitting < C)
    if tied.any():  # around the end of the set: the smaller index comes first
        some = np.flatnonzero(tied)
        part = Sets.allocate(len(some), C, labels is not None)
        y = None if labels is None else labels[some]
        _sets_in_order(
            probs[some], formula, None if u is None else u[some], given.of(some), y, part
        )
        for whole, found in zip(out, part, strict=True):
            if found.size:
                whole[some] = found


def _sets_in_order(
    probs: Probabilities,
    formula: KernelFormula,
    u: Floats | None,
    given: Given,
    labels: Labels | None,
    out: Sets,
) -> None:
    """Fill in a block of rows by the order of their labels."""
    n, C = probs.shape  # arrays here have one column per row
    p = fixed_point(np.ascontiguousarray(probs.T)) if C <= SHORT else fixed_point(probs).T
    order, ordered = _descending(np.minimum(p, ONE))
    mass = _real(np.cumsum(ordered, axis=0))
    own = given.read_in(order)
    within = _within(formula, _places(mass, _real(ordered[0])), u, own)
    mask = np.empty((n, C), np.bool_)
    mask[np.arange(n), order] = within
    out.sizes[:] = np.count_nonzero(mask, axis=1)
    if labels is None:
        out.mask[:] = mask
    else:
        out.covered[:] = mask[np.arange(n), labels]


def _places(mass: Floats, top: Floats) -> Ranked:
    """Return where the labels of sorted columns stand, given the mass up to each."""
    upto = np.minimum(mass, 1.0)
    upto[-1] = 1.0
    before = np.zeros_like(upto)
    np.minimum(mass[:-1], 1.0, out=before[1:])
    return Ranked(before, upto, np.arange(1, len(mass) + 1)[:, None], top)


def _descending(p: Integers) -> tuple[Integers, Integers]:
    """Return labels and masses of each column, most probable first, the first of equals first."""
    C = len(p)
    if C > PACKED:
        order = np.argsort(-p, axis=0, kind="stable")
        return order, np.take_along_axis(p, order, axis=0)
    keys = np.arange(C)[:, None] - np.minimum(p, ONE) * PACKED  # beats sorting indices
    if C > SHORT:
        keys.sort(axis=0)
    else:  # many short rows: one place of all rows after the other
        _sort_columns(keys)
    return np.bitwise_and(keys, PACKED - 1), -np.right_shift(keys, BITS)


def _sort_columns(columns: npt.NDArray[Any]) -> None:
    """Sort every column in place, smallest first."""
    low = np.empty_like(columns[0])
    for a, b in network(len(columns)).tolist():
        np.minimum(columns[a], columns[b], out=low)
        np.maximum(columns[a], columns[b], out=columns[b])
        columns[a] = low


def _rounded(probs: Probabilities) -> Floats:
    """Return multiples of 2^-52 as floats, whose sums are exact."""
    rounded = probs.astype(np.float64) + 1.0
    rounded -= 1.0
    return rounded


@lru_cache(maxsize=SHORT)
def network(n: int) -> Integers:
    """Return Batcher's sorting network, shape (pairs, 2): places to compare, pair after pair."""
    return np.array(list(_comparisons(n)), np.int64).reshape(-1, 2)


def _comparisons(n: int) -> Iterator[tuple[int, int]]:
    """Merge sorted runs of 1, 2, 4, ... places."""
    run = 1
    while run < n:
        gap = run
        while gap:
            for start in range(gap % run, n - gap, 2 * gap):
                for a in range(start, min(start + gap, n - gap)):
                    if a // (2 * run) == (a + gap) // (2 * run):
                        yield a, a + gap
            gap //= 2
        run *= 2


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
    at = np.nonzero(where)  # beats a mask
    values[at] = np.nextafter(values[at], towards)
    return values
