"""The label at which a row passes the limits of a threshold, and what comes before it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from fedwqcp.arrays import Bools, Floats, Labels, Probabilities
from fedwqcp.kernels import compiled, sorting
from fedwqcp.kernels.checks import check
from fedwqcp.kernels.compiled import Integers
from fedwqcp.kernels.limits import Limits
from fedwqcp.kernels.networks import network
from fedwqcp.kernels.places import WIDE, in_pairs
from fedwqcp.kernels.ranked import FEW, Ranked, blocks
from fedwqcp.kernels.sorting import Out

BESIDE = 112
"""Rows of up to so many float32 are searched side by side."""

LEFT = 2**11
"""So many of those that stay open are copied at a time."""


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
        Ranked(before, upto, out.rank, top),
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
    return out.ahead, np.subtract(out.rank, 1, out=out.rank)


def _fill(
    probs: Probabilities, limits: Limits, labels: Labels | None, masked: bool, *, placed: bool
) -> Out:
    """Find the crossings, as much of them as is wanted."""
    n, n_classes = probs.shape
    out = Out.of_rows(n, n_classes if masked else 0, placed, labels is not None)
    y = np.empty(0, np.int64) if labels is None else labels
    if not _compiled(probs, y, limits, out):
        check(probs)
        fill = sorting.by_order if placed else sorting.by_value
        for rows in blocks(n, n_classes):
            fill(probs[rows], y[rows], limits, out.of(rows))
    return out


def _compiled(probs: Probabilities, labels: Labels, limits: Limits, out: Out) -> bool:
    """Let numba fill in all rows; False if it does not serve or is not sure of a row."""
    n, n_classes = probs.shape
    loops = compiled.kernels(probs.size)
    if loops is None:
        return False
    if n_classes <= FEW:
        fill = partial(loops.crossings_of_few, pairs=network(n_classes))
        bounds: tuple[Any, ...] = (limits.reals(), limits.by_top)
    else:
        near = limits.steps() if n_classes <= WIDE else np.empty(0, np.int64)
        fill, bounds = loops.crossings, (*limits.pair(), near)
        plain = probs.dtype == np.float32 and probs.flags.c_contiguous
        if near.size and n_classes <= BESIDE and plain and not out.label.size:
            fill = partial(_beside, loops)

    def work(rows: slice) -> bool:
        return bool(fill(probs[rows], labels[rows], bounds, out.of(rows).arrays()))

    return compiled.over_rows(n, probs.size, work)


def _beside(
    loops: ModuleType,
    probs: Probabilities,
    labels: Labels,
    bounds: tuple[Integers, Integers, Integers],
    arrays: tuple[Floats, Integers, Labels, Bools, Bools],
) -> bool:
    """Search rows side by side, and those that stay open one after the other."""
    out = Out(*arrays)
    loops.crossings_beside(in_pairs(probs), probs, labels, bounds[2], arrays)
    left = np.flatnonzero(out.rank == 0)
    for start in range(0, len(left), LEFT):
        some = left[start : start + LEFT]
        part = Out.of_rows(len(some), out.mask.shape[1], False, labels.size > 0)
        y = labels[some] if labels.size else labels
        if not loops.crossings(probs[some], y, bounds, part.arrays()):
            return False
        out.put(some, part)
    return True
