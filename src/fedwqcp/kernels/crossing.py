"""The label at which a row passes the limits of a threshold, and what comes before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedwqcp.arrays import Bools, Floats, Labels, Probabilities
from fedwqcp.kernels import compiled
from fedwqcp.kernels.checks import check
from fedwqcp.kernels.compiled import Integers
from fedwqcp.kernels.limits import Limits
from fedwqcp.kernels.ranked import FEW, ONE, Ranked, blocks, fixed_point

BITS = 10
PACKED = 2**BITS
"""With at most so many labels, probability and index are one integer of 63 bits."""


@dataclass(frozen=True, eq=False)
class Crossing:
    """The first label of each row that passes its limit.

    Parameters
    ----------
    place : Ranked
        Where it stands; rank C + 1 where no label passes.
    label : Labels, shape (n,)
        Which it is; -1 where no label passes.
    ahead : Bools, shape (n,), or None
        Whether the true label stands before it; None without labels.
    mask : Bools, shape (n, C), or None
        The labels that stand before it; None unless asked for.
    """

    place: Ranked
    label: Labels
    ahead: Bools | None
    mask: Bools | None


def find(
    probs: Probabilities, limits: Limits, labels: Labels | None = None, masked: bool = False
) -> Crossing:
    """Check probabilities and return the label at which each row passes its limits.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Of the right type and shape.
    limits : Limits
        What a threshold allows.
    labels : Labels, shape (n,), optional
        True labels, to learn whether they stand before the crossing.
    masked : bool, optional
        Whether to mark the labels that stand before the crossing.

    Returns
    -------
    Crossing
        One label for each row.

    Raises
    ------
    InputError
        If a row is not one of probabilities.
    """
    n, n_classes = probs.shape
    out = _Out(
        np.empty((3, n)),
        np.empty((2, n), np.int64),
        np.empty(0 if labels is None else n, np.bool_),
        np.empty((n, n_classes) if masked else (0, 0), np.bool_),
    )
    y = np.empty(0, np.int64) if labels is None else labels
    if not _compiled(probs, y, limits.pair(), out):
        check(probs)
        for rows in blocks(n, n_classes):
            _sorted(probs[rows], y[rows], limits, out.of(rows))
    before, upto, top = out.masses
    rank, label = out.found
    return Crossing(
        Ranked(before, upto, rank, top),
        label,
        None if labels is None else out.ahead,
        out.mask if masked else None,
    )


@dataclass(frozen=True, eq=False)
class _Out:
    """What a loop over rows fills in."""

    masses: Floats
    found: Integers
    ahead: Bools
    mask: Bools

    def of(self, rows: slice) -> _Out:
        """Return some of the rows."""
        return _Out(self.masses[:, rows], self.found[:, rows], self.ahead[rows], self.mask[rows])

    def arrays(self) -> tuple[Floats, Integers, Bools, Bools]:
        """Return the arrays as the compiled loops take them."""
        return self.masses, self.found, self.ahead, self.mask


def _compiled(
    probs: Probabilities, labels: Labels, limits: tuple[Integers, Integers], out: _Out
) -> bool:
    """Let numba fill in all rows; False if it does not serve or is not sure of a row."""
    n, n_classes = probs.shape
    loops = compiled.kernels(probs.size)
    if loops is None:
        return False

    def work(rows: slice) -> bool:
        part = out.of(rows)
        fill = (probs[rows], labels[rows], limits, part.arrays())
        if n_classes <= FEW:
            return bool(loops.crossings_of_few(*fill, network(n_classes)))
        return bool(loops.crossings(*fill))

    return compiled.over_rows(n, probs.size, work)


def _sorted(probs: Probabilities, labels: Labels, limits: Limits, out: _Out) -> None:
    """Fill in a block of rows by sorting them; arrays here have one column per row."""
    C, rows = probs.shape[1], np.arange(len(probs))
    p = fixed_point(np.ascontiguousarray(probs.T)) if C <= FEW else fixed_point(probs).T
    order, ordered = _descending(p)
    upto = np.empty_like(ordered, shape=(C + 1, len(probs)))  # in the same layout
    upto[0] = 0
    np.cumsum(ordered, axis=0, out=upto[1:])
    np.minimum(upto, ONE, out=upto)
    upto[C] = ONE
    top = np.minimum(ordered[0], ONE)
    n = ((top if limits.by_top else upto[1:]) <= limits.at[1:, None]).sum(axis=0)
    last = np.minimum(n, C - 1)
    label = np.where(n < C, order[last, rows], -1)
    value = np.where(n < C, ordered[last, rows], -1)
    out.masses[:] = np.stack([upto[n, rows], upto[last + 1, rows], top]) * 2.0**-52
    out.found[:] = n + 1, label
    if out.ahead.size:
        out.ahead[:] = p[labels, rows] > value - (labels < label)
    if out.mask.size:
        out.mask[:] = (p > value - (np.arange(C)[:, None] < label)).T


def _descending(p: Integers) -> tuple[Integers, Integers]:
    """Return labels and masses of each column, most probable first, the first of equals first."""
    C = len(p)
    if C > PACKED:
        order = np.argsort(-p, axis=0, kind="stable")
        return order, np.take_along_axis(p, order, axis=0)
    keys = np.arange(C)[:, None] - np.minimum(p, ONE) * PACKED  # beats sorting indices
    if C > FEW:
        keys.sort(axis=0)
    else:  # many short rows: one place of all rows after the other
        low = np.empty_like(keys[0])
        for a, b in network(C).tolist():
            np.minimum(keys[a], keys[b], out=low)
            np.maximum(keys[a], keys[b], out=keys[b])
            keys[a] = low
    return np.bitwise_and(keys, PACKED - 1), -np.right_shift(keys, BITS)


@lru_cache(maxsize=FEW)
def network(n: int) -> Integers:
    """Return Batcher's sorting network: which places to compare, one pair after the other.

    Parameters
    ----------
    n : int
        How many places.

    Returns
    -------
    Integers, shape (pairs, 2)
        The first of a pair shall hold the larger.
    """
    return np.array(list(_pairs(n)), np.int64).reshape(-1, 2)


def _pairs(n: int) -> Iterator[tuple[int, int]]:
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
