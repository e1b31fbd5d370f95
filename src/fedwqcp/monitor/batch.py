"""Rows of one agent that arrived together: how many were covered, and of which class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Labels
from fedwqcp.errors import InputError


@dataclass(frozen=True, eq=False)
class Batch:
    """Hits and misses in the order of arrival.

    Parameters
    ----------
    sizes, hits : Labels, shape (k,)
        Rows of each step and how many were covered. A step is one row, or several of which only
        counts are known.
    classes, class_sizes, class_hits : Labels, shape (m,), optional
        The same for each class; empty where labels are not known.
    """

    sizes: Labels
    hits: Labels
    classes: Labels
    class_sizes: Labels
    class_hits: Labels

    def __repr__(self) -> str:
        return f"Batch(n={int(self.sizes.sum())})"

    def of_class(self, label: int) -> tuple[Labels, Labels]:
        """Return the steps of one class.

        Parameters
        ----------
        label : int
            The class.

        Returns
        -------
        tuple of Labels
            Rows and hits of each step.
        """
        own = self.classes == label
        return self.class_sizes[own], self.class_hits[own]


def batch_of_rows(covered: npt.ArrayLike, labels: npt.ArrayLike | None = None) -> Batch:
    """Return rows that are known one by one.

    Parameters
    ----------
    covered : array_like, shape (n,)
        1 (or True) where the set held the label, else 0; in the order of arrival.
    labels : array_like, shape (n,), optional
        The true labels.

    Returns
    -------
    Batch
        One step for each row.

    Raises
    ------
    InputError
        If an entry is neither 0 nor 1, or labels are no whole numbers or of another length.
    """
    hits = _whole(covered, "covered", highest=1)
    if hits.ndim != 1:
        raise InputError(f"covered must be one flat array, got shape {hits.shape}")
    ones = np.ones(len(hits), dtype=np.int64)
    if labels is None:
        return Batch(ones, hits, *_NO_CLASSES)
    classes = _whole(labels, "labels")
    if classes.shape != hits.shape:
        raise InputError(f"labels must be one for each of the {len(hits)} rows, got {classes.size}")
    return Batch(ones, hits, classes, ones, hits)


def batch_of_counts(
    n: npt.ArrayLike, hits: npt.ArrayLike, classes: npt.ArrayLike | None = None
) -> Batch:
    """Return rows of which only counts are known.

    Parameters
    ----------
    n, hits : int or array_like, shape (k,)
        Rows, and how many were covered. Without classes, each entry is one step, in the order of
        arrival.
    classes : array_like, shape (k,), optional
        The class of each entry. All entries are then one step, since nothing says in which order
        their rows arrived.

    Returns
    -------
    Batch
        The steps.

    Raises
    ------
    InputError
        If a count is negative or no whole number, or there are more hits than rows.
    """
    sizes, covered = (
        np.atleast_1d(_whole(n, "n")),
        np.atleast_1d(_whole(hits, "hits")),
    )
    if sizes.ndim != 1 or sizes.shape != covered.shape:
        raise InputError(f"n and hits must be of one length, got {sizes.shape}, {covered.shape}")
    if (covered > sizes).any():
        step = int(np.argmax(covered > sizes)) + 1
        raise InputError(f"hits must be at most n, count {step} has more")
    if classes is None:
        return Batch(sizes, covered, *_NO_CLASSES)
    of = np.atleast_1d(_whole(classes, "classes"))
    if of.shape != sizes.shape:
        raise InputError(f"classes must be one for each of the {len(sizes)} counts, got {of.size}")
    once = sizes.sum(keepdims=True), covered.sum(keepdims=True)
    return Batch(*once, of, sizes, covered)


_NO_CLASSES = (np.zeros(0, dtype=np.int64),) * 3


def _whole(values: npt.ArrayLike, what: str, highest: int = 2**53) -> Labels:
    """Return whole numbers from 0 on."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{what} must be whole numbers") from None
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "biuf" or not (array == np.rint(array)).all():
        raise InputError(f"{what} must be whole numbers, got an array of {array.dtype}")
    if array.min() < 0 or array.max() > highest:
        limit = "at least 0" if array.min() < 0 else f"from 0 to {highest}"
        raise InputError(f"{what} must be {limit}, an entry is outside")
    return array.astype(np.int64)
