"""Mean losses between 0 and 1 with an interval that holds in finite samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, log

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats, as_indicators
from fedwqcp.errors import InputError
from fedwqcp.sets import LabelSets


@dataclass(frozen=True, kw_only=True)
class Risk:
    """The mean of independent losses between 0 and 1, with an interval of its expectation.

    The interval holds every m with n kl(risk, m) <= log(2 / (1 - level)), kl the relative entropy
    of coin tosses: by Chernoff's bound and Hoeffding's lemma it misses the expectation with
    probability 1 - level at most, whatever the losses' law.

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
        if not 0.0 < self.level < 1.0:
            raise InputError(f"level must be strictly between 0 and 1, got {self.level!r}")
        most = log(2 / (1 - self.level)) / self.n
        object.__setattr__(self, "low", _end(self.risk, 0.0, most))
        object.__setattr__(self, "high", _end(self.risk, 1.0, most))


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


def _end(mean: float, extreme: float, most: float) -> float:
    """Return the end of the interval on one side, by halving; rounding goes outwards."""
    if _entropy(mean, extreme) <= most:
        return extreme
    inside, outside = mean, extreme
    for _ in range(60):
        middle = (inside + outside) / 2
        if _entropy(mean, middle) <= most:
            inside = middle
        else:
            outside = middle
    return outside


def _entropy(p: float, q: float) -> float:
    """Return the relative entropy of coins, kl(p, q)."""
    parts = ((p, q), (1 - p, 1 - q))
    return sum(a * log(a / b) if b > 0 else inf for a, b in parts if a > 0)
