"""Which places to compare so that any row comes out sorted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from fedwqcp.kernels.compiled import Integers
from fedwqcp.kernels.ranked import FEW


@lru_cache(maxsize=FEW)
def network(n: int) -> Integers:
    """Return Batcher's sorting network: which places to compare, one pair after the other.

    Parameters
    ----------
    n : int
        How many places.

    Returns
    -------
    Integers, shape (pairs, 2)
        The first of a pair shall hold the larger.
    """
    return np.array(list(_pairs(n)), np.int64).reshape(-1, 2)


def _pairs(n: int) -> Iterator[tuple[int, int]]:
    """Merge sorted runs of 1, 2, 4, ... places."""
    run = 1
    while run < n:
        gap = run
        while gap:
            for start in range(gap % run, n - gap, 2 * gap):
                for a in range(start, min(start + gap, n - gap)):
                    if a // (2 * run) == (a + gap) // (2 * run):
                        yield a, a + gap
            gap //= 2
        run *= 2
