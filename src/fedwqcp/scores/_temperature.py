"""From logits to probabilities, at the temperature that makes some labels most likely."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Floats, as_floats, as_labels, checked
from fedwqcp.errors import InputError

_STEPS = 200
_STEEPEST = 2.0**40
_UNFIT = "no temperature makes these labels most likely: {}; fit it on more rows, or leave it out"


@checked
def softmax(logits: npt.ArrayLike, temperature: float = 1.0) -> Floats:
    """Return class probabilities, exp(z/T) divided by its sum over the classes.

    Parameters
    ----------
    logits : array_like, shape (n, C)
        A classifier's outputs before its softmax, or logarithms of probabilities.
    temperature : float, optional
        T > 0: above 1 it makes probabilities more equal, below 1 less.

    Returns
    -------
    Floats, shape (n, C)
        Rows that sum to 1, in float64.

    Raises
    ------
    InputError
        If a logit is not finite, or the temperature not positive.

    Examples
    --------
    >>> softmax([[0.0, 0.0], [2.0, 0.0]], temperature=2.0).round(3)
    array([[0.5  , 0.5  ],
           [0.731, 0.269]])
    """
    if not 0 < temperature < np.inf:
        raise InputError(f"temperature must be a positive number, got {temperature!r}")
    odds = np.exp(_below_top(logits) / temperature)
    odds /= odds.sum(axis=1, keepdims=True)
    return odds


def fit_temperature(logits: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the temperature under which labels are most likely (Guo et al. 2017).

    Minimises the mean of log sum exp(b z) - b z_y over b = 1/T, which is convex in b. Fit it on
    rows that are not calibrated on: then the model with this temperature is as fixed as any model,
    and the guarantees of conformal prediction hold.

    Parameters
    ----------
    logits : array_like, shape (n, C)
        A classifier's outputs before its softmax.
    labels : array_like of int, shape (n,)
        The true labels.

    Returns
    -------
    float
        T > 0, for `softmax`.

    Raises
    ------
    InputError
        If arrays are wrong, or no temperature is best: the highest logit is right in every row, or
        logits say no more of the labels than chance.

    Examples
    --------
    >>> fit_temperature([[2.0, 0.0]] * 4, [0, 0, 0, 1])  # right three times in four: odds of 3
    1.82047845325...
    """
    z = _below_top(logits)
    of_label = z[np.arange(len(z)), as_labels(labels, *z.shape)]
    if (of_label == 0).all():
        raise InputError(_UNFIT.format(f"the highest logit is right in all {len(z)} rows"))
    unit = float(-z.min())  # then steepness is a number without a unit
    z, of_label = z / unit, of_label / unit
    if _slope(z, of_label, 0.0)[0] >= 0:
        raise InputError(_UNFIT.format("the logits say no more of them than chance"))
    if _slope(z, of_label, _STEEPEST)[0] <= 0:
        raise InputError(_UNFIT.format("the highest logits are right, or nearly equal where not"))
    return unit / _root(z, of_label)


def _below_top(logits: npt.ArrayLike) -> Floats:
    """Return each row's logits less its highest."""
    z = as_floats(logits, "logits", (None, None))
    if z.shape[1] < 2:
        raise InputError(f"logits must be of at least two classes, got shape {z.shape}")
    with np.errstate(over="ignore"):  # further apart than the largest float
        below: Floats = np.maximum(z - z.max(axis=1, keepdims=True), -np.finfo(np.float64).max)
    return below


def _slope(z: Floats, of_label: Floats, b: float) -> tuple[float, float]:
    """Return the first two derivatives of the mean loss in the steepness b."""
    p = np.exp(b * z)
    p /= p.sum(axis=1, keepdims=True)
    mean = (p * z).sum(axis=1)
    spread = (p * z**2).sum(axis=1) - mean**2
    return float((mean - of_label).mean()), float(spread.mean())


def _root(z: Floats, of_label: Floats) -> float:
    """Return where the slope, which grows, is zero: by Newton's steps, halving where they leave."""
    low, high, b = 0.0, _STEEPEST, 0.0
    for _ in range(_STEPS):
        slope, curvature = _slope(z, of_label, b)
        low, high = (b, high) if slope < 0 else (low, b)
        step = b - slope / curvature if curvature > 0 else high
        after = step if low <= step < high else (low + high) / 2
        if abs(after - b) <= 1e-12 * after:
            break
        b = after
    return after
