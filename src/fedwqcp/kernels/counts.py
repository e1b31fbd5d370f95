"""How many labels of a row are probable enough: one pass, checks included."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedwqcp.arrays import Probabilities
from fedwqcp.kernels import compiled
from fedwqcp.kernels.checks import check
from fedwqcp.kernels.compiled import Integers
from fedwqcp.kernels.places import WIDE
from fedwqcp.kernels.ranked import blocks


def from_least(probs: Probabilities, least: np.floating[Any]) -> Integers:
    """Check probabilities and count those from a least one on.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Of the right type and shape.
    least : floating
        Of the same type; it counts itself.

    Returns
    -------
    Integers, shape (n,)
        From 0 to C.

    Raises
    ------
    InputError
        If a row is not one of probabilities.
    """
    n, n_classes = probs.shape
    counts = np.empty(n, np.int64)
    loops = compiled.kernels(probs.size) if n_classes <= WIDE else None
    if loops is not None and compiled.over_rows(
        n, probs.size, lambda rows: loops.counts_from(probs[rows], least, counts[rows])
    ):
        return counts
    check(probs)
    for rows in blocks(n, n_classes):
        counts[rows] = np.count_nonzero(probs[rows] >= least, axis=1)
    return counts
