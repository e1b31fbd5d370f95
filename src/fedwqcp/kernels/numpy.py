"""The reference passes, in numpy: ranks, limits of a threshold, crossings by sorting, intervals.

Every other path must give these numbers to the last bit. They also serve inputs that are too small
for a compiler, and machines without numba. Rows are worked on in blocks that stay in cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import SUM_TOLERANCE, Bools, Floats, Labels, Probabilities
from fedwqcp.kernels import Crossings, Integers, Ranked

ONE = np.int64(2**52)
BLOCK = 2**16
"""How many probabilities are worked on at a time (512 KiB as integers: they stay in cache)."""

# glibc keeps freed memory for later blocks, up to the largest that was freed so far. Without this
# line each block of a fresh process gets new pages from the system, up to half of a call's time.
np.empty(2**23, np.uint8)

SHORT = 48
"""Rows of at most so many labels are worked on side by side, one column after the other."""

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


# What a threshold allows at each rank -------------------------------------------------------------

NO_LIMIT = np.int64(2**62)
NEAR = 64
"""How far a guessed limit may be off, in units of 2^-52, before the whole range is searched."""


@dataclass(frozen=True, eq=False)
class Limits:
    """How much mass each rank may have: labels up to the first one beyond its limit are in."""

    at: Integers
    """Shape (C + 1,): largest mass within the threshold at ranks 0 to C, in fixed point."""
    by_top: bool
    """Whether the mass is the largest probability of the row, or the mass up to the label."""

    def pair(self) -> tuple[Integers, Integers]:
        """Return limits on the mass up to the label, and on the largest probability or none."""
        none = np.empty(0, np.int64)
        return (np.full_like(self.at, NO_LIMIT), self.at) if self.by_top else (self.at, none)

    def reals(self, randomized: bool = False) -> Floats:
        """Return the limits as floats: +inf from mass 1 on, where masses are capped.

        The mass up to the last label is 1 by definition, so its limit is +inf or -inf, unless only
        a random part of its own mass counts.
        """
        return self._reals[randomized]

    @cached_property
    def _reals(self) -> tuple[Floats, Floats]:
        whole = self.at >= ONE
        randomized = np.where(whole, np.inf, np.ldexp(self.at.astype(np.float64), -52))
        reals = randomized.copy()
        if not self.by_top and not whole[-1]:
            reals[-1] = -np.inf
        return reals, randomized

    @cached_property
    def none(self) -> bool:
        """Whether all labels fit, whatever they weigh."""
        return bool((self.at >= ONE).all())


def limits_of(within: Callable[[Integers], Bools], guess: Floats, by_top: bool) -> Limits:
    """Return the largest mass within a threshold at each rank, -1 where there is none.

    ``within`` tells, for one mass at each rank from 1 to C, whether scores are within the
    threshold; it is true for small masses. ``guess`` is about where it ends, as floats.
    """
    middle = np.ldexp(np.clip(guess, 0, 1), 52).astype(np.int64)
    low, high = np.maximum(middle - NEAR, 0), np.minimum(middle + NEAR, ONE)
    low = np.where(within(low), low, -1)
    high = np.where(~within(high), high, np.where(within(np.full_like(high, ONE)), ONE + 1, ONE))
    while (wide := high - low > 1).any():  # bisection, all ranks at once
        middle = np.where(wide, (low + high) // 2, np.maximum(low, 0))
        inside = within(middle)
        low = np.where(wide & inside, middle, low)
        high = np.where(wide & ~inside, middle, high)
    return Limits(np.concatenate([[ONE], low]), by_top)


class RandomPart(NamedTuple):
    """What scores are made of, and compared with; without penalties, `Limits` decide instead."""

    u: Floats
    """Shape (n,), or (0,) where nothing is random, which means 1."""
    penalties: Floats
    """Shape (C + 1,): the score at ranks 0 to C where all masses are 0; or (0,)."""
    threshold: Floats
    """Shape (1,) for all rows, (n,) by row, or (C,) by label, which no crossing loop reads."""
    by_row: bool = False
    """Whether each row has its own."""

    def of(self, rows: slice | Integers) -> RandomPart:
        """Return the part of some rows."""
        if not self.penalties.size:
            return self
        own = self.threshold[rows] if self.by_row else self.threshold
        return self._replace(u=self.u[rows] if self.u.size else self.u, threshold=own)

    def fits(self, place: Ranked, by_top: bool) -> Bools:
        """Tell which labels are within the threshold: of one row each, or of one row a column.

        Operations are those of the scores' own formulas, in their order, and of the exact loops.
        """
        before, upto, rank, top = place
        u = self.u if self.u.size else 1.0
        if by_top:
            steps = top + (rank - 2 + u) * self.penalties[min(2, len(self.penalties) - 1)]
            return np.where(rank == 1, u * top, steps) <= self.threshold
        mass = before + u * (upto - before)
        return mass + self.penalties[np.minimum(rank, len(self.penalties) - 1)] <= self.threshold


_NOTHING = np.empty(0)
_NOTHING.flags.writeable = False
_NO_THRESHOLD = np.array([np.nan])
_NO_THRESHOLD.flags.writeable = False
NOT_RANDOM = RandomPart(_NOTHING, _NOTHING, _NO_THRESHOLD)


# Crossings by sorting -----------------------------------------------------------------------------

BITS = 10
PACKED = 2**BITS
"""With at most so many labels, probability and index are one integer of 63 bits."""


def cross_by_value(
    probs: Probabilities, labels: Labels, limits: Limits, random: RandomPart, out: Crossings
) -> None:
    """Fill in all but the places of a block of checked rows, by sorting values without labels."""
    n, C = probs.shape
    ordered = np.sort(probs, axis=1)[:, ::-1].T if C > SHORT else np.array(probs.T, order="C")
    if C <= SHORT:
        _sort_columns(ordered[::-1])
    mass = _rounded(ordered)
    for k in range(1, C if C <= SHORT else 0):  # beats a sum along columns
        mass[k] += mass[k - 1]
    if C > SHORT:
        np.cumsum(mass, axis=0, out=mass)
    if random.penalties.size:
        fitting = _count_random(mass, limits, random)
    else:
        fitting = ((mass[0] if limits.by_top else mass) <= limits.reals()[1:, None]).sum(axis=0)
    rows, last = np.arange(n), np.minimum(fitting, C - 1)
    least = np.where(fitting > 0, ordered[fitting - 1, rows], np.inf).astype(probs.dtype)
    out.sizes[:] = fitting
    if out.covered.size:
        out.covered[:] = probs[rows, labels] >= least
    if out.mask.size:
        np.greater_equal(probs, least[:, None], out=out.mask)
    tied = _rounded(least) == _rounded(ordered[last, rows])
    tied &= (fitting > 0) & (fitting < C)
    if tied.any():  # around the crossing: the smaller index comes first
        some = np.flatnonzero(tied)
        wanted = C if out.mask.size else 0
        part = Crossings.allocate(len(some), wanted, False, out.covered.size > 0)
        y = labels[some] if labels.size else labels
        cross_by_order(probs[some], y, limits, random.of(some), part)
        out.put(some, part)


def _count_random(mass: Floats, limits: Limits, random: RandomPart) -> Integers:
    """Return how many labels fit, given the mass up to each rank, one row a column."""
    upto = np.minimum(mass, 1.0)
    upto[-1] = 1.0
    before = np.zeros_like(upto)
    before[1:] = np.minimum(mass[:-1], 1.0)
    place = Ranked(before, upto, np.arange(1, len(mass) + 1)[:, None], upto[0])
    found: Integers = random.fits(place, limits.by_top).sum(axis=0)
    return found


def cross_by_order(
    probs: Probabilities, labels: Labels, limits: Limits, random: RandomPart, out: Crossings
) -> None:
    """Fill in a block of checked rows by sorting their labels; there may be no true labels."""
    C, rows = probs.shape[1], np.arange(len(probs))  # arrays here have one column per row
    p = fixed_point(np.ascontiguousarray(probs.T)) if C <= SHORT else fixed_point(probs).T
    p = np.minimum(p, ONE)  # as everywhere: a number may pass 1 within the tolerance
    order, ordered = _descending(p)
    upto = np.empty_like(ordered, shape=(C + 1, len(probs)))  # in the same layout
    upto[0] = 0
    np.cumsum(ordered, axis=0, out=upto[1:])
    np.minimum(upto, ONE, out=upto)
    upto[C] = ONE
    top = np.minimum(ordered[0], ONE)
    if random.penalties.size:
        n = _count_random(_real(upto[1:]), limits, random)
    else:
        n = ((top if limits.by_top else upto[1:]) <= limits.at[1:, None]).sum(axis=0)
    last = np.minimum(n, C - 1)
    label = np.where(n < C, order[last, rows], -1)
    value = np.where(n < C, ordered[last, rows], -1)
    out.sizes[:] = n
    if out.label.size:
        out.label[:] = label
        out.masses[:] = np.stack([upto[n, rows], upto[last + 1, rows], top]) * 2.0**-52
    if out.covered.size:
        out.covered[:] = p[labels, rows] > value - (labels < label)
    if out.mask.size:
        out.mask[:] = (p > value - (np.arange(C)[:, None] < label)).T


def mask_by_label(probs: Probabilities, q: Floats, random: RandomPart, by_top: bool) -> Bools:
    """Mark the labels of a block of checked rows that are within thresholds of their own."""
    n, C = probs.shape  # arrays here have one column per row
    p = fixed_point(np.ascontiguousarray(probs.T)) if C <= SHORT else fixed_point(probs).T
    order, ordered = _descending(np.minimum(p, ONE))
    upto = np.minimum(np.cumsum(ordered, axis=0), ONE)
    upto[-1] = ONE
    upto = _real(upto)
    before = np.zeros_like(upto)
    before[1:] = upto[:-1]
    place = Ranked(before, upto, np.arange(1, C + 1)[:, None], _real(ordered[0]))
    mask = np.empty((n, C), np.bool_)
    mask[np.arange(n), order] = random._replace(threshold=q[order]).fits(place, by_top)
    return mask


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


def distance(base: Floats, y: Floats) -> Floats:
    """Return y - base, or the next float: the smallest q with ``y <= reach(base, q)``.

    -base and -y measure downwards.
    """
    q = y - base
    return _nudged(q, base + q < y, np.inf)


def reach(base: Floats, q: Floats) -> Floats:
    """Return base + q, or the float before: the largest y with ``distance(base, y) <= q``."""
    y = base + q
    return _nudged(y, distance(base, y) > q, -np.inf)


def ratio(length: Floats, scale: Floats) -> Floats:
    """Return length / scale, or the next float: the smallest q with length <= stretch(q, scale)."""
    q = length / scale
    return _nudged(q, q * scale < length, np.inf)


def stretch(q: Floats, scale: Floats) -> Floats:
    """Return q * scale, or the float before: the largest length with ratio(length, scale) <= q."""
    length = q * scale
    return _nudged(length, ratio(length, scale) > q, -np.inf)


def _nudged(values: Floats, where: Bools, towards: float) -> Floats:
    """Move some values, which are the caller's own, by one unit in the last place."""
    values[where] = np.nextafter(values[where], towards)
    return values
