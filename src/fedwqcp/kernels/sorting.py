"""Crossings by sorting, a block of rows at a time: numpy alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Bools, Floats, Labels, Probabilities
from fedwqcp.kernels.compiled import Integers
from fedwqcp.kernels.limits import Limits
from fedwqcp.kernels.networks import network
from fedwqcp.kernels.ranked import FEW, ONE, fixed_point

BITS = 10
PACKED = 2**BITS
"""With at most so many labels, probability and index are one integer of 63 bits."""


@dataclass(frozen=True, eq=False)
class Out:
    """What a loop over rows fills in; arrays that are not wanted have no rows.

    Parameters
    ----------
    masses : Floats, shape (3, n)
        Before and up to the crossing label, and of the most probable one.
    fits, label : Integers, shape (n,)
        How many labels stand before the crossing one, -1 where that is open, and which it is.
    ahead : Bools, shape (n,)
        Whether the true label stands before it.
    mask : Bools, shape (n, C)
        Which labels do.
    """

    masses: Floats
    fits: Integers
    label: Labels
    ahead: Bools
    mask: Bools

    @classmethod
    def of_rows(cls, n: int, n_classes: int, placed: bool, labelled: bool) -> Out:
        """Make room for what is wanted.

        Parameters
        ----------
        n, n_classes : int
            How many rows, and how many labels to mark in each; 0 for no mask.
        placed, labelled : bool
            Whether places of crossing labels, and those of true labels, are wanted.

        Returns
        -------
        Out
            Not filled in.
        """
        return cls(
            np.empty((3, n if placed else 0)),
            np.empty(n, np.int64),
            np.empty(n if placed else 0, np.int64),
            np.empty(n if labelled else 0, np.bool_),
            np.empty((n, n_classes) if n_classes else (0, 0), np.bool_),
        )

    def of(self, rows: slice) -> Out:
        """Return some of the rows.

        Parameters
        ----------
        rows : slice
            Which.

        Returns
        -------
        Out
            Views.
        """
        return Out(
            self.masses[:, rows],
            self.fits[rows],
            self.label[rows],
            self.ahead[rows],
            self.mask[rows],
        )

    def put(self, rows: Integers, part: Out) -> None:
        """Take over some rows, masses apart.

        Parameters
        ----------
        rows : Integers, shape (k,)
            Which.
        part : Out
            What was found for them.
        """
        self.fits[rows] = part.fits
        if self.label.size:
            self.label[rows] = part.label
        if self.ahead.size:
            self.ahead[rows] = part.ahead
        if self.mask.size:
            self.mask[rows] = part.mask

    def arrays(self) -> tuple[Floats, Integers, Labels, Bools, Bools]:
        """Return the arrays as the compiled loops take them.

        Returns
        -------
        tuple of arrays
            All fields, in order.
        """
        return self.masses, self.fits, self.label, self.ahead, self.mask


def by_value(probs: Probabilities, labels: Labels, limits: Limits, out: Out) -> None:
    """Fill in all but the places of a block of rows, by sorting values without their labels.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Checked probabilities.
    labels : Labels, shape (n,) or (0,)
        True labels, if they are wanted.
    limits : Limits
        What a threshold allows.
    out : Out
        What to fill in.
    """
    n, C = probs.shape
    ordered = np.sort(probs, axis=1)[:, ::-1].T if C > FEW else np.array(probs.T, order="C")
    if C <= FEW:
        _compare(ordered[::-1])
    mass = _rounded(ordered)
    for k in range(1, C if C <= FEW else 0):  # beats a sum along columns
        mass[k] += mass[k - 1]
    if C > FEW:
        np.cumsum(mass, axis=0, out=mass)
    if limits.by_top:
        mass = mass[0]
    fitting = (mass <= limits.reals()[1:, None]).sum(axis=0)
    rows, last = np.arange(n), np.minimum(fitting, C - 1)
    least = np.where(fitting > 0, ordered[fitting - 1, rows], np.inf).astype(probs.dtype)
    out.fits[:] = fitting
    if out.ahead.size:
        out.ahead[:] = probs[rows, labels] >= least
    if out.mask.size:
        np.greater_equal(probs, least[:, None], out=out.mask)
    equal = _rounded(least) == _rounded(ordered[last, rows])
    equal &= (fitting > 0) & (fitting < C)
    if equal.any():  # around the crossing: the smaller index comes first
        some = np.flatnonzero(equal)
        wanted = C if out.mask.size else 0
        part = Out.of_rows(len(some), wanted, False, out.ahead.size > 0)
        by_order(probs[some], labels[some] if labels.size else labels, limits, part)
        out.put(some, part)


def by_order(probs: Probabilities, labels: Labels, limits: Limits, out: Out) -> None:
    """Fill in a block of rows by sorting their labels.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Checked probabilities.
    labels : Labels, shape (n,) or (0,)
        True labels, if they are wanted.
    limits : Limits
        What a threshold allows.
    out : Out
        What to fill in.
    """
    C, rows = probs.shape[1], np.arange(len(probs))  # arrays here have one column per row
    p = fixed_point(np.ascontiguousarray(probs.T)) if C <= FEW else fixed_point(probs).T
    p = np.minimum(p, ONE)  # as everywhere: a number may pass 1 within the tolerance
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
    out.fits[:] = n
    if out.label.size:
        out.label[:] = label
        out.masses[:] = np.stack([upto[n, rows], upto[last + 1, rows], top]) * 2.0**-52
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
        _compare(keys)
    return np.bitwise_and(keys, PACKED - 1), -np.right_shift(keys, BITS)


def _compare(columns: npt.NDArray[Any]) -> None:
    """Sort every column in place, smallest first."""
    low = np.empty_like(columns[0])
    for a, b in network(len(columns)).tolist():
        np.minimum(columns[a], columns[b], out=low)
        np.maximum(columns[a], columns[b], out=columns[b])
        columns[a] = low


def _rounded(probs: Probabilities) -> Floats:
    """Return multiples of 2^-52, whose sums are exact."""
    rounded = probs.astype(np.float64) + 1.0
    rounded -= 1.0
    return rounded
