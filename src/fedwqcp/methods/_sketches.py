"""A sample in a few weighted points, and the order statistic that several of them give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

import numpy as np

from fedwqcp.errors import InputError
from fedwqcp.methods._search import CountAt, Counts, check_probes
from fedwqcp.quantile import Scores, counts_up_to, order_statistics
from fedwqcp.wire.messages import (
    Real,
    Summary,
    check_increasing,
    check_scores,
    check_size,
    check_sizes,
)


class WeightedPoints(Summary):
    """One agent's sample as points, each standing for the scores just below it."""

    values: tuple[Real, ...]  # strictly increasing
    weights: tuple[int, ...]  # how many scores each stands for, at least 1; they sum to n
    n: int

    def __post_init__(self) -> None:
        check_size(self.n, "n")
        if len(self.values) != len(self.weights):
            raise InputError(
                f"must be as many as values, {len(self.values)}, got {len(self.weights)}",
                field="weights",
            )
        check_scores(self.values, "values")
        check_increasing(self.values, "values")
        check_sizes(self.weights, "weights")
        if 0 in self.weights or sum(self.weights) != self.n:
            raise InputError(f"must be at least 1 each and sum to n, {self.n}", field="weights")

    def sizes(self) -> tuple[int, ...]:
        return (self.n,)

    def scores(self) -> tuple[float, ...]:
        return self.values


def order_sketch(scores: Scores, points: int, min_gap: int) -> WeightedPoints:
    """Return evenly spaced order statistics, of ranks ceil(j n / m) for j = 1, ..., m.

    m is ``points``, or less where a point would stand for fewer than ``min_gap`` scores. The last
    point is the largest score."""
    ranks = sketch_ranks(len(scores), points, min_gap)
    gaps = np.diff([0, *ranks])
    return weighted_points(zip(order_statistics(scores, ranks), gaps, strict=True), 1)


def sketch_ranks(n: int, points: int, min_gap: int) -> tuple[int, ...]:
    """Return the ranks of the order statistics in a sketch of n scores."""
    m = sketch_size(n, points, min_gap)
    return tuple(-(-j * n // m) for j in range(1, m + 1))


def sketch_size(n: int, points: int, min_gap: int) -> int:
    """Return how many points stand for n scores: at most one for every ``min_gap`` of them."""
    return min(points, max(1, n // min_gap)) if n else 0


def counts_at(scores: Scores, question: CountAt, most: int, gap: int = 1) -> Counts:
    """Count the scores up to each of at most so many values; for a gap above 1, by the sketch."""
    check_probes(len(question.values), most)
    if gap == 1:
        return Counts(len(scores), tuple(counts_up_to(scores, question.values).tolist()))
    sketch = order_sketch(scores, len(scores), gap)
    known = np.cumsum([0, *sketch.weights])
    counts = known[np.searchsorted(np.array(sketch.values), question.values, side="right")]
    return Counts(len(scores), tuple(counts.tolist()))


def weighted_points(points: Iterable[tuple[float, Any]], min_gap: int) -> WeightedPoints:
    """Join neighbours until each point stands for enough scores; the larger value stays."""
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
    """Return the smallest point of all agents whose cumulative weight reaches a rank."""
    points = sorted(p for s in summaries for p in zip(s.values, s.weights, strict=True))
    reached = 0
    for value, weight in points:
        reached += weight
        if reached >= rank:
            return value
    return inf
