"""Where a label stands among the others of its row, and how much probability stands before it.

Sums are exact. A probability is rounded once to a multiple of 2^-52 and summed as an integer, so
the order of summation, the batch and the backend change nothing: whatever computes a mass computes
the same mass. Masses are capped at 1, and the label ranked last reaches exactly 1. So which code
counts a large input is a matter of speed alone: see `places`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats, Labels, Probabilities
from fedwqcp.kernels.compiled import Integers

ONE = np.int64(2**52)
BLOCK = 2**15
"""How many probabilities are worked on at a time (256 KiB as integers: they stay in cache)."""

FEW = 48
"""Rows of at most so many labels are worked on side by side."""

G = TypeVar("G", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Ranked:
    """Where labels stand in their rows; all fields have one shape, (n,) or (n, C).

    Labels are ordered by decreasing probability, ties by smaller index.

    Parameters
    ----------
    before : Floats
        Mass of the labels ranked strictly before (rho).
    upto : Floats
        The same with the label's own mass.
    rank : Integers
        1-based rank o(y).
    top : Floats
        Largest probability of the row, shape (n,) or (n, 1).
    """

    before: Floats
    upto: Floats
    rank: Integers
    top: Floats

    def previous(self) -> Ranked:
        """Return the place of the label ranked one before, whose mass ends where this one begins.

        Returns
        -------
        Ranked
            Rank 0 and mass 0 for the most probable label.
        """
        return Ranked(self.before, self.before, self.rank - 1, self.top)


def fixed_point(probs: Probabilities) -> Integers:
    """Return probabilities as integers, in units of 2^-52.

    Parameters
    ----------
    probs : Probabilities
        Numbers between 0 and about 1.

    Returns
    -------
    Integers
        Rounded once, half to even.
    """
    scaled = probs.astype(np.float64) * 2.0**52  # exact
    return np.rint(scaled, out=scaled).astype(np.int64)


def of_labels(probs: Probabilities, labels: Labels) -> Ranked:
    """Return where one label of each row stands, without sorting.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Checked probabilities.
    labels : Labels, shape (n,)
        Checked labels.

    Returns
    -------
    Ranked
        Fields of shape (n,).
    """
    return _capped(*_count(probs, labels), probs.shape[1])


def of_every_label(probs: Probabilities) -> Ranked:
    """Return where every label of each row stands.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Checked probabilities.

    Returns
    -------
    Ranked
        Fields of shape (n, C); ``top`` has shape (n, 1).
    """
    p = fixed_point(probs)
    return in_order(p, np.argsort(-p, axis=1, kind="stable"))


def in_order(p: Integers, order: Integers) -> Ranked:
    """Return where every label stands when a row is read in a given order.

    Parameters
    ----------
    p : Integers, shape (n, C)
        Probabilities in fixed point.
    order : Integers, shape (n, C)
        Labels of each row, first to last.

    Returns
    -------
    Ranked
        Fields of shape (n, C); ``top`` has shape (n, 1).
    """
    n_classes = p.shape[1]
    upto = _scatter(np.cumsum(np.take_along_axis(p, order, axis=1), axis=1), order)
    rank = _scatter(np.broadcast_to(np.arange(1, n_classes + 1), p.shape), order)
    return _capped(upto - p, upto, rank, p.max(axis=1, keepdims=True, initial=0), n_classes)


def in_float32(probs: Probabilities) -> Ranked:
    """Return where every label stands, with sums rounded to float32 and not capped.

    This is what plain float32 code computes: a saturated softmax reaches 1 early and a sum may pass
    1 by rounding. It serves comparisons with published results only.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Checked probabilities.

    Returns
    -------
    Ranked
        Fields of shape (n, C); ``top`` has shape (n, 1).
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


def _count(probs: Probabilities, labels: Labels) -> tuple[Integers, Integers, Integers, Integers]:
    """Return the fields of `Ranked` for one label of each row, in fixed point."""
    n, n_classes = probs.shape
    before, upto, rank, top = (np.empty(n, np.int64) for _ in range(4))
    few = n_classes <= FEW  # one label of all rows after the other, or one row after the other
    axis, index = (0, np.arange(n_classes)[:, None]) if few else (1, np.arange(n_classes))
    for rows in blocks(n, n_classes):
        p = fixed_point(np.ascontiguousarray(probs[rows].T) if few else probs[rows])
        y = np.expand_dims(labels[rows], axis)
        own = np.take_along_axis(p, y, axis=axis)
        ahead = (p > own) | ((p == own) & (index < y))
        before[rows] = (p * ahead).sum(axis=axis)
        upto[rows] = before[rows] + own.reshape(-1)
        rank[rows] = ahead.sum(axis=axis) + 1
        top[rows] = p.max(axis=axis)
    return before, upto, rank, top


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


def blocks(n: int, n_classes: int) -> Iterator[slice]:
    """Cut the rows into blocks of at most BLOCK probabilities.

    Parameters
    ----------
    n, n_classes : int
        How many rows, and labels in each.

    Yields
    ------
    slice
        Some of the rows.
    """
    step = max(1, BLOCK // n_classes)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
