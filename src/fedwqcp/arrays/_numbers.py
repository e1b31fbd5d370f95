"""Checks of real numbers: outputs of regressors, scores, uniforms, levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays._types import Bools, Floats
from fedwqcp.errors import InputError

SUM_TOLERANCE = 5e-3
"""How far the sum of a row may be from 1: ten probabilities written with three decimals fit."""


def as_floats(
    values: npt.ArrayLike, what: str, shape: tuple[int | None, ...], *, checked: bool = True
) -> Floats:
    """Return finite numbers as float64 of the given shape.

    Parameters
    ----------
    values : array_like
        The numbers.
    what : str
        What they are, for the error.
    shape : tuple of int or None
        The shape they must have; None stands for any length.
    checked : bool, optional
        False leaves the values to whoever reads them anyway.

    Returns
    -------
    Floats
        The same numbers.

    Raises
    ------
    InputError
        If the shape is another, or a value is NaN or infinite.
    """
    array = real_array(values, what).astype(np.float64, copy=False)
    wanted = "(" + ", ".join("n" if s is None else str(s) for s in shape)
    wanted += ",)" if len(shape) == 1 else ")"
    if array.ndim != len(shape) or any(
        s is not None and s != t for s, t in zip(shape, array.shape, strict=False)
    ):
        raise InputError(f"{what} must have shape {wanted}, got shape {array.shape}")
    if checked and array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
        finite: Bools = np.asarray(np.isfinite(array).reshape(len(array), -1).all(axis=1))
        raise InputError(f"{what} must be finite numbers, {{row}} is not", row=first_of(~finite))
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
    array = real_array(scores, "scores").astype(np.float64, copy=False)
    if array.ndim != 1:
        raise InputError(several_columns(array))
    if array.size and not array.min() > -np.inf:  # the minimum of a NaN is NaN
        bad = first_of(np.isnan(array) | (array == -np.inf))
        raise InputError("scores must be numbers or +inf, {row} is NaN or -inf", row=bad)
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
    if array.size and not (array.min() >= 0 and array.max() <= 1):
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
        If it is not a number between 0 and 1; a percentage or a coverage is told apart.
    """
    try:
        value = float(alpha)  # type: ignore[arg-type]  # whatever came, the error below names it
    except (TypeError, ValueError, OverflowError):
        value = float("nan")
    if isinstance(alpha, bool | str | bytes) or not 0.0 < value < 1.0:
        covers = max(value, 100 - value) if 1 < value < 100 else None
        hint = "" if covers is None else f" ({_miscoverage(covers)})"
        raise InputError(f"alpha must be strictly between 0 and 1, got {alpha!r}{hint}")
    return value


def as_usual_alpha(alpha: object, *, allow_large: bool = False) -> float:
    """Return a miscoverage level; one above 0.5 is most likely a coverage, and refused.

    Parameters
    ----------
    alpha : float
        Share of cases that may be missed.
    allow_large : bool, optional
        Take levels above 0.5 too.

    Returns
    -------
    float
        The same number.

    Raises
    ------
    InputError
        If it is not a number between 0 and 1, or above 0.5 without the allowance.
    """
    value = as_alpha(alpha)
    if value > 0.5 and not allow_large:
        covers = 100 - 100 * value
        raise InputError(
            f"alpha must be at most 0.5, got {value:g} ({_miscoverage(100 * value)}; if {covers:g} "
            "% coverage is what you want, pass allow_large_alpha=True (--allow-large-alpha))"
        )
    return value


def _miscoverage(covers: float) -> str:
    """Say how a coverage in percent is written as alpha."""
    return f"alpha is the miscoverage: for {covers:g} % coverage write {1 - covers / 100:g}"


def real_array(values: npt.ArrayLike, what: str) -> npt.NDArray[Any]:
    """Return an array of real numbers of any shape.

    Parameters
    ----------
    values : array_like
        The numbers.
    what : str
        What they are, for the error.

    Returns
    -------
    ndarray
        The same numbers.

    Raises
    ------
    InputError
        If they are masked, ragged or no numbers.
    """
    if np.ma.isMaskedArray(values):
        raise InputError(f"{what} must not be masked: take the masked rows out first")
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        refuse_tensor(values, what)
        raise InputError(f"{what} must be a rectangular array of numbers") from None
    if array.size == 0 and array.dtype == object:
        array = array.astype(np.float64)
    if array.dtype.kind not in "fiu":
        raise InputError(f"{what} must be an array of numbers, got an array of {array.dtype}")
    return array


def refuse_tensor(values: object, what: str) -> None:
    """Name the cure for a tensor that NumPy cannot read: one with grad, or of another device."""
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        raise InputError(
            f"{what} must be readable by NumPy, got a tensor that requires grad, lies on another "
            f"device or has a type of its own: pass {what}.detach().cpu(), and .float() after it "
            "for bfloat16"
        )


def several_columns(scores: Floats) -> str:
    """Say what came where one score per row belongs, and what to pass instead."""
    came = f"scores must be one number per row, got shape {scores.shape}"
    if scores.ndim != 2 or not scores.shape[1]:
        return came
    if scores.shape[1] == 1:
        return f"{came}: pass scores.ravel()"
    # Probabilities are known by their sums; a matrix of logits or of every label's score is not.
    sums_to_one = np.abs(scores.sum(axis=1) - 1.0) <= SUM_TOLERANCE
    if scores.min(initial=0.0) >= 0 and sums_to_one.all():
        return f"{came}: these look like probabilities; pass score.of(probs, labels)"
    return (
        f"{came}: pass score.of(probs, labels), or name the score that gives several columns, such "
        "as score=CQR(symmetric=False)"
    )


def first_of(bad: Bools) -> int | None:
    """Index of the first true entry, or None."""
    return int(np.argmax(bad)) if bad.any() else None
