"""Columns of a table as arrays; errors name the column and never show what it holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp.errors import InputError


def numbered(letter: str, columns: Mapping[str, object]) -> tuple[str, ...]:
    """Return the columns p0, p1, ... in order.

    Parameters
    ----------
    letter : str
        What their names begin with.
    columns : mapping
        All columns by name.

    Returns
    -------
    tuple of str
        Their names.

    Raises
    ------
    InputError
        If there is a gap.
    """
    found = sorted(int(n[1:]) for n in columns if re.fullmatch(letter + r"(0|[1-9]\d{0,5})", n))
    if found != list(range(len(found))):
        raise InputError(f"columns {letter}0, {letter}1, ... must be numbered without a gap")
    return tuple(f"{letter}{i}" for i in found)


def numbers(path: Path, columns: Mapping[str, Sequence[Any]], name: str) -> npt.NDArray[Any]:
    """Read one column as numbers.

    Parameters
    ----------
    path : Path
        The file, for errors.
    columns : mapping
        All columns by name.
    name : str
        Which one.

    Returns
    -------
    ndarray, shape (n,)
        Its numbers.

    Raises
    ------
    InputError
        If a row holds something else.
    """
    try:
        return np.array([float(value) for value in columns[name]], dtype=np.float64)
    except (TypeError, ValueError):
        what = "; number the classes from 0, in the order of p0, p1, ..." if name == "label" else ""
        raise InputError(f"{path}: column {name!r} must hold numbers in every row{what}") from None


def stacked(
    path: Path, columns: Mapping[str, Sequence[Any]], names: tuple[str, ...]
) -> npt.NDArray[Any] | None:
    """Read several columns as numbers, if there are any.

    Parameters
    ----------
    path : Path
        The file, for errors.
    columns : mapping
        All columns by name.
    names : tuple of str
        Which ones.

    Returns
    -------
    ndarray, shape (n, d), or None
        Their numbers.
    """
    return np.stack([numbers(path, columns, x) for x in names], axis=1) if names else None


def texts(path: Path, columns: Mapping[str, Sequence[Any]], name: str) -> npt.NDArray[Any] | None:
    """Read a column of ids or groups as text, if it is there.

    Parameters
    ----------
    path : Path
        The file, for errors.
    columns : mapping
        All columns by name.
    name : str
        ``"id"`` or ``"group"``.

    Returns
    -------
    ndarray of str, shape (n,), or None
        Its text.

    Raises
    ------
    InputError
        If a row is empty.
    """
    values = columns.get(name)
    if values is None:
        return None
    if any(value is None or value == "" for value in values):
        what = "an id" if name == "id" else "a group"
        raise InputError(f"{path}: column {name!r} must hold {what} in every row")
    return np.array([str(value) for value in values], dtype=np.str_)


def whole(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return whole numbers as integers, so that class labels are labels.

    Parameters
    ----------
    values : ndarray
        Labels or true values.

    Returns
    -------
    ndarray
        The same numbers.
    """
    is_whole = np.isfinite(values).all() and (values == np.rint(values)).all()
    return values.astype(np.int64) if is_whole else values
