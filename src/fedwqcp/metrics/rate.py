"""Coverage as a rate with its exact interval, and how far it strays by chance."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Hits among test points, with the exact Clopper-Pearson interval of their probability.

    Parameters
    ----------
    n : int
        Test points.
    hits : int
        How many were covered.
    level : float, optional
        Confidence of the interval.

    Attributes
    ----------
    coverage : float
        hits / n; NaN where n is 0.
    low, high : float
        Ends of the interval; exactly 0 without hits, exactly 1 without misses.

    Examples
    --------
    >>> rate = Rate(n=10, hits=10)
    >>> rate.coverage, round(rate.low, 4), rate.high
    (1.0, 0.6915, 1.0)
    """

    n: int
    hits: int
    level: float = 0.95
    coverage: float = field(init=False)
    low: float = field(init=False)
    high: float = field(init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.hits <= self.n:
            raise InputError(f"hits must be from 0 to n={self.n}, got {self.hits}")
        tail = _tail(self.level)
        coverage = self.hits / self.n if self.n else np.nan
        object.__setattr__(self, "coverage", coverage)
        object.__setattr__(self, "low", _lower_end(self.hits, self.n, tail))
        object.__setattr__(self, "high", 1.0 - _lower_end(self.n - self.hits, self.n, tail))


def band(m: int, rank: int, n: int, level: float = 0.95) -> tuple[int, int]:
    """Return the range of hits that split conformal prediction gives by chance alone.

    With a threshold at the rank-th smallest of n untied exchangeable scores, hits among m test
    points follow BetaBinomial(m, rank, n + 1 - rank): the band leaves at most (1 - level) / 2 on
    each side. Hits inside it are no sign of wrong coverage.

    Parameters
    ----------
    m : int
        Test points, at least 1.
    rank : int
        Rank of the threshold, at least 1, such as ``conformal_rank(n, alpha)``; beyond n the
        threshold is +inf and every point is a hit.
    n : int
        Calibration points.
    level : float, optional
        Probability of the band.

    Returns
    -------
    tuple of int
        Fewest and most hits.

    Raises
    ------
    InputError
        If m or rank is below 1, n is negative, one is no integer, or level is not between
        0 and 1.

    Examples
    --------
    >>> band(1000, rank=90, n=99)  # alpha = 0.1: 840 hits of 1000 are no sign of anything
    (831, 953)
    """
    tail = _tail(level)
    for what, value, least in (("m", m, 1), ("rank", rank, 1), ("n", n, 0)):
        if not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{what} must be an integer of at least {least}, got {value!r}")
    if rank > n:
        return m, m
    mass = _beta_binomial(m, rank, n + 1 - rank)
    below, above = np.cumsum(mass), np.cumsum(mass[::-1])
    return int(np.searchsorted(below, tail)), m - int(np.searchsorted(above, tail, side="right"))


def _beta_binomial(m: int, a: int, b: int) -> Floats:
    """Return the probabilities of 0 to m hits, from logarithms of factorials."""
    from scipy.special import gammaln

    x = np.arange(m + 1)
    log_mass = gammaln(x + a) - gammaln(x + 1) + gammaln(m - x + b) - gammaln(m - x + 1)
    mass = np.exp(log_mass - log_mass.max())
    return np.asarray(mass / mass.sum())


def _lower_end(hits: int, n: int, tail: float) -> float:
    """Return the lower Clopper-Pearson end; the upper one is 1 minus that of the misses."""
    from scipy.special import betaincinv

    return float(betaincinv(hits, n - hits + 1, tail)) if hits else 0.0


def _tail(level: float) -> float:
    """Return the mass left on each side of a central range."""
    if not 0.0 < level < 1.0:
        raise InputError(f"level must be strictly between 0 and 1, got {level!r}")
    return (1.0 - level) / 2.0
