"""Names for array types, and the checks that every array passes at the door.

Past these checks nothing is checked again. An error names a row by its number and never shows a
label, a score or a feature.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp.errors import InputError

Floats: TypeAlias = npt.NDArray[np.float64]
"""Real numbers in double precision."""

Probabilities: TypeAlias = npt.NDArray[np.floating[Any]]
"""Class probabilities, float32 or float64, shape (n, C)."""

Labels: TypeAlias = npt.NDArray[np.int64]
"""Class labels from 0 to C - 1, shape (n,)."""

Bools: TypeAlias = npt.NDArray[np.bool_]
"""Truth values."""

SUM_TOLERANCE = 1e-3
"""How far the sum of a row of probabilities may be from 1 (half-precision softmax stays inside)."""


def as_probabilities(probs: npt.ArrayLike) -> Probabilities:
    """Return class probabilities as a float array of shape (n, C), or say what is wrong.

    Parameters
    ----------
    probs : array_like, shape (n, C)
        Non-negative rows that sum to 1 within `SUM_TOLERANCE`. float32 and float64 are kept as they
        are; other types become float64.

    Returns
    -------
    Probabilities
        The same numbers.

    Raises
    ------
    InputError
        If the shape, a sign, a sum or a NaN says that these are not probabilities.
    """
    array = _real_array(probs, "probabilities")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if array.ndim != 2 or array.shape[1] < 2:
        raise InputError(
            "probabilities must have shape (n, C) with at least two classes, "
            f"got shape {array.shape}"
        )
    if array.shape[0] == 0:
        return array
    lowest = array.min(axis=1)
    if (bad := _first(~(lowest >= 0))) is not None:
        if np.isnan(array[bad]).any():
            raise InputError(f"probabilities must be numbers, row {bad} holds NaN")
        raise InputError(
            f"probabilities must not be negative, row {bad} holds a negative value; "
            "pass softmax outputs, not logits"
        )
    sums = array.sum(axis=1, dtype=np.float64)
    if (bad := _first(~(np.abs(sums - 1.0) <= SUM_TOLERANCE))) is not None:
        raise InputError(
            f"probabilities of row {bad} sum to {sums[bad]:.6g}; pass softmax outputs, not logits"
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
    try:
        array = np.asarray(labels)
    except ValueError:
        raise InputError("labels must be a flat array of integers") from None
    if array.shape != (n,):
        raise InputError(
            f"labels must have shape ({n},), one for each row of the outputs, "
            f"got shape {array.shape}" + ("; use labels.ravel()" if array.shape == (n, 1) else "")
        )
    if n == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InputError(f"labels must be integers, got an array of {array.dtype}")
    if (bad := _first((array < 0) | (array >= n_classes))) is not None:
        raise InputError(f"labels must be integers from 0 to {n_classes - 1}, row {bad} is outside")
    return array.astype(np.int64, copy=False)


def as_floats(values: npt.ArrayLike, what: str, shape: tuple[int | None, ...]) -> Floats:
    """Return finite numbers as float64 of the given shape.

    Parameters
    ----------
    values : array_like
        The numbers.
    what : str
        What they are, for the error.
    shape : tuple of int or None
        The shape they must have; None stands for any length.

    Returns
    -------
    Floats
        The same numbers.

    Raises
    ------
    InputError
        If the shape is another, or a value is NaN or infinite.
    """
    array = _real_array(values, what).astype(np.float64, copy=False)
    wanted = "(" + ", ".join("n" if s is None else str(s) for s in shape)
    wanted += ",)" if len(shape) == 1 else ")"
    if array.ndim != len(shape) or any(
        s is not None and s != t for s, t in zip(shape, array.shape, strict=False)
    ):
        raise InputError(f"{what} must have shape {wanted}, got shape {array.shape}")
    if array.size:
        finite: Bools = np.asarray(np.isfinite(array).reshape(len(array), -1).all(axis=1))
        if (bad := _first(~finite)) is not None:
            raise InputError(f"{what} must be finite numbers, row {bad} is not")
    return array


def as_scores(scores: npt.ArrayLike) -> Floats:
    """Return nonconformity scores as float64, shape (n,); +inf may occur, NaN and -inf may not.

    Parameters
    ----------
    scores : array_like, shape (n,)
        One score for each calibration point; larger is stranger.

    Returns
    -------
    Floats
        The same scores.

    Raises
    ------
    InputError
        If the shape is another, or a score is NaN or -inf.
    """
    array = _real_array(scores, "scores").astype(np.float64, copy=False)
    if array.ndim != 1:
        raise InputError(f"scores must have shape (n,), got shape {array.shape}")
    if (bad := _first(np.isnan(array) | (array == -np.inf))) is not None:
        raise InputError(f"scores must be numbers or +inf, row {bad} is NaN or -inf")
    return array


def as_uniforms(u: npt.ArrayLike, n: int) -> Floats:
    """Return the random part of a score as float64 of shape (n,) with values in [0, 1].

    Parameters
    ----------
    u : array_like, shape (n,)
        One uniform for each row.
    n : int
        How many there must be.

    Returns
    -------
    Floats
        The same numbers.

    Raises
    ------
    InputError
        If the length is another or a value lies outside [0, 1].
    """
    array = as_floats(u, "u", (n,))
    if array.size and not ((array >= 0) & (array <= 1)).all():
        raise InputError("u must lie between 0 and 1; draw it with uniforms(key, ids)")
    return array


def as_alpha(alpha: object) -> float:
    """Return the miscoverage level as a float strictly between 0 and 1.

    Parameters
    ----------
    alpha : float
        Share of cases that may be missed.

    Returns
    -------
    float
        The same number.

    Raises
    ------
    InputError
        If it is not a number between 0 and 1.
    """
    try:
        value = float(alpha)  # type: ignore[arg-type]  # whatever came, the error below names it
    except (TypeError, ValueError):
        value = float("nan")
    if isinstance(alpha, bool | str) or not 0.0 < value < 1.0:
        hint = f" (for {value:g} % miscoverage write {value / 100:g})" if 1 < value < 100 else ""
        raise InputError(f"alpha must be strictly between 0 and 1, got {alpha!r}{hint}")
    return value


def _real_array(values: npt.ArrayLike, what: str) -> npt.NDArray[Any]:
    """Turn the input into an array of real numbers."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{what} must be a rectangular array of numbers") from None
    if array.size == 0 and array.dtype == object:
        array = array.astype(np.float64)
    if array.dtype.kind not in "fiu":
        raise InputError(f"{what} must be an array of numbers, got an array of {array.dtype}")
    return array


def _first(bad: Bools) -> int | None:
    """Index of the first true entry, or None."""
    return int(np.argmax(bad)) if bad.any() else None
