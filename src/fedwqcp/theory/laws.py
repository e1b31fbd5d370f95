"""Score laws whose quantiles and coverage are known exactly, for studies without data."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, log1p
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from numpy.random import Generator as Random

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError

Family: TypeAlias = Literal["uniform", "exponential", "reflected"]
"""Standard laws of a score: U(0, 1), Exp(1), and -Exp(1), which piles up at its upper bound."""

HALVINGS = 80
"""Steps of bisection; they leave less than a rounding error of the bracket."""


@dataclass(frozen=True)
class ScoreLaw:
    """Scores given the class: in class c, `scales[c]` times a standard variable.

    Parameters
    ----------
    scales : tuple of float
        One positive number for each class.
    family : {"uniform", "exponential", "reflected"}, optional
        The standard law.

    Raises
    ------
    InputError
        If a scale is not positive or the family is unknown.

    Examples
    --------
    >>> law = ScoreLaw((0.1, 1.0), "uniform")
    >>> round(float(law.cdf(0.171, [0.5, 0.5])), 4)  # half of 1, and half of 0.171
    0.5855
    """

    scales: tuple[float, ...]
    family: Family = "exponential"

    def __post_init__(self) -> None:
        if not self.scales or not all(0 < scale < np.inf for scale in self.scales):
            raise InputError(f"scales must be positive numbers, got {self.scales}")
        if self.family not in get_args(Family):
            raise InputError(
                f"family must be one of {', '.join(get_args(Family))}, got {self.family!r}"
            )

    def cdf(self, q: npt.ArrayLike, weights: npt.ArrayLike) -> Floats:
        """Return the share of scores at or below q, exactly.

        Parameters
        ----------
        q : array_like, shape (...)
            Thresholds; +inf is allowed.
        weights : array_like, shape (..., C)
            Label laws.

        Returns
        -------
        Floats
            Coverages, shape (...).
        """
        x = np.asarray(q, dtype=np.float64)[..., None] / np.asarray(self.scales)
        return np.asarray((_standard_cdf(x, self.family) * np.asarray(weights)).sum(axis=-1))

    def quantile(self, level: float, weights: npt.ArrayLike) -> Floats:
        """Return the population quantile, to rounding.

        Parameters
        ----------
        level : float
            Strictly between 0 and 1.
        weights : array_like, shape (..., C)
            Label laws.

        Returns
        -------
        Floats
            Quantiles, shape (...); each lies between those of the classes.
        """
        laws = np.asarray(weights, dtype=np.float64)
        ends = np.asarray(self.scales) * _standard_quantile(level, self.family)
        low, high = np.full(laws.shape[:-1], ends.min()), np.full(laws.shape[:-1], ends.max())
        for _ in range(HALVINGS):
            middle = low + (high - low) / 2
            reached = self.cdf(middle, laws) >= level
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return high

    def sample(self, n: int, weights: Floats, rng: Random) -> Floats:
        """Draw n scores for each label law.

        Parameters
        ----------
        n : int
            How many.
        weights : Floats, shape (..., C)
            Label laws.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        Floats
            Scores, shape (..., n), those of one class beside each other.
        """
        counts = rng.multinomial(n, weights)
        rows = counts.size // len(self.scales)
        scales = np.repeat(np.tile(self.scales, rows), counts.ravel())
        shape = (*weights.shape[:-1], n)
        return scales.reshape(shape) * _standard_draw(shape, self.family, rng)


def _standard_cdf(x: Floats, family: Family) -> Floats:
    """Return the distribution function of a standard law."""
    if family == "uniform":
        return np.clip(x, 0.0, 1.0)
    if family == "exponential":
        return np.asarray(-np.expm1(-np.maximum(x, 0.0)))
    return np.asarray(np.exp(np.minimum(x, 0.0)))


def _standard_quantile(level: float, family: Family) -> float:
    """Return the quantile of a standard law."""
    if family == "uniform":
        return level
    return -log1p(-level) if family == "exponential" else log(level)


def _standard_draw(shape: tuple[int, ...], family: Family, rng: Random) -> Floats:
    """Draw from a standard law."""
    if family == "uniform":
        return rng.random(shape)
    drawn = rng.standard_exponential(shape)
    return drawn if family == "exponential" else -drawn
