"""Which compiled loops find the labels within a threshold.

Quick loops come first and leave some rows open; slower ones fill these in. The last is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

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

Quick: TypeAlias = Callable[[Probabilities, Labels, Arrays], int]
"""Given the same, it tells how many rows are still open; they have -1 labels that fit."""

EXACT = 2.0**-29
"""float32 up to this may be equal in fixed point."""

ROWS = 16
"""So many rows are searched together, and no fewer."""

START = (0.5, 0.8, 1.25, 2.0)
"""Where rows are cut first, in mean probabilities."""

NO_MASSES = np.empty((3, 0))
"""Quick loops do not weigh what comes before the crossing: that is done in the end."""

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
    exact, quick = _exact(loops, probs, limits), _quick(loops, probs, limits)

    def _work(rows: slice) -> bool:
        part = out.of(rows)
        sound = _by_any(probs[rows], labels[rows], part, quick, exact)
        if sound and quick and part.label.size:
            places.fill(loops, probs[rows], part.label, part.masses)
        return sound

    return compiled.over_rows(len(probs), probs.size, _work)


def _by_any(
    probs: Probabilities, labels: Labels, out: Out, quick: tuple[Quick, ...], exact: Exact
) -> bool:
    """Let the quick loops fill in what they can, and the exact one the rest."""
    if not quick:
        return exact(probs, labels, out.arrays())
    if not quick[0](probs, labels, (NO_MASSES, *out.arrays()[1:])):
        return True
    left, step = np.flatnonzero(out.fits < 0), max(ROWS, COPIED // probs.shape[1])
    for start in range(0, len(left), step):
        some = left[start : start + step]
        part = Out.of_rows(len(some), out.mask.shape[1], out.label.size > 0, labels.size > 0)
        y = labels[some] if labels.size else labels
        if not _by_any(probs[some], y, part, quick[1:], exact):
            return False
        out.put(some, part)
    return True


def _exact(loops: ModuleType, probs: Probabilities, limits: Limits) -> Exact:
    """Return the loop that fills in any row."""
    n_classes = probs.shape[1]
    if n_classes <= FEW:
        bounds, pairs = (limits.reals(), limits.by_top), network(n_classes)
        return lambda p, y, out: bool(loops.crossings_of_few(p, y, bounds, out, pairs))
    both = limits.pair()
    return lambda p, y, out: bool(loops.crossings(p, y, both, out))


def _quick(loops: ModuleType, probs: Probabilities, limits: Limits) -> tuple[Quick, ...]:
    """Return the quick loops for such rows, the quickest first."""
    n_classes, single = probs.shape[1], probs.dtype == np.float32
    if limits.by_top or limits.none or n_classes > places.WIDE:
        return ()
    if n_classes > FEW:
        cuts = np.array(START) / n_classes
        in_double = _by_cuts(loops, limits, cuts, np.float64)
        return (_by_cuts(loops, limits, cuts, np.float32), in_double) if single else (in_double,)
    if n_classes <= places.FEW and single and probs.flags.c_contiguous:
        return (_by_sorting(loops, limits),)
    return ()


def _by_sorting(loops: ModuleType, limits: Limits) -> Quick:
    """Return the loop for few labels."""
    at, n_classes = limits.reals(), len(limits.at) - 1
    slack = (n_classes + 4) * 2.0**-24  # a sum of so many float32 errs by less
    surely, maybe = (at - slack).astype(np.float32), (at + slack).astype(np.float32)
    bounds, classes = (surely, maybe, at, network(n_classes)), (0,) * n_classes

    def work(p: Probabilities, y: Labels, arrays: Arrays) -> int:
        scratch = np.empty(loops.ROOM, np.float32), classes
        return int(loops.fit_of_few(p, y, bounds, arrays, scratch))

    return work


def _by_cuts(
    loops: ModuleType, limits: Limits, cuts: Floats, kind: type[np.floating[Any]]
) -> Quick:
    """Return the loop for many labels, in one kind of floats; it learns where to cut first.

    Rows of another kind, or that do not follow each other, are copied, a few at a time.
    """
    n_classes, unit = len(limits.at) - 1, float(np.finfo(kind).eps) / 2
    at = np.append(limits.reals(), -np.inf).astype(kind)  # the loop asks for two more labels
    slack = kind((n_classes / 16 + 16) * 1.02 * unit + n_classes * 2.0**-52)
    one = bool((at[1:n_classes] == at[1]).all())
    bounds = at, slack, one, kind(EXACT if kind == np.float32 else 0)

    def work(p: Probabilities, y: Labels, arrays: Arrays) -> int:
        room, out, n = np.zeros(loops.CUT_ROOM, kind), Out(*arrays), len(p)
        if n < ROWS:
            out.fits[:] = -1
            return n
        room[: len(cuts)] = cuts
        as_is = p.dtype == kind and p.flags.c_contiguous
        step, opened = n if as_is else max(ROWS, COPIED // n_classes), 0
        for start in range(0, n, step):
            rows = slice(min(start, n - ROWS), min(start + step, n))
            some, part = np.ascontiguousarray(p[rows], kind), out.of(rows).arrays()
            opened += int(loops.count_fitting(some, y[rows], bounds, part, room))
        cuts[:] = room[: len(cuts)]  # whichever thread comes last: any cuts will do
        return opened

    return work
