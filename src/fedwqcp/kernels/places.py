"""Where one label of each row stands: one pass over the probabilities, checks included."""

from __future__ import annotations

import numpy as np

from fedwqcp.arrays import Labels, Probabilities
from fedwqcp.kernels import compiled, ranked
from fedwqcp.kernels.checks import check
from fedwqcp.kernels.ranked import Ranked

WIDE = 2**13
"""Rows of up to so many float32 are sound if their sum in float32 says so."""


def of_labels(probs: Probabilities, labels: Labels) -> Ranked:
    """Check probabilities and return where one label of each row stands.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Of the right type and shape.
    labels : Labels, shape (n,)
        Checked labels.

    Returns
    -------
    Ranked
        Fields of shape (n,), those of `ranked.of_labels`.

    Raises
    ------
    InputError
        If a row is not one of probabilities.
    """
    n = len(probs)
    loops = compiled.kernels(probs.size)
    if loops is not None:
        masses, rank = np.empty((3, n)), np.empty(n, np.int64)
        single = probs.dtype == np.float32 and probs.shape[1] <= WIDE
        count = loops.places_single if single else loops.places
        if compiled.over_rows(
            n,
            probs.size,
            lambda rows: count(probs[rows], labels[rows], masses[:, rows], rank[rows]),
        ):
            return Ranked(masses[0], masses[1], rank, masses[2])
    check(probs)
    return ranked.of_labels(probs, labels)
