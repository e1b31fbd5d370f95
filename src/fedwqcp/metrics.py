"""Coverage and size of prediction sets: per agent, per class, per group, per size.

Every coverage comes with its exact Clopper-Pearson interval; `band` is the range that split
conformal coverage takes by chance alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, log
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import (
    Bools,
    Floats,
    as_class_labels,
    as_indicators,
    as_labels,
    fits,
    shown,
)
from fedwqcp.errors import InputError
from fedwqcp.groups import as_groups, group_names, in_group
from fedwqcp.quantile import conformal_rank, least_sample
from fedwqcp.sets import Intervals, LabelSets

__all__ = [
    "AgentMetrics",
    "AgentRisk",
    "GroupRate",
    "MaskRisk",
    "Rate",
    "Risk",
    "band",
    "by_class",
    "by_group",
    "explained",
    "false_negatives",
    "measure",
    "measure_masks",
    "measure_risk",
]


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
    coverage: float = field(init=False, compare=False)  # NaN of no points equals nothing
    low: float = field(init=False, compare=False)
    high: float = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.hits <= self.n:
            raise InputError(f"hits must be from 0 to n={self.n}, got {self.hits}")
        tail = _tail(self.level)
        coverage = self.hits / self.n if self.n else np.nan
        object.__setattr__(self, "coverage", coverage)
        object.__setattr__(self, "low", lower_end(self.hits, self.n, tail))
        object.__setattr__(self, "high", 1.0 - lower_end(self.n - self.hits, self.n, tail))


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


def explained(m: int, n: int | None, alpha: float) -> float:
    """Return the least coverage that chance explains where split conformal prediction is valid.

    Chance of calibration and test points together gives less once in forty times (`band`).

    Parameters
    ----------
    m : int
        Test points, at least 1.
    n : int or None
        Calibration points; where they are not known, the fewest with a finite threshold.
    alpha : float
        Miscoverage level.

    Returns
    -------
    float
        A share of the test points.

    Examples
    --------
    >>> explained(100, 60, alpha=0.1)
    0.79
    """
    n = n or least_sample(alpha)
    return band(m, min(n, conformal_rank(n, alpha)), n)[0] / m


def _beta_binomial(m: int, a: int, b: int) -> Floats:
    """Return the probabilities of 0 to m hits, from logarithms of factorials."""
    from scipy.special import gammaln

    x = np.arange(m + 1)
    log_mass = gammaln(x + a) - gammaln(x + 1) + gammaln(m - x + b) - gammaln(m - x + 1)
    mass = np.exp(log_mass - log_mass.max())
    return np.asarray(mass / mass.sum())


def lower_end(hits: int, n: int, tail: float) -> float:
    """Return the lower Clopper-Pearson end; the upper one is 1 minus that of the misses."""
    from scipy.special import betaincinv

    return float(betaincinv(hits, n - hits + 1, tail)) if hits else 0.0


def _tail(level: float) -> float:
    """Return the mass left on each side of a central range."""
    if not fits(level, float) or not 0.0 < level < 1.0:
        raise InputError(f"level must be strictly between 0 and 1, got {shown(level)}")
    return (1.0 - level) / 2.0


@dataclass(frozen=True, kw_only=True)
class AgentMetrics(Rate):
    """Coverage and size at one agent; built by `measure`.

    Parameters
    ----------
    agent : str
        Its name.
    size : float
        Mean number of labels or mean length; +inf where a length is infinite.
    empty : float
        Share of empty sets.
    full : float
        Share of sets that exclude nothing: every label, or the whole line.
    infinite : float
        Share of intervals of infinite length; 0 for sets of labels.
    """

    agent: str
    size: float
    empty: float
    full: float
    infinite: float

    def __str__(self) -> str:
        return (
            f"{self.agent}: coverage {self.coverage:.4f}, exact {self.level * 100:g} % interval "
            f"{self.low:.4f} to {self.high:.4f}, of {self.n}; mean size {self.size:.4g}, "
            f"{self.empty * 100:.1f} % empty"
        )


def measure(
    agent: str, sets: LabelSets | Intervals, y: npt.ArrayLike, level: float = 0.95
) -> AgentMetrics:
    """Return coverage and size of one agent's sets on its test points.

    Parameters
    ----------
    agent : str
        Name of the agent.
    sets : LabelSets or Intervals
        One set for each test point.
    y : array_like, shape (n,)
        The true labels or values.
    level : float, optional
        Confidence of the interval of the coverage.

    Returns
    -------
    AgentMetrics
        The figures.

    Raises
    ------
    InputError
        If there are no test points, or y does not fit the sets.

    Examples
    --------
    >>> sets = LabelSets(np.array([[True, False], [True, True]]))
    >>> found = measure("a", sets, [1, 1])
    >>> found.coverage, found.size, found.full
    (0.5, 1.5, 0.5)
    """
    if not len(sets):
        raise InputError(f"agent {agent!r} has no test points: coverage needs at least one")
    sizes = sets.sizes()
    if isinstance(sets, LabelSets):
        full = sizes == sets.mask.shape[1]
    else:
        full = (sets.lower == -np.inf) & (sets.upper == np.inf)
    return AgentMetrics(
        agent=agent,
        n=len(sets),
        hits=int(sets.cover(y).sum()),
        level=level,
        size=float(sizes.mean()),
        empty=float(sets.empty().mean()),
        full=float(full.mean()),
        infinite=float(np.isinf(sizes).mean()),
    )


@dataclass(frozen=True, kw_only=True)
class GroupRate(Rate):
    """Coverage and size in one group; built by `by_group`.

    Parameters
    ----------
    group : str
        Its name.
    size : float
        Mean number of labels or mean length.
    """

    group: str
    size: float


def by_group(
    sets: LabelSets | Intervals, y: npt.ArrayLike, groups: npt.ArrayLike, level: float = 0.95
) -> tuple[GroupRate, ...]:
    """Return coverage and size in each group that occurs, by name.

    Parameters
    ----------
    sets : LabelSets or Intervals
        One set for each test point.
    y : array_like, shape (n,)
        The true labels or values.
    groups : array_like, shape (n,), or sequence of sets
        Group of each test point, text or integers, or all its groups; the labels themselves give
        coverage by class, ``sets.sizes()`` coverage by size.
    level : float, optional
        Confidence of the exact intervals.

    Returns
    -------
    tuple of GroupRate
        Sorted by name.

    Raises
    ------
    InputError
        If y or the groups do not fit the sets.

    Examples
    --------
    >>> sets = LabelSets(np.array([[True, False], [True, True], [False, True]]))
    >>> [(g.group, g.n, g.coverage, g.size) for g in by_group(sets, [0, 1, 0], ["f", "m", "m"])]
    [('f', 1, 1.0, 1.0), ('m', 2, 0.5, 1.5)]
    """
    covered, sizes = sets.cover(y), sets.sizes()
    names = as_groups(groups, len(sets))
    return tuple(
        GroupRate(
            group=name,
            n=int(np.count_nonzero(inside := in_group(names, name))),
            hits=int(covered[inside].sum()),
            level=level,
            size=float(sizes[inside].mean()),
        )
        for name in group_names(names)
    )


def by_class(sets: LabelSets, labels: npt.ArrayLike, level: float = 0.95) -> tuple[Rate, ...]:
    """Return the coverage of each class, in the order of the classes.

    Parameters
    ----------
    sets : LabelSets
        One set for each test point; for ordinal labels use ``intervals.labels(C)``.
    labels : array_like, shape (n,)
        The true labels: numbers, or names where the classes have names.
    level : float, optional
        Confidence of the intervals.

    Returns
    -------
    tuple of Rate
        One for each of the C classes; a class without test points has n = 0.

    Raises
    ------
    InputError
        If there are no test points, or the labels do not fit the sets.
    """
    if not len(sets):
        raise InputError("there are no test points: coverage needs at least one")
    rows, C = sets.mask.shape
    y = as_labels(as_class_labels(labels, sets.classes), rows, C)
    counts = (np.bincount(of, minlength=C).tolist() for of in (y, y[sets.cover(y)]))
    return tuple(Rate(n=n, hits=hits, level=level) for n, hits in zip(*counts, strict=True))


@dataclass(frozen=True, kw_only=True)
class Risk:
    """The mean of independent losses between 0 and 1, with an interval of its expectation.

    The interval holds every m with n kl(risk, m) <= log(2 / (1 - level)), kl the relative entropy
    of coin tosses: by Chernoff's bound and Hoeffding's lemma it misses the expectation with
    probability 1 - level at most, whatever the distribution of the losses.

    Parameters
    ----------
    n : int
        Test points.
    risk : float
        Mean loss.
    level : float, optional
        Confidence of the interval.

    Attributes
    ----------
    low, high : float
        Ends of the interval.

    Examples
    --------
    >>> found = Risk(n=100, risk=0.08)
    >>> round(found.low, 3), round(found.high, 3)
    (0.026, 0.174)
    """

    n: int
    risk: float
    level: float = 0.95
    low: float = field(init=False)
    high: float = field(init=False)

    def __post_init__(self) -> None:
        if self.n < 1 or not 0 <= self.risk <= 1:
            raise InputError(
                f"a risk is the mean of losses from 0 to 1, got {self.risk} of {self.n}"
            )
        most = log(1 / _tail(self.level)) / self.n

        def _outside(m: float) -> bool:
            return _entropy(self.risk, m) > most

        object.__setattr__(self, "low", last_outside(_outside, 0.0, self.risk, 60))
        object.__setattr__(self, "high", last_outside(_outside, 1.0, self.risk, 60))


@dataclass(frozen=True, kw_only=True)
class AgentRisk(Risk):
    """False-negative rate and size at one agent; built by `measure_risk`.

    Parameters
    ----------
    agent : str
        Its name.
    size : float
        Mean number of labels in a set.
    full : float
        Share of sets that hold every label.
    """

    agent: str
    size: float
    full: float

    def __str__(self) -> str:
        return (
            f"{self.agent}: false-negative rate {self.risk:.4f}, {self.level * 100:g} % interval "
            f"{self.low:.4f} to {self.high:.4f}, of {self.n}; mean size {self.size:.4g}"
        )


@dataclass(frozen=True, kw_only=True)
class MaskRisk(Risk):
    """Share of true pixels that an agent's masks miss, its mean over n images.

    Parameters
    ----------
    agent : str
        Its name.
    area : float
        Marked pixels of all images, over true pixels.
    empty : int
        Images whose true mask is empty.
    """

    agent: str
    area: float
    empty: int

    def __str__(self) -> str:
        return (
            f"{self.agent}: missed share {self.risk:.4f}, {self.level * 100:g} % interval "
            f"{self.low:.4f} to {self.high:.4f}, of {self.n} images ({self.empty} with an empty "
            f"mask); area {self.area:.3g} times the true one"
        )


def false_negatives(sets: LabelSets, labels: npt.ArrayLike) -> Floats:
    """Return the share of each row's labels that its set misses, shape (n,).

    Parameters
    ----------
    sets : LabelSets
        One set for each test point.
    labels : array_like, shape (n, L)
        1 where a label is there, 0 where it is not.

    Returns
    -------
    Floats
        From 0 to 1; 0 in a row without labels.
    """
    there = as_indicators(labels, sets.mask.shape)
    missed = (there & ~sets.mask).sum(axis=1)
    return np.asarray(missed / np.maximum(1, there.sum(axis=1)))


def measure_risk(
    agent: str, sets: LabelSets, labels: npt.ArrayLike, level: float = 0.95
) -> AgentRisk:
    """Return the false-negative rate and size of one agent's sets on its test points.

    Parameters
    ----------
    agent : str
        Name of the agent.
    sets : LabelSets
        One set for each test point.
    labels : array_like, shape (n, L)
        1 where a label is there, 0 where it is not.
    level : float, optional
        Confidence of the interval.

    Returns
    -------
    AgentRisk
        The figures.

    Raises
    ------
    InputError
        If there are no test points, or the labels do not fit the sets.

    Examples
    --------
    >>> sets = LabelSets(np.array([[True, False], [True, True]]))
    >>> found = measure_risk("a", sets, [[1, 1], [0, 1]])
    >>> found.risk, found.size
    (0.25, 1.5)
    """
    if not len(sets):
        raise InputError(f"agent {agent!r} has no test points: a risk needs at least one")
    sizes = sets.sizes()
    return AgentRisk(
        agent=agent,
        n=len(sets),
        risk=float(false_negatives(sets, labels).mean()),
        level=level,
        size=float(sizes.mean()),
        full=float((sizes == sets.mask.shape[1]).mean()),
    )


def measure_masks(
    agent: str,
    pixels: npt.NDArray[np.int64],
    inside: npt.NDArray[np.int64],
    marked: Bools,
    level: float = 0.95,
    *,
    empty: Literal["skip", "count"] = "skip",
) -> MaskRisk:
    """Return what share of true pixels one agent's masks miss, and their area.

    Parameters
    ----------
    agent : str
        Name of the agent.
    pixels, inside : ndarray of int, shape (n, bins)
        How many pixels of an image have each score, and how many of them its true mask holds.
    marked : Bools, shape (bins,) or (n, bins)
        Which scores the predicted mask holds.
    level : float, optional
        Confidence of the interval.
    empty : {"skip", "count"}, optional
        Whether images whose true mask is empty count, with a loss of 0.

    Returns
    -------
    MaskRisk
        The figures.

    Raises
    ------
    InputError
        If no image counts.

    Examples
    --------
    >>> found = measure_masks("a", np.array([[4, 6]]), np.array([[3, 1]]), np.array([True, False]))
    >>> found.risk, found.area
    (0.25, 1.0)
    """
    true = inside.sum(axis=1)
    there = (true > 0) | (empty == "count")
    if not there.any():
        raise InputError(f"agent {agent!r} has no image that counts: a risk needs at least one")
    losses = (inside * ~marked).sum(axis=1) / np.maximum(1, true)
    return MaskRisk(
        agent=agent,
        n=int(there.sum()),
        risk=float(losses[there].mean()),
        level=level,
        area=float((pixels * marked)[there].sum() / max(1, true.sum())),
        empty=int((true == 0).sum()),
    )


def last_outside(outside: Callable[[float], bool], far: float, near: float, halvings: int) -> float:
    """Return the end of an interval around ``near``, by bisection; it is rounded outwards."""
    if not outside(far):
        return far
    for _ in range(halvings):
        middle = (far + near) / 2
        far, near = (middle, near) if outside(middle) else (far, middle)
    return far


def _entropy(p: float, q: float) -> float:
    """Return the relative entropy of coins, kl(p, q)."""
    parts = ((p, q), (1 - p, 1 - q))
    return sum(a * log(a / b) if b > 0 else inf for a, b in parts if a > 0)


MIN_COUNT = 10
"""Fewest people that a line of a report or a bin of a plot stands for."""
