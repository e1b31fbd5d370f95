"""The weighted mean of thresholds, rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf


def weighted_mean(values: Sequence[float], weights: Sequence[int]) -> float:
    """Return sum of weights times values over the sum of weights, correctly rounded.

    Sums are exact, so the mean lies between the smallest and the largest value, splitting a weight
    changes nothing, and the order does not matter. A float is an integer over a power of two:
    all terms are brought to the largest such denominator and added as integers.

    Parameters
    ----------
    values : sequence of float
        Numbers or +inf.
    weights : sequence of int
        Positive.

    Returns
    -------
    float
        The mean; +inf if a value is, or if there are none.

    Examples
    --------
    >>> weighted_mean([0.9, 0.3], [10, 30])
    0.45
    """
    if not values or inf in values:
        return inf
    ratios = [value.as_integer_ratio() for value in values]
    common = max(denominator for _, denominator in ratios)
    total = sum(
        weight * numerator * (common // denominator)
        for weight, (numerator, denominator) in zip(weights, ratios, strict=True)
    )
    return float(Fraction(total, common * sum(weights)))
