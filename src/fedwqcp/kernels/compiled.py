"""The same counts as in `ranked`, compiled by numba for large inputs.

Nothing here is imported or compiled before a large input asks for it. The integers are those of the
numpy code, whatever the type, the strides or the number of classes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Labels, Probabilities

Integers: TypeAlias = npt.NDArray[np.int64]
Counts: TypeAlias = tuple[Integers, Integers, Integers, Integers]
"""Mass before, mass up to, rank and largest probability of each row, masses in fixed point."""

Counter: TypeAlias = Callable[[Probabilities, Labels], Counts]


@cache
def counter() -> Counter | None:
    """Return the compiled counter of `ranked.of_labels`, or None without a working numba.

    It is compiled once for each type and layout of the probabilities, and kept on disk where the
    installation or the user's cache can be written to. It lets go of Python's lock.

    Returns
    -------
    Counter or None
        A function of checked probabilities and labels.
    """
    try:
        from numba import njit
    except ImportError:  # not installed, or not made for this numpy
        return None
    try:
        return njit(nogil=True, cache=True)(_count)
    except RuntimeError:  # there is no folder to keep it in
        return njit(nogil=True)(_count)


def _count(probs: Probabilities, labels: Labels) -> Counts:
    """Read every row once; the plain form of what numba compiles."""
    n, n_classes = probs.shape
    counts = np.empty((4, n), np.int64)
    for i in range(n):
        y = labels[i]
        own = np.int64(np.rint(np.float64(probs[i, y]) * 2.0**52))
        before, rank, top = np.int64(0), np.int64(1), own
        for j in range(n_classes):
            p = np.int64(np.rint(np.float64(probs[i, j]) * 2.0**52))
            ahead = (p > own) | ((p == own) & (j < y))  # no branch: the loop runs in lanes
            before += p if ahead else 0
            rank += ahead
            top = p if p > top else top
        counts[:, i] = before, before + own, rank, top
    return counts[0], counts[1], counts[2], counts[3]
