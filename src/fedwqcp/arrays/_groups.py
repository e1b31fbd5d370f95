"""Checks of groups: which part of the people a row belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays._numbers import first_of
from fedwqcp.arrays._types import Labels, Texts
from fedwqcp.errors import InputError


def as_groups(groups: npt.ArrayLike, n: int | None = None) -> Texts:
    """Return the groups of rows as text, shape (n,).

    Parameters
    ----------
    groups : array_like, shape (n,)
        Text, integers or truth values; 3 and "3" are one group.
    n : int, optional
        How many there must be.

    Returns
    -------
    Texts
        Their names.

    Raises
    ------
    InputError
        If the shape is another, or a value is no name of a group.
    """
    if np.ma.isMaskedArray(groups):
        raise InputError("groups must not be masked: take the masked rows out first")
    try:
        array: npt.NDArray[Any] = np.asarray(groups)
    except ValueError:
        raise InputError("groups must be a flat array of names") from None
    if array.ndim != 1 or (n is not None and len(array) != n):
        wanted = "(n,)" if n is None else f"({n},)"
        raise InputError(f"groups must have shape {wanted}, one for each row, got {array.shape}")
    if array.dtype.kind == "O":  # a column of a table; a missing entry is no name
        names = (str, int, np.integer, np.bool_)
        wrong = np.array([not isinstance(value, names) for value in array], dtype=np.bool_)
        if (bad := first_of(wrong)) is not None:
            raise InputError("groups must be text or integers in every row, {row} is not", row=bad)
    elif array.dtype.kind not in "Uiub" and array.size:
        raise InputError(f"groups must be text or integers, got an array of {array.dtype}")
    return array.astype(np.str_)


def group_places(groups: npt.ArrayLike, known: Sequence[str], n: int | None = None) -> Labels:
    """Return where each row's group stands among those that are known.

    Parameters
    ----------
    groups : array_like, shape (n,)
        Groups of the rows.
    known : sequence of str
        Names of the groups, each once.
    n : int, optional
        How many rows there must be.

    Returns
    -------
    Labels
        From 0 to ``len(known) - 1``.

    Raises
    ------
    InputError
        If a row is of no known group.
    """
    names, inverse = np.unique(as_groups(groups, n), return_inverse=True)
    at = {name: place for place, name in enumerate(known)}
    places = np.array([at.get(str(name), -1) for name in names], dtype=np.int64)[inverse]
    if (bad := first_of(places < 0)) is not None:
        raise InputError(
            f"the group of every row must be one of {', '.join(known)}; {{row}} is of another: "
            "take such rows out, or calibrate with a group for them",
            row=bad,
        )
    return places
