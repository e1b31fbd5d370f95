"""A sample in a fixed number of points, with a bound on the error of every rank."""

from __future__ import annotations

from math import inf

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats, as_scores
from fedwqcp.errors import InputError
from fedwqcp.quantile import Overflow, check_overflow, conformal_rank


class RankSketch:
    """Weighted points of a stream; sketches of several streams merge into one.

    Buffers of ``size`` sorted scores; two of one weight become one of twice the weight, which keeps
    every second score (Munro and Paterson 1980; Manku, Rajagopalan and Lindsay 1998). Always the
    larger of a pair is kept, so that a point stands for itself and scores below it: thresholds err
    upwards alone. Nothing is random.

    Parameters
    ----------
    size : int, optional
        Scores of a buffer, even.

    Attributes
    ----------
    n : int
        Scores so far.
    error : int
        Bound on the error of a rank: a threshold of rank r lies between the r-th and the
        (r + error)-th smallest score. It is at most n log2(n / size) / (2 size), and known exactly.

    Examples
    --------
    >>> sketch = RankSketch(size=4)
    >>> sketch.update(np.arange(1.0, 17.0))
    >>> sketch.error, sketch.threshold(0.5)
    (4, 12.0)
    """

    def __init__(self, size: int = 2**14) -> None:
        if size < 2 or size % 2:
            raise InputError(f"size must be an even number of at least 2, got {size}")
        self.size = size
        self.n = 0
        self.error = 0
        self._pending: list[Floats] = []
        self._waiting = 0
        self._levels: dict[int, Floats] = {}

    def update(self, scores: npt.ArrayLike) -> None:
        """Take in a batch.

        Parameters
        ----------
        scores : array_like, shape (b,)
            Nonconformity scores.
        """
        values = as_scores(scores)
        self.n += len(values)
        self._wait(values)

    def merge(self, other: RankSketch) -> None:
        """Take in the sketch of another stream; errors add.

        Parameters
        ----------
        other : RankSketch
            Of the same size.
        """
        if other.size != self.size:
            raise InputError(f"size must be {self.size} as here, got {other.size}")
        self.n += other.n
        self.error += other.error
        for level, buffer in sorted(other._levels.items()):
            self._add(level, buffer)
        for values in other._pending:
            self._wait(values)

    def points(self) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Return the points in increasing order, and how many scores each stands for.

        Returns
        -------
        tuple
            Values and weights; the weights sum to n.
        """
        parts = [*self._pending, *self._levels.values()]
        weights = [0] * len(self._pending) + list(self._levels)
        values = np.concatenate(parts) if parts else np.empty(0)
        counts = np.repeat([2**level for level in weights], [len(part) for part in parts])
        order = np.argsort(values, kind="stable")
        return values[order], counts.astype(np.int64)[order]

    def threshold(self, alpha: float, overflow: Overflow = "propagate") -> float:
        """Return a threshold no smaller than the exact one, and at most `error` ranks above it.

        Parameters
        ----------
        alpha : float
            Miscoverage level, strictly between 0 and 1.
        overflow : {"propagate", "clip", "exclude"}, optional
            The value where the rank passes n, as `conformal_quantile` has it.

        Returns
        -------
        float
            One of the scores, or +inf.
        """
        check_overflow(overflow)
        rank = conformal_rank(self.n, alpha)
        if rank > self.n and (overflow != "clip" or not self.n):
            return inf
        values, weights = self.points()
        return float(values[np.searchsorted(np.cumsum(weights), min(rank, self.n))])

    def _wait(self, values: Floats) -> None:
        """Hold scores until they fill buffers."""
        self._pending.append(values.copy())
        self._waiting += len(values)
        if self._waiting < self.size:
            return
        waiting = np.concatenate(self._pending)
        whole = self._waiting - self._waiting % self.size
        for start in range(0, whole, self.size):
            self._add(0, np.sort(waiting[start : start + self.size]))
        self._pending = [waiting[whole:].copy()]
        self._waiting -= whole

    def _add(self, level: int, buffer: Floats) -> None:
        """Add a buffer; two of one level become one of the next."""
        while level in self._levels:
            both = np.concatenate([self._levels.pop(level), buffer])
            both.sort(kind="stable")
            buffer = both[1::2]  # the larger of each pair
            self.error += 2**level  # at most one score of this weight is counted late
            level += 1
        self._levels[level] = buffer
