"""A sample in a few weighted points, and the order statistic that several of them give."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

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
            raise InputError("must be as many as values", field="weights")
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
    point is the largest score; equal ones are one point."""
    ranks = sketch_ranks(len(scores), points, min_gap)
    last = dict(zip(order_statistics(scores, ranks), ranks, strict=True))  # rank of each value
    gaps = np.diff([0, *last.values()]).tolist()
    return WeightedPoints(tuple(last), tuple(gaps), len(scores))


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


def pooled_quantile(summaries: Sequence[WeightedPoints], rank: int) -> float:
    """Return the smallest point of all agents whose cumulative weight reaches a rank."""
    points = sorted(p for s in summaries for p in zip(s.values, s.weights, strict=True))
    reached = 0
    for value, weight in points:
        reached += weight
        if reached >= rank:
            return value
    return inf
