"""Exact conformal thresholds of a stream of scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Floats, as_floats, as_scores
from fedwqcp.errors import InputError
from fedwqcp.quantile import Overflow, check_overflow, threshold_rank

_CAPACITY = 2**24
"""How many of the largest scores are kept: at alpha = 0.05 enough for 335 million."""


class Tail:
    """The largest scores of a stream of unknown length, and thresholds from them: one pass, exact.

    Parameters
    ----------
    capacity : int, optional
        How many of the largest scores are kept; up to twice as many are held, 8 bytes each.

    Notes
    -----
    **Exact.** The threshold is the r-th smallest of n scores, r = ceil((n + 1)(1 - alpha)), which
    is the k-th largest with k = n + 1 - r = floor((n + 1) alpha). The m largest of a stream are the
    m largest of (the m largest so far and what is new): a score with m larger ones before it is not
    among them, whatever follows. So after any batch the m largest of all are here, in any order of
    the stream, and the threshold is among them as long as floor((n + 1) alpha) <= m. Beyond that it
    is refused, never guessed: no method that reads a stream of unknown length once, and keeps less
    than all of it, can be exact for every order (the next scores may all be small).

    Examples
    --------
    >>> tail = Tail()
    >>> for batch in ([0.3, 0.1], [0.2, 0.4]):
    ...     tail.update(batch)
    >>> tail.n, tail.threshold(0.2)
    (4, 0.4)
    """

    def __init__(self, capacity: int = _CAPACITY) -> None:
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
        rank = threshold_rank(self.n, alpha, overflow)
        return inf if rank is None else self.order_statistic(rank)

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


_DIGIT = 16
_ROOM = 2**23
"""How many scores may be collected, 8 bytes each, instead of counted once more."""


def order_statistics(
    source: Iterable[npt.ArrayLike], ranks: Iterable[int], room: int = _ROOM
) -> tuple[float, ...]:
    """Return the rank-th smallest scores of a source that gives the same batches again.

    A score is a word of 64 bits that is ordered as the scores are. The first pass counts the
    highest 16 bits; each further pass keeps the scores that share the bits known so far, if they
    fit the room, or counts their next 16 bits. For each rank two passes are enough unless very many
    scores are close together, and four always.

    Parameters
    ----------
    source : iterable
        Batches of scores; iterating again must give the same scores.
    ranks : iterable of int
        Counted from 1.
    room : int, optional
        How many scores may be collected for each rank.

    Returns
    -------
    tuple of float
        One score for each rank.

    Raises
    ------
    InputError
        If a rank is not from 1 to n, or the source gave other scores the second time.

    Examples
    --------
    >>> order_statistics([[0.3, 0.1], [0.2, 0.4]], [1, 3])
    (0.1, 0.3)
    """
    return tuple(_find(source, rank, room) for rank in ranks)


def _find(source: Iterable[npt.ArrayLike], rank: int, room: int) -> float:
    """Return the score of one rank: count 16 bits in a pass, until few scores share the bits."""
    prefix, left, size = 0, rank, None
    for known in range(0, 64, _DIGIT):
        if size is not None and size <= room:
            return _collected(source, prefix, known, left)
        counts = np.zeros(2**_DIGIT, np.int64)
        for batch in source:
            words = _words(as_scores(batch))
            if known:
                words = words[words >> np.uint64(64 - known) == prefix]
            digits = (words >> np.uint64(64 - known - _DIGIT)) & np.uint64(2**_DIGIT - 1)
            counts += np.bincount(digits.astype(np.int64), minlength=2**_DIGIT)
        reached = np.cumsum(counts)
        if not 1 <= left <= reached[-1]:
            _refuse(rank, known, int(reached[-1]))
        digit = int(np.searchsorted(reached, left))
        left -= int(reached[digit - 1]) if digit else 0
        size = int(counts[digit])
        prefix = prefix << _DIGIT | digit
    return float(_scores(np.array([prefix], np.uint64))[0])


def _collected(source: Iterable[npt.ArrayLike], prefix: int, known: int, left: int) -> float:
    """Collect the scores with the known bits and select among them."""
    parts = [np.empty(0)]
    for batch in source:
        values = as_scores(batch)
        parts.append(values[_words(values) >> np.uint64(64 - known) == prefix])
    found = np.concatenate(parts)
    if left > len(found):
        _refuse(left, known, len(found))
    return float(np.partition(found, left - 1)[left - 1])


def _words(values: Floats) -> npt.NDArray[np.uint64]:
    """Return floats as words of the same order; both zeros are one."""
    bits = (values + 0.0).view(np.uint64)
    top = np.uint64(2**63)
    return np.where(bits & top, ~bits, bits | top)


def _scores(words: npt.NDArray[np.uint64]) -> Floats:
    """Return the floats of such words."""
    top = np.uint64(2**63)
    return np.where(words & top, words ^ top, ~words).view(np.float64)


def _refuse(rank: int, known: int, n: int) -> None:
    """Say what is wrong with a rank, or with the source."""
    if known:
        raise InputError("the source must give the same scores each time it is read")
    raise InputError(f"rank must be from 1 to {n}, got {rank}")


def conformal_quantiles(
    source: Iterable[npt.ArrayLike],
    alphas: Sequence[float],
    overflow: Overflow = "propagate",
    *,
    capacity: int = _CAPACITY,
) -> tuple[float, ...]:
    """Return the split-conformal thresholds of scores that come in batches.

    One pass is enough while floor((n + 1) alpha) is at most ``capacity`` for every level; see
    `Tail`. Beyond that, a source that can be read again (a list, or `scores_of` a source that can)
    is read again, two to four times for each such level; an iterator that is spent is refused with
    the capacity that would have been enough.

    Parameters
    ----------
    source : iterable
        Batches of scores, each of shape (b,).
    alphas : sequence of float
        Miscoverage levels; the largest decides how many scores must be kept.
    overflow : {"propagate", "clip", "exclude"}, optional
        The value where the rank passes n, as `conformal_quantile` has it.
    capacity : int, optional
        How many of the largest scores are kept, in 16 bytes each at most.

    Returns
    -------
    tuple of float
        One threshold for each level, what `conformal_quantile` gives for all scores together.

    Raises
    ------
    InputError
        If a score or a level is unsound, or an iterator was too long for the capacity.

    Examples
    --------
    >>> conformal_quantiles(iter([[0.3, 0.1], [0.2]]), [0.3], overflow="clip")
    (0.3,)
    """
    check_overflow(overflow)
    levels = as_floats(alphas, "alphas", (None,)).tolist()
    batches = iter(source)
    tail = Tail(capacity)
    for batch in batches:
        tail.update(batch)
    ranks = [threshold_rank(tail.n, alpha, overflow) for alpha in levels]
    deep = [rank for rank in ranks if rank is not None and tail.n + 1 - rank > capacity]
    found: dict[int, float] = {}
    if deep and batches is not source:
        found = dict(zip(deep, order_statistics(source, deep, capacity), strict=True))
    return tuple(
        inf if rank is None else found[rank] if rank in found else tail.order_statistic(rank)
        for rank in ranks
    )
