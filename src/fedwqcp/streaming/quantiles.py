"""Exact conformal thresholds of a stream, in one pass or two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf

import numpy.typing as npt

from fedwqcp.quantile import Overflow, check_overflow, conformal_rank
from fedwqcp.streaming.passes import order_statistics
from fedwqcp.streaming.tail import CAPACITY, Tail


def conformal_quantiles(
    source: Iterable[npt.ArrayLike],
    alphas: Sequence[float],
    overflow: Overflow = "propagate",
    *,
    capacity: int = CAPACITY,
    progress: Callable[[int], object] | None = None,
) -> tuple[float, ...]:
    """Return the split-conformal thresholds of scores that come in batches.

    One pass is enough while floor((n + 1) alpha) is at most ``capacity`` for every level; see
    `Tail`. Beyond that, a source that can be read again (a list, or `scores_of` a source that can)
    is read a second time; an iterator that is spent is refused with the capacity that would have
    been enough.

    Parameters
    ----------
    source : iterable
        Batches of scores, each of shape (b,).
    alphas : sequence of float
        Miscoverage levels; the largest decides how many scores must be kept.
    overflow : {"propagate", "clip", "exclude"}, optional
        The value where the rank passes n, as `conformal_quantile` has it.
    capacity : int, optional
        How many of the largest scores are kept; memory is at most 16 bytes for each.
    progress : callable, optional
        Called after each batch with the number of scores so far.

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
    batches = iter(source)
    tail = Tail(capacity)
    for batch in batches:
        tail.update(batch)
        if progress is not None:
            progress(tail.n)
    n = tail.n
    ranks = [conformal_rank(n, alpha) for alpha in alphas]
    deep = [rank for rank in ranks if n + 1 - rank > capacity]
    found: dict[int, float] = {}
    if deep and batches is not source:
        found = dict(zip(deep, order_statistics(source, deep, capacity), strict=True))
    thresholds = []
    for rank in ranks:
        beyond = rank > n and (overflow != "clip" or not n)
        at = min(rank, n)
        thresholds.append(inf if beyond else found[at] if at in found else tail.order_statistic(at))
    return tuple(thresholds)
