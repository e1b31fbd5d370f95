"""A sample in a few weighted points, and the order statistic that several of them give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.wire.payload import Summary, check_score, check_size


@dataclass(frozen=True)
class WeightedPoints(Summary):
    """One agent's sample as points, each standing for the scores just below it.

    Parameters
    ----------
    values : tuple of float
        The points, strictly increasing.
    weights : tuple of int
        How many scores each stands for, at least 1; they sum to n.
    n : int
        Sample size, at least 0.
    """

    values: tuple[float, ...]
    weights: tuple[int, ...]
    n: int

    def __post_init__(self) -> None:
        check_size(self.n, "n")
        if len(self.values) != len(self.weights):
            raise InputError(
                f"weights: must be as many as values, {len(self.values)}, got {len(self.weights)}"
            )
        for value in self.values:
            check_score(value, "values")
        if any(after <= before for before, after in pairwise(self.values)):
            raise InputError("values: must be strictly increasing")
        for weight in self.weights:
            check_size(weight, "weights")
        if 0 in self.weights or sum(self.weights) != self.n:
            raise InputError(f"weights: must be at least 1 each and sum to n, {self.n}")

    def sizes(self) -> tuple[int, ...]:
        return (self.n,)

    def scores(self) -> tuple[float, ...]:
        return self.values


@dataclass(frozen=True)
class PooledScores(WeightedPoints):
    """Every score of an agent, with how often it occurs: what the exact form sends."""

    reveals = "samples"


def order_sketch(scores: Floats, points: int, min_gap: int) -> WeightedPoints:
    """Return evenly spaced order statistics, of ranks ceil(j n / m) for j = 1, ..., m.

    m is ``points``, or less where a point would stand for fewer than ``min_gap`` scores. The last
    point is the largest score.

    Parameters
    ----------
    scores : Floats, shape (n,)
        The sample.
    points : int
        Most points, at least 1.
    min_gap : int
        Fewest scores of a point, unless n is less.

    Returns
    -------
    WeightedPoints
        The points; tied ones are joined.
    """
    n = len(scores)
    m = sketch_size(n, points, min_gap)
    ranks = [-(-j * n // m) for j in range(1, m + 1)]
    ordered = np.sort(scores)
    gaps = np.diff([0, *ranks])
    return weighted_points(((ordered[r - 1], gap) for r, gap in zip(ranks, gaps, strict=True)), 1)


def sketch_size(n: int, points: int, min_gap: int) -> int:
    """Return how many points stand for n scores: at most one for every ``min_gap`` of them."""
    return min(points, max(1, n // min_gap)) if n else 0


def counts_at(scores: Floats, values: Sequence[float], gap: int) -> tuple[int, ...]:
    """Return how many scores are at most each value; for a gap above 1, as the sketch counts."""
    if gap == 1:
        return tuple(np.searchsorted(np.sort(scores), values, side="right").tolist())
    sketch = order_sketch(scores, len(scores), gap)
    known = np.concatenate(([0], np.cumsum(sketch.weights, dtype=np.int64)))
    return tuple(known[np.searchsorted(sketch.values, values, side="right")].tolist())


def pooled_scores(scores: Floats) -> PooledScores:
    """Return the whole sample.

    Parameters
    ----------
    scores : Floats, shape (n,)
        The sample.

    Returns
    -------
    PooledScores
        Its distinct scores and their counts.
    """
    values, counts = np.unique(scores, return_counts=True)
    return PooledScores(tuple(values.tolist()), tuple(counts.tolist()), len(scores))


def weighted_points(points: Iterable[tuple[float, int]], min_gap: int) -> WeightedPoints:
    """Join neighbours until each point stands for enough scores; the larger value stays.

    Parameters
    ----------
    points : iterable of tuple
        Value and weight, in increasing order of value.
    min_gap : int
        Fewest scores of a point, unless there are fewer in all.

    Returns
    -------
    WeightedPoints
        The points; tied ones are joined.
    """
    joined: list[tuple[float, int]] = []
    for value, weight in points:
        if joined and (joined[-1][1] < min_gap or joined[-1][0] == value):
            joined[-1] = (float(value), joined[-1][1] + int(weight))
        else:
            joined.append((float(value), int(weight)))
    if len(joined) > 1 and joined[-1][1] < min_gap:
        value, weight = joined.pop()
        joined[-1] = (value, joined[-1][1] + weight)
    return WeightedPoints(
        tuple(v for v, _ in joined), tuple(w for _, w in joined), sum(w for _, w in joined)
    )


def pooled_quantile(summaries: Sequence[WeightedPoints], rank: int) -> float:
    """Return the smallest point of all agents whose cumulative weight reaches a rank.

    Parameters
    ----------
    summaries : sequence of WeightedPoints
        One for each agent.
    rank : int
        At least 1.

    Returns
    -------
    float
        The point, or +inf where all weight together does not reach the rank.
    """
    points = sorted(p for s in summaries for p in zip(s.values, s.weights, strict=True))
    reached = 0
    for value, weight in points:
        reached += weight
        if reached >= rank:
            return value
    return inf
