"""Conformal ranks and quantiles. The rank is written here and nowhere else."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Floats, as_alpha, as_floats, as_scores, checked, shown
from fedwqcp.errors import InputError
from fedwqcp.kernels import selection
from fedwqcp.stored import StoredScores

Overflow: TypeAlias = Literal["propagate", "clip", "exclude"]
"""What happens where the conformal rank passes the sample size.

``propagate``: the threshold is +inf, and so is every average that it enters. ``clip``: the sample's
maximum takes its place; coverage is lost. ``exclude``: +inf locally; the server leaves it out.
"""

OVERFLOWS = get_args(Overflow)
Scores: TypeAlias = Floats | StoredScores
"""A sample of scores in memory or on disk."""
_LARGE = 1e290
"""Weights beyond it are scaled down before they are added up."""
LEVEL_TOLERANCE = 1e-12
"""A cumulative weight this close to the level, relative to the total, has reached it."""


def exact_level(alpha: float | Fraction) -> Fraction:
    """Return 1 - alpha as the fraction that the caller meant.

    A decimal such as 0.1 has no exact binary form, so the level is read as the nearest fraction
    with a denominator of at most 10^9: 0.1, ``1 - 0.9`` and ``Fraction(1, 10)`` mean the same.

    Examples
    --------
    >>> exact_level(1 - 0.9)
    Fraction(9, 10)
    """
    if type(alpha) is not float or not 0 < alpha < 1:
        as_alpha(alpha)
    return _level(str(alpha))


@lru_cache(maxsize=256)
def _level(alpha: str) -> Fraction:
    """Return 1 - alpha, read as it is written."""
    return 1 - Fraction(alpha).limit_denominator(10**9)


def conformal_rank(n: int, alpha: float, extra: int = 1) -> int:
    """Return the rank r(n, alpha) = ceil((n + 1)(1 - alpha)), free of binary rounding.

    Parameters
    ----------
    n : int
        Sample size.
    alpha : float
        Miscoverage level, strictly between 0 and 1.
    extra : int, optional
        How many test points are counted beside the sample: 1 for one exchangeable sample, the
        number of agents M for FCP's mixture.

    Returns
    -------
    int
        The 1-based rank; it may exceed n, and then no finite threshold carries the guarantee.

    Raises
    ------
    InputError
        If n is negative or not an integer, or alpha is not between 0 and 1.

    Examples
    --------
    >>> conformal_rank(19, 0.05), conformal_rank(18, 0.05)
    (19, 19)
    >>> conformal_rank(9, 0.7)  # ceil(10 * (1 - 0.7)) in floats gives 4
    3
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise InputError(f"n must be an integer of at least 0, got {shown(n)}")
    if not isinstance(extra, int | np.integer):
        raise InputError(f"extra must be an integer, got {shown(extra)}")
    level = exact_level(alpha)
    return max(1, -(-(int(n) + int(extra)) * level.numerator // level.denominator))  # rounded up


def least_sample(alpha: float) -> int:
    """Return the least n whose conformal rank is at most n; with fewer points a threshold is +inf.

    >>> least_sample(0.1), least_sample(0.05)
    (9, 19)
    """
    return ceil(1 / Fraction((1 - exact_level(alpha)) or alpha)) - 1


def conformal_quantile(
    scores: npt.ArrayLike | StoredScores, alpha: float, overflow: Overflow = "propagate"
) -> float:
    """Return the split-conformal threshold, the r(n, alpha)-th smallest score.

    Parameters
    ----------
    scores : array_like, shape (n,)
        Nonconformity scores.
    alpha : float
        Miscoverage level, strictly between 0 and 1.
    overflow : {"propagate", "clip", "exclude"}, optional
        The value where r(n, alpha) > n: ``clip`` gives the largest score, the others +inf
        (``exclude`` is a rule for the server that collects thresholds).

    Returns
    -------
    float
        One of the scores, or +inf. An empty sample gives +inf under every rule.

    Raises
    ------
    InputError
        If a score is NaN or -inf, or alpha or overflow is not a valid choice.

    Examples
    --------
    >>> conformal_quantile([0.3, 0.1, 0.2, 0.4], alpha=0.2)
    0.4
    >>> conformal_quantile([0.3, 0.1, 0.2], alpha=0.2)
    inf
    >>> conformal_quantile([0.3, 0.1, 0.2], alpha=0.2, overflow="clip")
    0.3
    """
    values = scores if isinstance(scores, StoredScores) else as_scores(scores)
    rank = threshold_rank(len(values), alpha, overflow)
    return np.inf if rank is None else order_statistic(values, rank)


def threshold_rank(n: int, alpha: float, overflow: Overflow) -> int | None:
    """Return which of n scores in order is the threshold; None where it is +inf."""
    check_overflow(overflow)
    rank = conformal_rank(n, alpha)
    if rank > n and (overflow != "clip" or not n):
        return None
    return min(rank, n)


def order_statistic(values: Scores, rank: int) -> float:
    """Return the rank-th smallest value, counted from 1; +inf beyond the sample."""
    if rank > len(values):
        return np.inf
    if isinstance(values, StoredScores):
        return values.order_statistic(rank)
    return selection.order_statistic(values, rank)


def order_statistics(values: Scores, ranks: Sequence[int]) -> tuple[float, ...]:
    """Return the values of several ranks."""
    if isinstance(values, StoredScores):
        return tuple(values.order_statistic(rank) for rank in ranks)
    ordered = np.sort(values)
    return tuple(ordered[np.asarray(ranks, dtype=np.intp) - 1].tolist())


def joined(parts: Sequence[Scores]) -> Scores:
    """Return several samples as one; all of them are in memory, or all on disk."""
    stored = [part for part in parts if isinstance(part, StoredScores)]
    if stored:
        return StoredScores([run for part in stored for run in part.runs])
    return np.concatenate([np.zeros(0), *parts])


def counts_up_to(values: Scores, points: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return how many values are at most each point."""
    if isinstance(values, StoredScores):
        return values.count(np.asarray(points, dtype=np.float64))
    return np.searchsorted(np.sort(values), points, side="right").astype(np.int64)


def finite_range(values: Scores) -> tuple[float, float] | None:
    """Return the smallest and the largest finite value, if there are any."""
    if isinstance(values, StoredScores):
        finite = int(values.count([np.finfo(np.float64).max])[0])
        return (values.min(), values.order_statistic(finite)) if finite else None
    some = values[values < np.inf]
    return (float(some.min()), float(some.max())) if some.size else None


@checked
def weighted_quantile(
    scores: npt.ArrayLike, weights: npt.ArrayLike, alpha: float, weight_at_inf: float = 0.0
) -> float:
    """Return the weighted (1 - alpha)-quantile, with optional mass at +inf.

    The smallest score v whose cumulative weight, ties included, reaches
    (1 - alpha)(sum of weights + weight_at_inf). A cumulative weight that misses the level by no
    more than `LEVEL_TOLERANCE` of the total has reached it: sums of weights carry rounding.

    Parameters
    ----------
    scores : array_like, shape (n,)
        Nonconformity scores.
    weights : array_like, shape (n,)
        Non-negative finite weights; scores of weight zero are never returned.
    alpha : float
        Miscoverage level, strictly between 0 and 1.
    weight_at_inf : float, optional
        Mass of the test point, placed at +inf.

    Returns
    -------
    float
        One of the scores with positive weight, or +inf where only the mass at infinity reaches the
        level, or where all mass is zero.

    Raises
    ------
    InputError
        If shapes differ, a weight is negative or not finite, or a score is NaN or -inf.

    Examples
    --------
    >>> weighted_quantile([0.1, 0.2, 0.3, 0.4, 0.5], [1, 1, 1, 1, 1], alpha=0.2, weight_at_inf=1)
    0.5
    >>> weighted_quantile([0.1, 0.2, 0.3, 0.4, 0.5], [1, 1, 1, 1, 1], alpha=0.2)
    0.4
    """
    values = as_scores(scores)
    mass = as_floats(weights, "weights", values.shape, checked=False)
    if not (np.isfinite(mass).all() and (mass >= 0).all() and 0 <= weight_at_inf < np.inf):
        raise InputError("weights must be finite numbers of at least 0")
    if (top := max(mass.max(initial=0.0), weight_at_inf)) > _LARGE:  # sums stay finite
        mass, weight_at_inf = mass / top, weight_at_inf / top
    level = float(exact_level(alpha))
    if len(mass) and not mass.min() > 0:
        values, mass = values[mass > 0], mass[mass > 0]
    share = level - LEVEL_TOLERANCE
    return selection.weighted_order_statistic(values, mass, share, weight_at_inf)


def check_overflow(overflow: str) -> None:
    """Refuse an unknown overflow rule."""
    if not isinstance(overflow, str) or overflow not in OVERFLOWS:
        raise InputError(f"overflow must be one of {', '.join(OVERFLOWS)}, got {shown(overflow)}")


_SCORES_PER_RANK = 10
"""An agent sends at most one order statistic of its tail for so many scores."""
SAFE_ERROR, UNSAFE_ERROR = 0.05, 0.02
"""Error of calling an agent's coverage sufficient, and that of any of M agents insufficient."""


def least_coverage(alpha: float) -> float:
    """Return 1 - alpha - alpha/2, the least coverage at which a shared threshold counts as safe.

    For alpha above one half, 1 - alpha takes the place of alpha in the last term.
    """
    level = exact_level(alpha)
    return float(level - min(level, 1 - level) / 2)


@lru_cache(maxsize=4096)
def sufficient_count(n: int, coverage: float, error: float = SAFE_ERROR) -> int:
    """Return how many of n scores must lie at or below a threshold to show that it covers enough.

    The smallest c with P(Binomial(n, coverage) >= c) <= error: a one-sided Clopper-Pearson test; n
    + 1 where no sample of this size shows it.

    Examples
    --------
    >>> sufficient_count(1000, 0.925), sufficient_count(30, 0.925)
    (939, 31)
    """
    from scipy.special import bdtrc  # a third of the time that importing the package would take

    return bisect_left(
        range(n + 1), True, key=lambda c: c > 0 and bdtrc(c - 1, n, coverage) <= error
    )


@lru_cache(maxsize=4096)
def insufficient_count(n: int, coverage: float, error: float) -> int:
    """Return how few of n scores at or below a threshold show that it covers too little.

    The largest c with P(Binomial(n, coverage) <= c) <= error; -1 where no sample of this size shows
    it.

    Examples
    --------
    >>> insufficient_count(1000, 0.925, 0.02 / 6), insufficient_count(20, 0.925, 0.02 / 6)
    (901, 14)
    """
    from scipy.special import bdtr

    return bisect_left(range(n + 1), True, key=lambda c: bdtr(c, n, coverage) > error) - 1


def tail_ranks(n: int, alpha: float, most: int = 16) -> tuple[int, ...]:
    """Return the ranks of the order statistics that tell whether a shared threshold is safe.

    A threshold t is at or above the order statistic of rank c exactly if c scores lie at or below
    t. So the ranks that matter are those where a verdict turns: the one that shows enough coverage,
    and those that show too little among up to 4, 16, 64 and 256 agents. What is left of the number
    goes to ranks that tell how much an agent could miss. Never more than one for ten scores, so
    that a small sample stays hidden.

    Examples
    --------
    >>> tail_ranks(80, 0.1)
    (31, 43, 55, 56, 58, 59, 68, 74)
    """
    bar, quantile = least_coverage(alpha), conformal_rank(n, alpha)
    turns = [insufficient_count(n, bar, UNSAFE_ERROR / agents) + 1 for agents in (256, 16, 64, 4)]
    shares = [1 - (1 - bar) * times for times in (2, 3, 1, 4, 1.5, 5, 6, 0.8, 2.5, 8, 0.9, 1.2, 10)]
    spread = [int(n * share) for share in shares]
    wanted = dict.fromkeys([*turns[:2], sufficient_count(n, bar), *turns[2:], *spread])
    ranks = [rank for rank in wanted if 0 < rank <= n and rank != quantile]
    return tuple(sorted(ranks[: min(most, n // _SCORES_PER_RANK)]))
