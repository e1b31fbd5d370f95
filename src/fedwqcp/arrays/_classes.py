"""Checks of class probabilities and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays._numbers import (
    SUM_TOLERANCE,
    as_floats,
    first_of,
    real_array,
    refuse_tensor,
)
from fedwqcp.arrays._types import Bools, Labels, Probabilities
from fedwqcp.errors import InputError


def as_probabilities(probs: npt.ArrayLike, *, checked: bool = True) -> Probabilities:
    """Return class probabilities as a float array of shape (n, C), or say what is wrong.

    Parameters
    ----------
    probs : array_like, shape (n, C)
        Non-negative rows that sum to 1 within `SUM_TOLERANCE`. float32 and float64 are kept as they
        are; other types become float64.
    checked : bool, optional
        False leaves the values to whoever reads them anyway; type and shape are looked at.

    Returns
    -------
    Probabilities
        The same numbers.

    Raises
    ------
    InputError
        If the shape, a sign, a sum or a NaN says that these are not probabilities.
    """
    array = real_array(probs, "probabilities")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if array.ndim != 2 or array.shape[1] < 2:
        raise InputError(
            "probabilities must have shape (n, C) with at least two classes, "
            f"got shape {array.shape}"
        )
    if array.shape[0] == 0 or not checked:
        return array
    lowest = array.min(axis=1)
    if (bad := first_of(~(lowest >= 0))) is not None:
        if np.isnan(array[bad]).any():
            raise InputError("probabilities must be numbers, {row} holds NaN", row=bad)
        raise InputError(
            "probabilities must not be negative, {row} holds a negative value; "
            "pass softmax outputs, not logits",
            row=bad,
        )
    sums = array.sum(axis=1, dtype=np.float64)
    if (bad := first_of(~(np.abs(sums - 1.0) <= SUM_TOLERANCE))) is not None:
        near = abs(sums[bad] - 1.0) < 0.1
        raise InputError(
            f"probabilities of {{row}} sum to {sums[bad]:.6g}; "
            + (
                f"a sum may be {SUM_TOLERANCE} from 1: divide each row by its sum"
                if near
                else "pass softmax outputs, not logits"
            ),
            row=bad,
        )
    return array


def as_labels(labels: npt.ArrayLike, n: int, n_classes: int) -> Labels:
    """Return labels as int64 of shape (n,) with values from 0 to n_classes - 1.

    Parameters
    ----------
    labels : array_like, shape (n,)
        Integers.
    n : int
        How many there must be.
    n_classes : int
        Number of classes C.

    Returns
    -------
    Labels
        The same labels.

    Raises
    ------
    InputError
        If length, type or range is wrong.
    """
    if np.ma.isMaskedArray(labels):
        raise InputError("labels must not be masked: take the masked rows out first")
    try:
        array = np.asarray(labels)
    except (TypeError, ValueError, RuntimeError):
        refuse_tensor(labels, "labels")
        raise InputError("labels must be a flat array of integers") from None
    if array.shape != (n,):
        raise InputError(
            f"labels must have shape ({n},), one for each row of the outputs, "
            f"got shape {array.shape}" + ("; use labels.ravel()" if array.shape == (n, 1) else "")
        )
    if n == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InputError(f"labels must be integers, got an array of {array.dtype}{_cure(array)}")
    whole = np.ascontiguousarray(array, np.int64)
    if whole.view(np.uint64).max() >= n_classes:  # without a sign, negative ones are the largest
        bad = first_of((array < 0) | (array >= n_classes))
        raise InputError(
            f"labels must be integers from 0 to {n_classes - 1}, {{row}} is outside", row=bad
        )
    return whole


def _cure(labels: npt.NDArray[Any]) -> str:
    """Say how labels of another type become integers."""
    if labels.dtype.kind == "b":
        return ": pass labels.astype(int), so that False is class 0 and True class 1"
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            return " with NaN or infinite entries: take these rows out first"
        return ": pass labels.astype(int)" if (labels == np.rint(labels)).all() else ""
    if labels.dtype.kind in "OUST":
        return ": number the classes from 0, in the order of the columns of the probabilities"
    return ""


def as_indicators(labels: npt.ArrayLike, shape: tuple[int | None, ...]) -> Bools:
    """Return which of several labels are there, as truth values of shape (n, L).

    Parameters
    ----------
    labels : array_like, shape (n, L)
        Truth values, or 1 and 0.
    shape : tuple of int or None
        The shape they must have; None stands for any length.

    Returns
    -------
    Bools
        True where a label is there.

    Raises
    ------
    InputError
        If the shape is another, or an entry is neither 0 nor 1.
    """
    given = np.asarray(labels)
    array = as_floats(given.astype(np.int8) if given.dtype == np.bool_ else given, "labels", shape)
    if not np.isin(array, (0.0, 1.0)).all():
        raise InputError("labels must be 1 where a label is there and 0 where it is not")
    return np.asarray(array == 1)
