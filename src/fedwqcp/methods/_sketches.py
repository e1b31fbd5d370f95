"""Sketches: a sample in a few weighted points, and the order statistic that several of them give.

KLL sketches and t-digests come from the library datasketches, which only this file knows. Only an
agent's own sketch is read with it; what it sends is readable points, so no message reaches it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Any

import numpy as np

from fedwqcp._validation import Floats
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.methods._base import check_probes
from fedwqcp.methods._search import CountAt, Counts
from fedwqcp.wire.messages import Summary, check_increasing, check_scores, check_size, check_sizes


@dataclass(frozen=True)
class WeightedPoints(Summary):
    """One agent's sample as points, each standing for the scores just below it."""

    values: tuple[float, ...]  # strictly increasing
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


@dataclass(frozen=True)
class PooledScores(WeightedPoints):
    """Every score of an agent, with how often it occurs: what the exact form sends."""

    reveals = "samples"


def order_sketch(scores: Floats, points: int, min_gap: int) -> WeightedPoints:
    """Return evenly spaced order statistics, of ranks ceil(j n / m) for j = 1, ..., m.

    m is ``points``, or less where a point would stand for fewer than ``min_gap`` scores. The last
    point is the largest score."""
    n = len(scores)
    m = sketch_size(n, points, min_gap)
    ranks = [-(-j * n // m) for j in range(1, m + 1)]
    ordered = np.sort(scores)
    gaps = np.diff([0, *ranks])
    return weighted_points(((ordered[r - 1], gap) for r, gap in zip(ranks, gaps, strict=True)), 1)


def sketch_size(n: int, points: int, min_gap: int) -> int:
    """Return how many points stand for n scores: at most one for every ``min_gap`` of them."""
    return min(points, max(1, n // min_gap)) if n else 0


def counts_at(scores: Floats, question: CountAt, most: int, gap: int = 1) -> Counts:
    """Count the scores up to each of at most so many values; for a gap above 1, by the sketch."""
    check_probes(len(question.values), most)
    points, known = np.sort(scores), np.arange(len(scores) + 1)
    if gap > 1:
        sketch = order_sketch(scores, len(scores), gap)
        points, known = np.array(sketch.values), np.cumsum([0, *sketch.weights])
    found = known[np.searchsorted(points, question.values, side="right")]
    return Counts(len(scores), tuple(found.tolist()))


def pooled_scores(scores: Floats) -> PooledScores:
    """Return the distinct scores of a sample and their counts."""
    values, counts = np.unique(scores, return_counts=True)
    return PooledScores(tuple(values.tolist()), tuple(counts.tolist()), len(scores))


def weighted_points(points: Iterable[tuple[float, int]], min_gap: int) -> WeightedPoints:
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


KLL_SIZE = 200
"""The parameter k of a KLL sketch; up to this many scores it holds them all."""

TDIGEST_SIZE = 100
"""The parameter k of a t-digest, about the number of its centroids."""


def kll_sketch(scores: Floats, min_gap: int) -> WeightedPoints:
    """Return the points of a KLL sketch; its random choices cannot be seeded."""
    finite, beyond = _parts(scores)
    sketch = _library("kll").kll_doubles_sketch(KLL_SIZE)
    sketch.update(finite)
    return weighted_points([*_topped(sorted(sketch), finite), *beyond], min_gap)


def kll_error(n: int) -> int:
    """Return by how many ranks a KLL sketch of n scores may be wrong, with confidence 99 %.

    The library's own fit to measured errors, 2.296 / k^0.9723 of n; none while it holds all scores.
    """
    return ceil(n * 2.296 / KLL_SIZE**0.9723) if n > KLL_SIZE else 0


def tdigest_sketch(scores: Floats, min_gap: int) -> WeightedPoints:
    """Return the centroids of a t-digest."""
    finite, beyond = _parts(scores)
    digest = _library("tdigest").tdigest_double(TDIGEST_SIZE)
    digest.update(finite)
    digest.compress()
    low, high = (finite[0], finite[-1]) if len(finite) else (0.0, 0.0)
    means = sorted((min(max(mean, low), high), w) for mean, w in centroids(digest.serialize()))
    return weighted_points([*_topped(means, finite), *beyond], min_gap)


def centroids(data: bytes) -> list[tuple[float, int]]:
    """Read the centroids from what an agent's own t-digest wrote; never from a message.

    The layout, little-endian: eight bytes of which the first is the number of 8-byte words of the
    preamble, the second the version 1, the third the family 20 and the sixth flags (1 empty,
    2 a single value). Where there are several values: the number of centroids and of buffered
    values (uint32), the minimum and maximum (float64), then (mean float64, weight uint64) each.
    """
    if len(data) < 8 or data[1] != 1 or data[2] != 20:
        raise InputError(
            "the installed datasketches writes t-digests of another version; use sketch='order'"
        )
    if data[5] & 1:
        return []
    if data[5] & 2:
        return [(struct.unpack_from("<d", data, 8)[0], 1)]
    (count,) = struct.unpack_from("<I", data, 8)
    return [struct.unpack_from("<dQ", data, 32 + 16 * i) for i in range(count)]


def _parts(scores: Floats) -> tuple[Floats, list[tuple[float, int]]]:
    """Split a sample into its finite part, sorted, and one point for the scores of +inf."""
    finite = np.sort(scores[scores < inf])
    beyond = len(scores) - len(finite)
    return finite, [(inf, beyond)] if beyond else []


def _topped(points: list[tuple[float, int]], finite: Floats) -> list[tuple[float, int]]:
    """Put the largest score in the place of the largest point."""
    return [*points[:-1], (float(finite[-1]), points[-1][1])] if points else []


def _library(sketch: str) -> Any:
    """Import datasketches, which only agents with such a sketch need."""
    try:
        import datasketches
    except ImportError:
        raise MissingExtraError(f"fcp with sketch={sketch!r}", "sketch") from None
    return datasketches
