"""KLL sketches and t-digests as weighted points. The one place that knows datasketches.

Only an agent's own sketch is ever read here, and what it sends is readable points: no bytes of a
message reach the library.
"""

from __future__ import annotations

import struct
from math import ceil, inf
from typing import Any

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.methods._sketch import WeightedPoints, weighted_points

KLL_SIZE = 200
"""The parameter k of a KLL sketch; up to this many scores it holds them all."""

TDIGEST_SIZE = 100
"""The parameter k of a t-digest, about the number of its centroids."""


def kll_sketch(scores: Floats, min_gap: int) -> WeightedPoints:
    """Return the points of a KLL sketch; its random choices cannot be seeded.

    Parameters
    ----------
    scores : Floats, shape (n,)
        The sample.
    min_gap : int
        Fewest scores of a point, unless n is less.

    Returns
    -------
    WeightedPoints
        The points, the largest score last.

    Raises
    ------
    MissingExtraError
        If the library is not installed.
    """
    finite, beyond = _parts(scores)
    sketch = _library("kll").kll_doubles_sketch(KLL_SIZE)
    sketch.update(finite)
    return weighted_points([*_topped(sorted(sketch), finite), *beyond], min_gap)


def kll_error(n: int) -> int:
    """Return by how many ranks a KLL sketch of n scores may be wrong, with confidence 99 %.

    The library's own fit to measured errors, 2.296 / k^0.9723 of n; none while it holds all scores.

    Parameters
    ----------
    n : int
        Sample size.

    Returns
    -------
    int
        The error.
    """
    return ceil(n * 2.296 / KLL_SIZE**0.9723) if n > KLL_SIZE else 0


def tdigest_sketch(scores: Floats, min_gap: int) -> WeightedPoints:
    """Return the centroids of a t-digest.

    Parameters
    ----------
    scores : Floats, shape (n,)
        The sample.
    min_gap : int
        Fewest scores of a point, unless n is less.

    Returns
    -------
    WeightedPoints
        The points, the largest score last.

    Raises
    ------
    MissingExtraError
        If the library is not installed.
    """
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

    Parameters
    ----------
    data : bytes
        A compressed t-digest of doubles.

    Returns
    -------
    list of tuple
        Mean and weight of each centroid.

    Raises
    ------
    InputError
        If the installed library writes another layout.
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
