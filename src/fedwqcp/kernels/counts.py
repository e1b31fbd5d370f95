"""How many labels of a row are probable enough, and is the true one: one pass, checks included."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedwqcp.arrays import Bools, Labels, Probabilities
from fedwqcp.kernels import compiled
from fedwqcp.kernels.checks import check
from fedwqcp.kernels.compiled import Integers
from fedwqcp.kernels.places import FEW, WIDE
from fedwqcp.kernels.ranked import blocks


def from_least(
    probs: Probabilities, labels: Labels, least: np.floating[Any]
) -> tuple[Bools, Integers]:
    """Check probabilities and count those from a least one on.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Of the right type and shape.
    labels : Labels, shape (n,)
        One label of each row.
    least : floating
        Of the same type; it counts itself.

    Returns
    -------
    tuple of Bools and Integers, each of shape (n,)
        Whether the label is one of them, and how many there are.

    Raises
    ------
    InputError
        If a row is not one of probabilities.
    """
    n, n_classes = probs.shape
    out = np.empty(n, np.bool_), np.empty(n, np.int64)
    covered, counts = out
    loops = compiled.kernels(probs.size) if n_classes <= WIDE else None
    plain = probs.dtype == np.float32 and probs.flags.c_contiguous

    def _work(rows: slice) -> bool:
        assert loops is not None  # it was asked for
        given = probs[rows], labels[rows], least, (covered[rows], counts[rows])
        if plain and n_classes <= FEW:
            scratch = np.empty(loops.ROOM, np.float32), (0,) * n_classes
            return bool(loops.counts_of_few(*given, scratch))
        return bool(loops.counts_from(*given))

    if loops is not None and compiled.over_rows(n, probs.size, _work):
        return out
    check(probs)
    for rows in blocks(n, n_classes):
        counts[rows] = np.count_nonzero(probs[rows] >= least, axis=1)
    covered[:] = np.take_along_axis(probs, labels[:, None], axis=1)[:, 0] >= least
    return out
