"""Coverage and size in each group of people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import as_groups
from fedwqcp.metrics.rate import Rate
from fedwqcp.sets import Intervals, LabelSets


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
    sets: LabelSets | Intervals,
    y: npt.ArrayLike,
    groups: npt.ArrayLike,
    level: float = 0.95,
) -> tuple[GroupRate, ...]:
    """Return coverage and size in each group that occurs, by name.

    Parameters
    ----------
    sets : LabelSets or Intervals
        One set for each test point.
    y : array_like, shape (n,)
        The true labels or values.
    groups : array_like, shape (n,)
        Group of each test point, text or integers; the labels themselves give coverage by class.
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
            group=str(name),
            n=int(np.count_nonzero(own := names == name)),
            hits=int(covered[own].sum()),
            level=level,
            size=float(sizes[own].mean()),
        )
        for name in np.unique(names)
    )
