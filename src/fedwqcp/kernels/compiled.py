"""When numba's loops serve an input, and on how many threads.

Nothing of numba is imported or compiled before it pays. Numpy and numba give the same numbers, so
who serves an input is a matter of speed alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import ModuleType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp.errors import InputError

Integers: TypeAlias = npt.NDArray[np.int64]

SMALL = 2**13
"""Inputs below this many numbers are left to numpy."""

LARGE = 2**20
"""So many numbers, in one input or in all so far, are worth the wait for numba."""

SHARED = 2**24
"""Inputs below this many numbers stay on one thread: a pool costs more than it saves."""

PARTS = 4
"""How many parts of an input a thread takes, if all are equally fast."""

WHOLE = 16
"""Parts begin at a multiple of this many rows."""

_seen = [0]


def kernels(size: int) -> ModuleType | None:
    """Return the compiled loops if an input of this size should go to them.

    Parameters
    ----------
    size : int
        How many numbers the input holds.

    Returns
    -------
    module or None
        `fedwqcp.kernels._loops`, or None for a small input or without a working numba.
    """
    _check_threads()
    if size < SMALL:
        return None
    _seen[0] += size
    return _loops() if _seen[0] >= LARGE else None


@cache
def _loops() -> ModuleType | None:
    """Import the loops, once."""
    try:
        from fedwqcp.kernels import _loops
    except ImportError:  # numba is not installed, or not made for this numpy
        return None
    return _loops


@cache
def _check_threads() -> None:
    """Refuse a wrong number of threads with the first input, whatever its size."""
    threads()


def threads() -> int:
    """Return how many threads a large input may use: FEDWQCP_THREADS, or 1; no more than cores.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    InputError
        If the variable is no positive integer.
    """
    text = os.environ.get("FEDWQCP_THREADS") or "1"
    if not text.isdecimal() or int(text) < 1:
        raise InputError(
            f"FEDWQCP_THREADS must be an integer of at least 1, or not set, got {text!r}"
        )
    return min(int(text), os.cpu_count() or 1)


def over_rows(n: int, size: int, work: Callable[[slice], bool]) -> bool:
    """Work on all rows, in parts on several threads where the input is large.

    Parameters
    ----------
    n : int
        How many rows.
    size : int
        How many numbers they hold.
    work : callable
        Given some of the rows; it returns whether they are sound.

    Returns
    -------
    bool
        Whether all are.
    """
    workers = min(threads(), n) if size >= SHARED else 1
    if workers == 1:
        return bool(work(slice(0, n)))
    parts = min(workers * PARTS, n)
    cuts = [*(n * part // parts // WHOLE * WHOLE for part in range(parts)), n]
    with ThreadPoolExecutor(workers) as pool:
        return all(list(pool.map(work, map(slice, cuts[:-1], cuts[1:]))))
