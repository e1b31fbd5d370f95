"""Which compiled loops find the labels within a threshold.

Quick loops come first and leave some rows open; slower ones fill these in. The last is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Bools, Floats, Labels, Probabilities
from fedwqcp.kernels import compiled, places
from fedwqcp.kernels.compiled import Integers
from fedwqcp.kernels.limits import Limits
from fedwqcp.kernels.networks import network
from fedwqcp.kernels.ranked import FEW
from fedwqcp.kernels.sorting import Out

Arrays: TypeAlias = tuple[Floats, Integers, Labels, Bools, Bools]
Exact: TypeAlias = Callable[[Probabilities, Labels, Arrays], bool]
"""Given rows, their labels and the arrays of `Out`, it fills them in, and tells whether rows are
sound."""

Quick: TypeAlias = Callable[[Probabilities, Labels, Arrays], Integers]
"""Given the same, it tells which rows are still open; they have -1 labels that fit."""

EXACT = 2.0**-29
"""float32 up to this may be equal in fixed point."""

START = (0.5, 0.8, 1.25, 2.0)
"""Where rows are cut first, in mean probabilities."""

NO_MASSES = np.empty((3, 0))
"""Quick loops do not weigh what comes before the crossing: that is done in the end."""

NO_ROWS = np.empty(0, np.int64)
"""Named where all rows are looked at."""

KEPT = 64
"""For so many thresholds, what loops make of it is kept."""

COPIED = 2**17
"""So many numbers of rows are copied at a time, where they must be."""


def fill(probs: Probabilities, labels: Labels, limits: Limits, out: Out) -> bool:
    """Let numba fill in all rows.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Of the right type and shape.
    labels : Labels, shape (n,) or (0,)
        True labels, if they are wanted.
    limits : Limits
        What a threshold allows.
    out : Out
        What to fill in.

    Returns
    -------
    bool
        False if it does not serve such an input, or is not sure that a row is sound.
    """
    loops = compiled.kernels(probs.size)
    if loops is None:
        return False
    quick = _quick(loops, probs, limits)

    def _work(rows: slice) -> bool:
        part = out.of(rows)
        sound = _by_any(probs[rows], labels[rows], part, quick, partial(_exact, loops, limits))
        if sound and quick and part.label.size:
            places.fill(loops, probs[rows], part.label, part.masses)
        return sound

    return compiled.over_rows(len(probs), probs.size, _work)


def _by_any(
    probs: Probabilities, labels: Labels, out: Out, quick: Quick | None, exact: Exact
) -> bool:
    """Let the quick loop fill in what it can, and the exact one the rest."""
    if quick is None:
        return exact(probs, labels, out.arrays())
    left = quick(probs, labels, (NO_MASSES, *out.arrays()[1:]))
    step = max(1, COPIED // probs.shape[1])
    for start in range(0, len(left), step):
        some = left[start : start + step]
        part = Out.of_rows(len(some), out.mask.shape[1], out.label.size > 0, labels.size > 0)
        if not exact(probs[some], labels[some] if labels.size else labels, part.arrays()):
            return False
        out.put(some, part)
    return True


def _exact(loops: ModuleType, limits: Limits, p: Probabilities, y: Labels, out: Arrays) -> bool:
    """Fill in any rows."""
    n_classes = p.shape[1]
    if n_classes > FEW:
        return bool(loops.crossings(p, y, limits.pair(), out))
    bounds = limits.reals(), limits.by_top
    return bool(loops.crossings_of_few(p, y, bounds, out, network(n_classes)))


def _quick(loops: ModuleType, probs: Probabilities, limits: Limits) -> Quick | None:
    """Return the quick loop for such rows, if there is one."""
    n_classes, single = probs.shape[1], probs.dtype == np.float32
    if limits.by_top or limits.none or n_classes > places.WIDE:
        return None
    if n_classes > FEW:
        return _by_cuts(loops, limits, np.array(START) / n_classes)
    if n_classes <= places.FEW and single and probs.flags.c_contiguous:
        return _by_sorting(loops, limits)
    return None


def _by_sorting(loops: ModuleType, limits: Limits) -> Quick:
    """Return the loop for few labels."""
    bounds = _sorted_limits(limits)
    classes = (0,) * (len(limits.at) - 1)

    def work(p: Probabilities, y: Labels, arrays: Arrays) -> Integers:
        scratch = np.empty(loops.ROOM, np.float32), classes
        opened = loops.fit_of_few(p, y, bounds, arrays, scratch)
        return np.flatnonzero(arrays[1] < 0) if opened else NO_ROWS

    return work


@lru_cache(maxsize=KEPT)
def _sorted_limits(limits: Limits) -> tuple[Probabilities, Probabilities, Floats, Integers]:
    """Return what sums of float32 surely keep, what they may keep, both exactly, and a network."""
    at, n_classes = limits.reals(), len(limits.at) - 1
    slack = (n_classes + 4) * 2.0**-24  # a sum of so many float32 errs by less
    surely, maybe = (at - slack).astype(np.float32), (at + slack).astype(np.float32)
    return surely, maybe, at, network(n_classes)


def _by_cuts(loops: ModuleType, limits: Limits, cuts: Floats) -> Quick:
    """Return the loop for many labels; it learns where to cut first.

    What sums of float32 cannot settle is tried in float64. Rows that do not follow each other are
    copied, a few at a time.
    """
    n_classes = len(limits.at) - 1

    def work(p: Probabilities, y: Labels, arrays: Arrays) -> Integers:
        if p.flags.c_contiguous:
            return _counted(p, y, Out(*arrays))
        out, left, step = Out(*arrays), [NO_ROWS], max(1, COPIED // n_classes)
        for start in range(0, len(p), step):
            rows = slice(start, start + step)
            left.append(start + _counted(np.ascontiguousarray(p[rows]), y[rows], out.of(rows)))
        return np.concatenate(left)

    def _counted(p: Probabilities, y: Labels, out: Out) -> Integers:
        left = NO_ROWS
        for kind in (np.float32, np.float64) if p.dtype == np.float32 else (np.float64,):
            bounds = _cut_limits(limits, kind, loops.PART)
            room = np.zeros(loops.CUT_ROOM, kind), np.zeros(loops.PILED, np.int64)
            room[0][: len(cuts)] = cuts
            opened = loops.count_fitting(p, y, bounds, out.arrays(), room, left)
            cuts[:] = room[0][: len(cuts)]  # whichever thread comes last: any cuts will do
            if not opened:
                return NO_ROWS
            left = left[out.fits[left] < 0] if left.size else np.flatnonzero(out.fits < 0)
            if left.size * n_classes < compiled.LARGE:
                break  # it is not worth the wait for another loop
        return left

    return work


@lru_cache(maxsize=KEPT)
def _cut_limits(
    limits: Limits, kind: type[np.floating[Any]], part: int
) -> tuple[npt.NDArray[np.floating], np.floating, bool, np.floating, Floats]:
    """Return the limits in one kind of floats, how far a sum may be off, whether all limits but the
    first and the last are one, up to which number labels may be equal in fixed point, and the
    limits exactly.

    So many labels are added in each lane, then such parts, then lanes (four times) and what is left
    of the row: each time, less than a unit of a sum of at most 1 is lost. What `_search` computes
    from sums loses less than seven more.
    """
    n_classes, unit = len(limits.at) - 1, float(np.finfo(kind).eps) / 2
    exact = np.append(limits.reals(), -np.inf)  # the loop asks for two more labels
    at = exact.astype(kind)
    added = min(n_classes, part) / 16 + n_classes / part + 16
    slack = kind(added * 1.02 * unit + n_classes * 2.0**-52)
    one = bool((at[1:n_classes] == at[1]).all())
    return at, slack, one, kind(EXACT if kind == np.float32 else 0), exact
