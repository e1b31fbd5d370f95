"""The largest scores of a stream, which is where conformal thresholds lie."""

from __future__ import annotations

from math import inf

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats, as_scores
from fedwqcp.errors import InputError
from fedwqcp.quantile import Overflow, check_overflow, conformal_rank

CAPACITY = 2**24
"""How many of the largest scores are kept: at alpha = 0.05 enough for 335 million."""


class Tail:
    """The largest scores of a stream of unknown length, and thresholds from them: one pass, exact.

    Parameters
    ----------
    capacity : int, optional
        How many of the largest scores are kept. Memory is at most twice that, 8 bytes each.

    Notes
    -----
    **Exact.** The threshold is the r-th smallest of n scores, r = ceil((n + 1)(1 - alpha)), which
    is the k-th largest with k = n + 1 - r = floor((n + 1) alpha). The m largest of a stream are the
    m largest of (the m largest so far and what is new): a score with m larger ones before it keeps
    them whatever follows. So after any batch the m largest of all are here, in any order of the
    stream, and the threshold is among them as long as floor((n + 1) alpha) <= m. Beyond that it is
    refused, never guessed: no method that reads a stream of unknown length once, and keeps less
    than all of it, can be exact for every order (the next scores may all be small).

    Examples
    --------
    >>> tail = Tail()
    >>> for batch in ([0.3, 0.1], [0.2, 0.4]):
    ...     tail.update(batch)
    >>> tail.n, tail.threshold(0.2)
    (4, 0.4)
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        if capacity < 1:
            raise InputError(f"capacity must be at least 1, got {capacity}")
        self.capacity = capacity
        self.n = 0
        self._kept = np.empty(0)
        self._held = 0

    def update(self, scores: npt.ArrayLike) -> None:
        """Take in a batch.

        Parameters
        ----------
        scores : array_like, shape (b,)
            Nonconformity scores.
        """
        values = as_scores(scores)
        self.n += len(values)
        for start in range(0, len(values), self.capacity):
            self._take(values[start : start + self.capacity])

    def merge(self, other: Tail) -> None:
        """Take in what another stream left; the result is that of both streams in one.

        Parameters
        ----------
        other : Tail
            Of the same capacity.
        """
        if other.capacity != self.capacity:
            raise InputError(f"capacity must be {self.capacity} as here, got {other.capacity}")
        self._take(other.largest())
        self.n += other.n

    def largest(self) -> Floats:
        """Return the largest scores, at most `capacity`, in no order.

        Returns
        -------
        Floats
            All scores, if there were no more.
        """
        self._shrink()
        return self._kept[: self._held].copy()

    def threshold(self, alpha: float, overflow: Overflow = "propagate") -> float:
        """Return the split-conformal threshold of all scores so far.

        Parameters
        ----------
        alpha : float
            Miscoverage level, strictly between 0 and 1.
        overflow : {"propagate", "clip", "exclude"}, optional
            The value where the rank passes n, as `conformal_quantile` has it.

        Returns
        -------
        float
            What `conformal_quantile` gives for all of them.

        Raises
        ------
        InputError
            If the threshold lies below the scores that were kept.
        """
        check_overflow(overflow)
        rank = conformal_rank(self.n, alpha)
        if rank > self.n and (overflow != "clip" or not self.n):
            return inf
        return self.order_statistic(min(rank, self.n))

    def order_statistic(self, rank: int) -> float:
        """Return the rank-th smallest of all scores so far, counted from 1.

        Parameters
        ----------
        rank : int
            From 1 to n, no further from n than `capacity`.

        Returns
        -------
        float
            One of the scores.

        Raises
        ------
        InputError
            If it lies below the scores that were kept.
        """
        from_top = self.n + 1 - rank
        if not 1 <= rank <= self.n:
            raise InputError(f"rank must be from 1 to {self.n}, got {rank}")
        if from_top > self.capacity:
            raise InputError(
                f"the threshold is the {from_top}-th largest score and {self.capacity} were kept: "
                f"pass capacity={from_top}, or a source that can be read twice"
            )
        self._shrink()
        at = self._held - from_top
        return float(np.partition(self._kept[: self._held], at)[at])

    def _take(self, values: Floats) -> None:
        """Append, making room first."""
        if self._held + len(values) > 2 * self.capacity:
            self._shrink()
        needed = self._held + len(values)
        if needed > len(self._kept):
            grown = np.empty(min(max(needed, 2 * len(self._kept), 1024), 2 * self.capacity))
            grown[: self._held] = self._kept[: self._held]
            self._kept = grown
        self._kept[self._held : needed] = values
        self._held = needed

    def _shrink(self) -> None:
        """Drop what cannot be among the largest."""
        if self._held > self.capacity:
            drop = self._held - self.capacity
            self._kept[: self._held].partition(drop)
            self._kept[: self.capacity] = self._kept[drop : self._held].copy()
            self._held = self.capacity
