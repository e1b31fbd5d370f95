"""Whether rows are probabilities, asked as fast as the machine can read them."""

from __future__ import annotations

import numpy as np

from fedwqcp.arrays import SUM_TOLERANCE, Probabilities, as_probabilities
from fedwqcp.kernels import compiled


def check(probs: Probabilities) -> None:
    """Refuse rows that are not probabilities; a quick answer where it is surely yes.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Of the right type and shape.

    Raises
    ------
    InputError
        As `as_probabilities` words it.
    """
    loops = compiled.kernels(probs.size)
    if loops is None:
        sound = _surely(probs)
    else:
        sound = compiled.over_rows(
            len(probs), probs.size, lambda rows: bool(loops.sound_rows(probs[rows]))
        )
    if not sound:
        as_probabilities(probs)


def _surely(probs: Probabilities) -> bool:
    """Tell whether rounded sums leave no doubt."""
    n, n_classes = probs.shape
    slack = n_classes * float(np.finfo(probs.dtype).eps)  # a sum errs by less, in any order
    if n == 0 or slack > SUM_TOLERANCE / 4 or not probs.flags.c_contiguous:
        return False
    if not probs.min() >= 0:
        return False
    sums = probs @ np.ones(n_classes, probs.dtype)
    return bool(np.abs(sums - 1).max() <= SUM_TOLERANCE - 2 * slack)
