"""How the loops of this room are compiled. Nothing imports it before numba is wanted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])

Whole: TypeAlias = Any
"""An integer of 64 bits inside a loop: numba's, or numpy's where the loop runs as Python."""

Truth: TypeAlias = Any
"""A truth value of either kind."""


def jit(function: F) -> F:
    """Compile when first called, once for each type and layout; keep it on disk where possible.

    Parameters
    ----------
    function : callable
        A loop over arrays. It lets go of Python's lock.

    Returns
    -------
    callable
        The same loop.
    """
    return _compiled(function, False)


def jit_inline(function: F) -> F:
    """Do the same, and make it part of every loop that calls it.

    Parameters
    ----------
    function : callable
        What a loop does for each row.

    Returns
    -------
    callable
        The same function.
    """
    return _compiled(function, False, forceinline=True)


def jit_sums(function: F) -> F:
    """Do the same, and let the compiler choose the order of sums of floats.

    Parameters
    ----------
    function : callable
        A loop whose sums come out the same in any order, or are only guesses.

    Returns
    -------
    callable
        The same loop.
    """
    return _compiled(function, {"reassoc", "nsz"})


def _compiled(function: F, fastmath: set[str] | bool, forceinline: bool = False) -> F:
    """Compile with a cache on disk, or in memory where no folder can be written to."""
    compiler = partial(
        njit, nogil=True, error_model="numpy", fastmath=fastmath, forceinline=forceinline
    )
    try:
        return cast(F, compiler(cache=True)(function))
    except RuntimeError:  # there is no folder to keep it in
        return cast(F, compiler()(function))
