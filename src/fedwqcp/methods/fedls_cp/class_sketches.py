"""An agent's scores of each class in a few order statistics, and the distributions they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from functools import lru_cache
from itertools import pairwise
from math import ceil, inf

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Floats, Labels
from fedwqcp.errors import InputError
from fedwqcp.wire.messages import LocalQuantile, Summary, check_score, check_size

MOST_POINTS = 48
"""Order statistics of a class: with five digits each and the count they stay below 600 bytes."""

TAIL = 4
"""Two thirds of the points lie among the largest TAIL * alpha of the scores."""

ROUNDING = 1e-4
"""Most that rounding up to five digits adds to a score, as a share of it."""

_FIVE_DIGITS = Context(prec=5, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class ClassSketches(Summary):
    """How many points an agent has of each class, and some of their scores in order.

    Parameters
    ----------
    counts : tuple of int
        Points of each class.
    values : tuple of tuple of float
        For each class the scores at the ranks of `ranks_of`, rounded up; none where it has too few
        points.
    """

    exact_threshold = False

    counts: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.values):
            raise InputError("must be one tuple for each count", field="values")
        for n, found in zip(self.counts, self.values, strict=True):
            check_size(n, "counts")
            for value in found:
                check_score(value, "values")
            if len(found) > n:
                raise InputError("must be at most as many as the class has points", field="values")
            if any(after < before for before, after in pairwise(found)):
                raise InputError("must not decrease within a class", field="values")

    def sizes(self) -> tuple[int, ...]:
        return (sum(self.counts),)

    def scores(self) -> tuple[float, ...]:
        sent = (value for found in self.values for value in found)
        # the least score that a rounded one can stand for: the largest may round past its bound
        return tuple(v - ROUNDING * abs(v) if v < inf else v for v in sent)


@dataclass(frozen=True)
class SketchesAndThreshold(ClassSketches):
    """The same, and the agent's own threshold, where a floor is asked for.

    Parameters
    ----------
    counts, values : tuple
        As in `ClassSketches`.
    threshold : float
        q_k, as FedWQ-CP asks for it; +inf where the rank passes the sample.
    """

    exact_threshold = True

    threshold: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_score(self.threshold, "threshold")
        largest = max((found[-1] for found in self.values if found), default=-inf)
        every = all(found or not n for n, found in zip(self.counts, self.values, strict=True))
        if every and largest < self.threshold < inf:
            raise InputError("must be one of the scores, or +inf", field="threshold")

    def scores(self) -> tuple[float, ...]:
        return (*super().scores(), self.threshold)

    @property
    def local(self) -> LocalQuantile:
        """What FedWQ-CP asks for."""
        return LocalQuantile(self.threshold, sum(self.counts))


@lru_cache(maxsize=4096)
def ranks_of(
    n: int, alpha: float, points: int, min_gap: int, min_class: int = 1
) -> tuple[int, ...]:
    """Return which order statistics of n scores are sent; agents and server compute the same.

    Two thirds of the points are spread evenly over the largest 4 alpha n scores, the others over
    the rest; the last one is n. Each stands for at least ``min_gap`` scores, unless n is less.

    Examples
    --------
    >>> ranks_of(100, 0.05, points=6, min_gap=5)
    (40, 80, 85, 90, 95, 100)
    """
    if n < max(1, min_class):
        return ()
    tail = min(n, max(min_gap, ceil(min(1.0, TAIL * alpha) * n)))
    body = n - tail
    high = max(1, min(ceil(2 * points / 3), tail // min_gap))
    low = min(points - high, body // min_gap)
    ranks = [-(-i * body // low) for i in range(1, low + 1)]
    return tuple(ranks + [body - (-i * tail // high) for i in range(1, high + 1)])


def sketch_classes(
    scores: Floats, labels: Labels, n_classes: int, alpha: float, limits: tuple[int, ...]
) -> ClassSketches:
    """Return what an agent sends; ``limits`` are the last three arguments of `ranks_of`."""
    counts, values = [], []
    for c in range(n_classes):
        own = np.sort(scores[labels == c])
        ranks = ranks_of(len(own), alpha, *limits)
        counts.append(len(own))
        values.append(tuple(rounded_up(float(own[r - 1])) for r in ranks))
    return ClassSketches(tuple(counts), tuple(values))


def rounded_up(score: float) -> float:
    """Return the least number of five digits that is not below a score.

    Examples
    --------
    >>> rounded_up(0.12345678), rounded_up(0.25)
    (0.12346, 0.25)
    """
    if score == inf:
        return score
    return max(score, float(_FIVE_DIGITS.create_decimal(repr(score))))


Ranks = npt.NDArray[np.int64]

MOST_READ = 2**24
"""Most numbers in a table of all agents, classes and places."""


@dataclass(frozen=True, eq=False)
class Cell:
    """The scores of one class at one agent, as the server knows them.

    Parameters
    ----------
    values : Floats, shape (p,)
        Order statistics, in order; some may be equal.
    ranks : Ranks, shape (p,)
        Their ranks, the last one n.
    """

    values: Floats
    ranks: Ranks

    @property
    def n(self) -> int:
        """Points of the class; 0 where too few for any to be sent."""
        return int(self.ranks[-1]) if len(self.ranks) else 0

    @property
    def steps(self) -> Ranks:
        """How many scores each sent score stands for: itself, and those since the one before."""
        return np.diff(self.ranks, prepend=0)

    def at_least(self, q: Floats) -> Floats:
        """Return how many scores are surely at most q: those that a sent score up to q stands for.

        Shapes: q (m,) -> (m,).
        """
        known = np.concatenate(([0], self.ranks))
        return known[np.searchsorted(self.values, q, side="right")].astype(np.float64)

    def about(self, q: Floats, low: float) -> Floats:
        """Return about how many scores are at most q.

        The scores between two that were sent are taken to be spread evenly there, and those before
        the first one between ``low`` and it.

        Shapes: q (m,) -> (m,).
        """
        values = np.concatenate(([low], self.values))
        after = np.searchsorted(self.values, q, side="right") + 1
        found = self.at_least(q)
        inside = (after < len(values)) & (q > low)
        i = after[inside]
        share = (q[inside] - values[i - 1]) / (values[i] - values[i - 1])
        between = self.steps[i - 1] - 1
        found[inside] += share * between
        return found


def read_cells(
    summary: ClassSketches, alpha: float, limits: tuple[int, ...]
) -> tuple[Cell, ...] | None:
    """Return the classes of one agent; None where it sent other than the scores at its ranks."""
    cells = []
    for n, values in zip(summary.counts, summary.values, strict=True):
        ranks = ranks_of(n, alpha, *limits)
        if len(ranks) != len(values):
            return None
        cells.append(Cell(np.array(values, dtype=np.float64), np.array(ranks, dtype=np.int64)))
    return tuple(cells)


def grid_of(agents: Sequence[Sequence[Cell]]) -> Floats:
    """Return the places that thresholds are chosen from: the scores sent, or some of very many."""
    cells = [cell for found in agents for cell in found]
    every = np.unique(np.concatenate([cell.values for cell in cells]))
    most = min(4096, MOST_READ // len(cells))
    if len(every) <= most:
        return every
    return np.asarray(every[np.linspace(0, len(every) - 1, most).astype(np.int64)])
