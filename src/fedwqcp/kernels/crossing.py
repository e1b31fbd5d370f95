"""The label at which a row passes the limits of a threshold, and what comes before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwqcp.arrays import Bools, Labels, Probabilities
from fedwqcp.kernels import fitting, sorting
from fedwqcp.kernels.checks import check
from fedwqcp.kernels.compiled import Integers
from fedwqcp.kernels.limits import Limits
from fedwqcp.kernels.ranked import Ranked, blocks
from fedwqcp.kernels.sorting import Out


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
    out = _fill(probs, limits, labels, masked, placed=True)
    before, upto, top = out.masses
    return Crossing(
        Ranked(before, upto, out.fits + 1, top),
        out.label,
        None if labels is None else out.ahead,
        out.mask if masked else None,
    )


def mark(probs: Probabilities, limits: Limits) -> Bools:
    """Check probabilities and mark the labels within the limits.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Of the right type and shape.
    limits : Limits
        What a threshold allows.

    Returns
    -------
    Bools, shape (n, C)
        True for the labels that stand before the crossing.
    """
    return _fill(probs, limits, None, True, placed=False).mask


def count(probs: Probabilities, limits: Limits, labels: Labels) -> tuple[Bools, Integers]:
    """Check probabilities and count the labels within the limits.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Of the right type and shape.
    limits : Limits
        What a threshold allows.
    labels : Labels, shape (n,)
        True labels.

    Returns
    -------
    tuple of Bools and Integers, each of shape (n,)
        Whether the true label is within, and how many labels are.
    """
    out = _fill(probs, limits, labels, False, placed=False)
    return out.ahead, out.fits


def _fill(
    probs: Probabilities, limits: Limits, labels: Labels | None, masked: bool, *, placed: bool
) -> Out:
    """Find the crossings, as much of them as is wanted."""
    n, n_classes = probs.shape
    out = Out.of_rows(n, n_classes if masked else 0, placed, labels is not None)
    y = np.empty(0, np.int64) if labels is None else labels
    if limits.none and not placed:
        check(probs)
        out.fits[:], out.ahead[:], out.mask[:] = n_classes, True, True
    elif not fitting.fill(probs, y, limits, out):
        check(probs)
        fill = sorting.by_order if placed else sorting.by_value
        for rows in blocks(n, n_classes):
            fill(probs[rows], y[rows], limits, out.of(rows))
    return out
