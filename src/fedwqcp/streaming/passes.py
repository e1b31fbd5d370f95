"""Order statistics of scores that can be read more than once: exact, in almost no memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats, as_scores
from fedwqcp.errors import InputError

_DIGIT = 16
ROOM = 2**23
"""How many scores may be collected, 8 bytes each, instead of counted once more."""


def order_statistics(
    source: Iterable[npt.ArrayLike], ranks: Iterable[int], room: int = ROOM
) -> tuple[float, ...]:
    """Return the rank-th smallest scores of a source that gives the same batches again.

    A score is a word of 64 bits that is ordered as the scores are. The first pass counts the
    highest 16 bits; each further pass keeps the scores that share the bits known so far, if they
    fit the room, or counts their next 16 bits. Two passes are enough unless very many scores are
    close together, and four always.

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


def count(source: Iterable[npt.ArrayLike]) -> int:
    """Return how many scores a source gives.

    Parameters
    ----------
    source : iterable
        Batches of scores.

    Returns
    -------
    int
        Their number.
    """
    return sum(len(as_scores(batch)) for batch in source)


def _find(source: Iterable[npt.ArrayLike], rank: int, room: int) -> float:
    """Narrow down one rank."""
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
