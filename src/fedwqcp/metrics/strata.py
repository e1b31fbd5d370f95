"""Coverage by class and by size of the set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import as_floats, as_labels
from fedwqcp.errors import InputError
from fedwqcp.metrics.rate import Rate
from fedwqcp.sets import Intervals, LabelSets


@dataclass(frozen=True, kw_only=True)
class Stratum(Rate):
    """Coverage of the sets whose size lies in a range; built by `by_size`.

    Parameters
    ----------
    smallest, largest : float
        The range: ``smallest <= size < largest``, or one size where both are equal. The last
        range between cuts holds +inf too.
    """

    smallest: float
    largest: float


def by_class(sets: LabelSets, labels: npt.ArrayLike, level: float = 0.95) -> tuple[Rate, ...]:
    """Return the coverage of each class, in the order of the classes.

    Parameters
    ----------
    sets : LabelSets
        One set for each test point; for ordinal labels use ``intervals.labels(C)``.
    labels : array_like, shape (n,)
        The true labels.
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
    _check_some(sets)
    n, n_classes = sets.mask.shape
    y = as_labels(labels, n, n_classes)
    covered = sets.cover(y)
    each = (covered[y == label] for label in range(n_classes))
    return tuple(Rate(n=len(own), hits=int(own.sum()), level=level) for own in each)


def by_size(
    sets: LabelSets | Intervals,
    y: npt.ArrayLike,
    cuts: Sequence[float] | None = None,
    level: float = 0.95,
) -> tuple[Stratum, ...]:
    """Return the coverage of sets of like size.

    Parameters
    ----------
    sets : LabelSets or Intervals
        One set for each test point.
    y : array_like, shape (n,)
        The true labels or values.
    cuts : sequence of float, optional
        Increasing positive sizes c_1 < ... < c_m at which [0, +inf] is cut into m + 1 ranges.
        Without them sets of labels are told apart by their exact size; intervals need them.
    level : float, optional
        Confidence of the intervals of the coverages.

    Returns
    -------
    tuple of Stratum
        By increasing size: each size that occurs, or each range, where n may be 0.

    Raises
    ------
    InputError
        If there are no test points, intervals come without cuts, cuts do not increase, or y does
        not fit the sets.
    """
    _check_some(sets)
    sizes, covered = sets.sizes(), sets.cover(y)
    if cuts is None:
        if isinstance(sets, Intervals):
            raise InputError("cuts must be given for intervals, for example [0.5, 1, 2]")
        edges = [(float(size), float(size)) for size in np.unique(sizes)]
        place = np.unique(sizes, return_inverse=True)[1]
    else:
        inner = as_floats(cuts, "cuts", (None,))
        if not len(inner) or not (np.diff(inner, prepend=0.0) > 0).all():
            raise InputError("cuts must be positive and increase, for example [0.5, 1, 2]")
        ends = [0.0, *inner.tolist(), np.inf]
        edges = list(pairwise(ends))
        place = np.searchsorted(inner, sizes, side="right")
    each = (covered[place == i] for i in range(len(edges)))
    return tuple(
        Stratum(n=len(own), hits=int(own.sum()), level=level, smallest=smallest, largest=largest)
        for own, (smallest, largest) in zip(each, edges, strict=True)
    )


def _check_some(sets: LabelSets | Intervals) -> None:
    """Refuse to measure nothing."""
    if not len(sets):
        raise InputError("there are no test points: coverage needs at least one")
