"""The coverage law of a quantile of local quantiles, for scores that are i.i.d. across agents.

Agent j gives its l_j-th smallest of n_j scores; the server takes the k-th smallest of those m
values. Measured by the scores' common law, agent j's value is Beta(l_j, n_j - l_j + 1), with CDF
G_j(u) = I_u(l_j, n_j - l_j + 1). The coverage of the result is therefore at most u with the chance
that at least k of independent Bernoulli(G_j(u)) succeed, and its mean is

    M = 1 - integral_0^1 P(at least k successes among Bernoulli(G_j(u))) du.

For equal l and n that chance is I_{G(u)}(k, m - k + 1). Tied scores only raise the coverage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats
from fedwqcp.methods._quadrature import NODES, WEIGHTS, integrate

GUARD = 1e-10
"""A coverage this close below the level has reached it: exact hits must count despite rounding."""

_LEVELS = np.array([1e-12, 1e-8, 1e-5, 1e-3, 0.02, 0.15, 0.5])  # and their mirror images


class Pair(NamedTuple):
    """A local rank l, a rank k among agents, and the coverage that they give."""

    rank: int
    k: int
    coverage: float


def mean_coverages(
    ranks: Sequence[int],
    sizes: Sequence[int],
    ks: Sequence[int] | None = None,
    tolerance: float = 1e-14,
) -> Floats:
    """Return the mean coverage M of the k-th smallest local order statistic, for every k.

    Parameters
    ----------
    ranks, sizes : sequence of int
        l_j from 1 to n_j, and n_j of at least 1, of each agent.
    ks : sequence of int, optional
        The k that must be accurate; all by default.
    tolerance : float, optional
        Error of one panel of the quadrature. The default makes M accurate to about 1e-12.

    Returns
    -------
    Floats, shape (m,)
        M for k = 1, ..., m; it increases.

    Examples
    --------
    >>> float(mean_coverages([10] * 5, [10] * 5)[2].round(8))  # 20000 / 21607
    0.92562595
    """
    columns = None if ks is None else [k - 1 for k in ks]
    ends = _bends(ranks, sizes)
    return integrate(lambda u: _fewer(u, ranks, sizes), ends, tolerance, columns)


def choose_k(
    ranks: Sequence[int], sizes: Sequence[int], level: float, delta: float | None = None
) -> tuple[int, float] | None:
    """Return the smallest k whose coverage reaches a level, where agents chose their own ranks.

    Parameters
    ----------
    ranks, sizes : sequence of int
        l_j from 1 to n_j, and n_j of at least 1, of each agent.
    level : float
        1 - alpha.
    delta : float, optional
        Ask that coverage given the data reaches the level with probability 1 - delta, rather than
        in the mean.

    Returns
    -------
    tuple of int and float, or None
        k, and its mean coverage or, with delta, the delta-quantile of its coverage. None where even
        k = m falls short.
    """
    if delta is None:
        return _smallest_k(ranks, sizes, level)
    reached = np.flatnonzero(_shortfalls(ranks, sizes, level) <= delta + GUARD)
    if not len(reached):
        return None
    k = int(reached[0]) + 1
    low, high = 0.0, 1.0
    for _ in range(50):  # the chance of coverage <= t grows with t: halve to 1e-15
        middle = (low + high) / 2
        below = _shortfalls(ranks, sizes, middle)[k - 1] <= delta
        low, high = (middle, high) if below else (low, middle)
    return k, (low + high) / 2


def choose_pair(m: int, n: int, level: float, delta: float | None = None) -> Pair | None:
    """Return the pair (l, k) of least coverage that reaches a level, for m agents of n scores each.

    Parameters
    ----------
    m : int
        Number of agents, at least 1.
    n : int
        Scores of each, at least 1.
    level : float
        1 - alpha.
    delta : float, optional
        Ask that coverage given the data reaches the level with probability 1 - delta, rather than
        in the mean.

    Returns
    -------
    Pair or None
        The smaller l, then the smaller k among equals; None where no pair reaches the level.

    Examples
    --------
    >>> choose_pair(5, 10, 0.9)[:2]
    (10, 3)
    >>> choose_pair(6, 3, 0.95) is None
    True
    """
    k = np.arange(1, m + 1)

    def coverage(rank: npt.NDArray[np.int64]) -> Floats:
        if delta is None:
            return pair_coverages(rank, k, m, n)
        return _pair_quantile(np.full((m, 1), delta), rank, k, m, n)[:, 0]

    low, high = np.ones(m, np.int64), np.full(m, n + 1)  # per k, the smallest l lies in low..high
    while (low < high).any():
        middle = np.minimum((low + high) // 2, n)
        enough = coverage(middle) >= level - GUARD
        still = low < high
        low = np.where(still & ~enough, middle + 1, low)
        high = np.where(still & enough, middle, high)
    found = low <= n
    if not found.any():
        return None
    reached = np.where(found, coverage(np.minimum(low, n)), np.inf)
    ties = np.flatnonzero(reached <= reached.min() + 1e-12)
    at = min(ties, key=lambda i: (low[i], i))
    return Pair(int(low[at]), int(at) + 1, float(reached[at]))


def pair_coverages(rank: npt.NDArray[np.int64], k: npt.NDArray[np.int64], m: int, n: int) -> Floats:
    """Return M_{l,k} for pairs (l, k), each by quadrature between quantiles of its own law.

    Parameters
    ----------
    rank, k : array of int, shape (p,)
        The pairs.
    m, n : int
        Number of agents, and of scores of each.

    Returns
    -------
    Floats, shape (p,)
        M_{l,k}, accurate to about 1e-12.
    """
    from scipy.special import betainc

    levels = np.concatenate([_LEVELS, 1 - _LEVELS[-2::-1]])
    bends = _pair_quantile(np.broadcast_to(levels, (len(k), len(levels))), rank, k, m, n)
    ends = np.hstack([np.zeros((len(k), 1)), bends, np.ones((len(k), 1))])
    half = np.diff(ends)[..., None] / 2
    u = ends[:, :-1, None] + half * (1 + NODES)
    l_, k_ = rank[:, None, None], k[:, None, None]
    exceeds = 1.0 - betainc(k_, m - k_ + 1, betainc(l_, n - l_ + 1, u))
    return np.asarray((exceeds * half * WEIGHTS).sum(axis=(1, 2)))


def _smallest_k(
    ranks: Sequence[int], sizes: Sequence[int], level: float
) -> tuple[int, float] | None:
    """Find the smallest k whose mean coverage reaches the level: roughly, then exactly nearby."""
    rough = mean_coverages(ranks, sizes, tolerance=1e-8)
    near = np.flatnonzero(np.abs(rough - level) < 1e-4)
    near = np.append(near, min(int((rough < level).sum()), len(rough) - 1))
    means = mean_coverages(ranks, sizes, ks=[int(i) + 1 for i in near])
    reached = np.flatnonzero(means >= level - GUARD)
    return (int(reached[0]) + 1, float(means[reached[0]])) if len(reached) else None


def _pair_quantile(
    level: Floats, rank: npt.NDArray[np.int64], k: npt.NDArray[np.int64], m: int, n: int
) -> Floats:
    """Quantiles of the coverage of pairs (l, k): a Beta quantile of a Beta quantile."""
    from scipy.special import betaincinv

    among = betaincinv(k[:, None], m - k[:, None] + 1, level)
    return np.asarray(betaincinv(rank[:, None], n - rank[:, None] + 1, among))


def _shortfalls(ranks: Sequence[int], sizes: Sequence[int], level: float) -> Floats:
    """P(coverage given the data <= level) for every k; it decreases."""
    return np.asarray(1.0 - _fewer(np.array([level]), ranks, sizes)[0])


def _fewer(u: Floats, ranks: Sequence[int], sizes: Sequence[int]) -> Floats:
    """P(fewer than k successes), shape (len(u), m), by adding one agent after another."""
    from scipy.special import betainc

    pairs, agents = np.unique(np.array([ranks, sizes]), axis=1, return_counts=True)
    chances = []
    for some in np.array_split(u, len(u) // 64 + 1):  # small enough for the processor's cache
        chance = np.zeros((agents.sum() + 1, len(some)))  # of exactly i successes so far
        chance[0], i = 1.0, 0
        for rank, n, times in zip(*pairs, agents, strict=True):
            success = betainc(rank, n - rank + 1, some)
            for _ in range(times):
                i += 1
                chance[1 : i + 1] += success * (chance[:i] - chance[1 : i + 1])
                chance[0] *= 1 - success
        chances.append(chance[:-1])
    return np.asarray(np.minimum(np.cumsum(np.hstack(chances), axis=0), 1.0).T)


def _bends(ranks: Sequence[int], sizes: Sequence[int]) -> Floats:
    """Break points to begin with: tails of three agents, and a ladder away from the sharpest.

    Agents at one level bend near one place, the larger the more sharply. On the ladder no panel is
    wide beside its distance from there, so no tail can hide between its end and its first node.
    """
    from scipy.special import betaincinv

    pairs = np.unique(np.array([sizes, ranks]), axis=1)
    n, rank = pairs[:, np.unique([0, pairs.shape[1] // 2, pairs.shape[1] - 1]), None]
    inner = betaincinv(rank, n - rank + 1, np.array([1e-15, 0.5, 1 - 1e-15]))
    low, middle, high = inner[-1]
    steps = 3.0 ** np.arange(1, 40)
    ladder = np.concatenate([middle - (middle - low) * steps, middle + (high - middle) * steps])
    ends = np.concatenate([[0.0, 1.0], inner.ravel(), ladder[(ladder > 0) & (ladder < 1)]])
    return np.unique(ends)
