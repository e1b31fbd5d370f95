"""Scores as a histogram in which nobody stands alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import as_scores
from fedwqcp.errors import InputError

FEWEST = 10
"""Fewest people that a bin of a shared histogram holds."""


@dataclass(frozen=True)
class Histogram:
    """Counts between edges.

    Parameters
    ----------
    edges : tuple of float
        One more than bins, rising; empty where there are fewer people than one bin needs.
    people : tuple of int
        How many scores lie in each bin; the last one holds its upper edge too.
    """

    edges: tuple[float, ...]
    people: tuple[int, ...]


def histogram(scores: npt.ArrayLike, *, bins: int = 20, fewest: int = FEWEST) -> Histogram:
    """Count finite scores in equal bins, merged from the left until each holds enough people.

    The range is rounded outward to one digit, so that its ends tell nobody's score.

    Parameters
    ----------
    scores : array_like, shape (n,)
        The scores; +inf is left out.
    bins : int, optional
        Equal bins before merging.
    fewest : int, optional
        Fewest people in a bin.

    Returns
    -------
    Histogram
        No bin where there are fewer people than that.

    Raises
    ------
    InputError
        If a score is NaN, or there is to be no bin.

    Examples
    --------
    >>> histogram([0.0, 0.1, 0.2, 0.3, 1.0], bins=4, fewest=2)
    Histogram(edges=(0.0, 0.25, 1.0), people=(3, 2))
    """
    if bins < 1 or fewest < 1:
        raise InputError(f"bins and fewest must be at least 1, got {bins} and {fewest}")
    values = as_scores(scores)
    values = values[np.isfinite(values)]
    if len(values) < fewest:
        return Histogram((), ())
    edges = _edges(float(values.min()), float(values.max()), bins)
    counts = np.histogram(values, edges)[0]
    kept, people, held = [float(edges[0])], [], 0
    for edge, count in zip(edges[1:], counts, strict=True):
        held += int(count)
        if held >= fewest:
            kept.append(float(edge))
            people.append(held)
            held = 0
    kept[-1] = float(edges[-1])  # too few are left at the end: they join the last bin
    people[-1] += held
    return Histogram(tuple(kept), tuple(people))


def _edges(low: float, high: float, bins: int) -> npt.NDArray[np.float64]:
    """Return equal bins over the range, rounded outward to one digit of its width."""
    width = high - low if high > low else abs(low) or 1.0
    step = 10.0 ** np.floor(np.log10(width))
    first, last = np.floor(low / step), np.ceil(high / step)
    edges = np.linspace(first, max(last, first + 1), bins + 1) * step
    edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)  # against rounding
    return np.asarray(edges)
