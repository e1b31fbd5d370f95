"""Who of several agents is least like the others: the part of Rob-FCP that finds liars.

Each agent's scores are characterised by a vector v_k, the shares of its sample in H bins. An
agent's maliciousness is the sum of its distances to the M_b - 1 agents that are nearest to it, M_b
being the number of honest ones: an honest agent has so many honest ones around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from fedwqcp.arrays import Floats


def bin_edges(low: float, high: float, bins: int) -> tuple[float, ...]:
    """Return the values that cut a range into bins, of which the outer two have no end.

    Parameters
    ----------
    low, high : float
        Where most scores lie; both finite.
    bins : int
        How many, at least 3.

    Returns
    -------
    tuple of float
        ``bins - 1`` values, strictly increasing; fewer where the range has no room for them.

    Examples
    --------
    >>> bin_edges(0.0, 1.0, 6)
    (0.0, 0.25, 0.5, 0.75, 1.0)
    """
    cuts = bins - 2
    return tuple(sorted({low * (1 - j / cuts) + high * (j / cuts) for j in range(cuts + 1)}))


def vectors(cumulative: Floats, sizes: Sequence[int]) -> Floats:
    """Return the shares of every agent's scores in the bins.

    Parameters
    ----------
    cumulative : Floats, shape (M, H - 1)
        How many of its scores are at most each edge.
    sizes : sequence of int
        Sample sizes, at least 1.

    Returns
    -------
    Floats, shape (M, H)
        Each row sums to 1.
    """
    n = np.array(sizes, dtype=np.float64)
    counts = np.diff(np.column_stack([np.zeros_like(n), cumulative, n]), axis=1)
    return np.asarray(counts / n[:, None])


def by_maliciousness(v: Floats, liars: int) -> list[int]:
    """Return the agents, those that are most like their neighbours first.

    Parameters
    ----------
    v : Floats, shape (M, H)
        Characterisation vectors.
    liars : int
        How many agents lie, less than M / 2.

    Returns
    -------
    list of int
        Places of the agents; the last ``liars`` are those to leave out. Equals keep their order,
        by their vectors.

    Examples
    --------
    >>> by_maliciousness(np.array([[0.5, 0.5], [0.0, 1.0], [0.4, 0.6], [0.6, 0.4]]), liars=1)
    [0, 2, 3, 1]
    """
    M = len(v)
    distances = np.sqrt(np.square(v[:, None] - v[None]).sum(axis=2))
    nearest = np.sort(distances, axis=1)[:, : M - liars]  # the first is its own, 0
    maliciousness = nearest.sum(axis=1)
    return sorted(range(M), key=lambda k: (maliciousness[k], *v[k]))


def estimated_liars(v: Floats, most: int) -> int:
    """Return the number of liars under which honest vectors are likeliest and the others least.

    For each number z the M - z least malicious agents are taken for honest, with a normal law
    fitted to their vectors; z maximises their mean log-likelihood less that of the z others. With
    fewer agents than bins only one variance for all bins can be fitted, and the difference is then
    the others' mean squared distance from the honest mean in units of the honest ones' own.

    Parameters
    ----------
    v : Floats, shape (M, H)
        Characterisation vectors.
    most : int
        Largest number to consider.

    Returns
    -------
    int
        From 1 to ``most``, the smallest of equally good ones; 0 where ``most`` is.

    Examples
    --------
    >>> honest, liars = np.eye(5) / 10 + 0.18, np.eye(5)[:2]
    >>> estimated_liars(np.vstack([honest, liars]), most=3)
    2
    """
    best, found = -1.0, 0
    for z in range(1, most + 1):
        order = by_maliciousness(v, z)
        honest, others = order[: len(v) - z], order[len(v) - z :]
        squares = np.square(v - v[honest].mean(axis=0)).sum(axis=1)
        spread = max(float(squares[honest].mean()), np.finfo(np.float64).tiny)
        if squares[others].mean() / spread > best:
            best, found = float(squares[others].mean()) / spread, z
    return found


def copies(cumulative: Floats, sizes: Sequence[int], fewest: int) -> list[int]:
    """Return the agents whose whole answer another one gave before.

    Parameters
    ----------
    cumulative : Floats, shape (M, H - 1)
        How many of an agent's scores are at most each edge.
    sizes : sequence of int
        Sample sizes.
    fewest : int
        A smaller sample is left alone: small honest ones may agree by chance.

    Returns
    -------
    list of int
        All but the first of those that agree.
    """
    answers = [(n, *row) for n, row in zip(sizes, cumulative.tolist(), strict=True)]
    return [k for k, own in enumerate(answers) if own[0] >= fewest and own in answers[:k]]


def coverage_loss(bins: int, n: int, honest: int, liars: int, beta: float = 0.05) -> float:
    """Return the most coverage that liars cost Rob-FCP, with probability 1 - beta.

    H z / (2 sqrt(n)) (1 + 2 tau / (1 - tau)), with z the normal quantile at 1 - beta / (2 H M_b)
    and tau = M_m / M_b, for M_b honest agents of n scores from one law and M_m < M_b liars.

    Parameters
    ----------
    bins : int
        H.
    n : int
        Scores of an honest agent, at least 1; the fewest, where they differ.
    honest, liars : int
        M_b, at least 1, and M_m.
    beta : float, optional
        Probability with which it may be more.

    Returns
    -------
    float
        At most 1, which says nothing.

    Examples
    --------
    >>> round(coverage_loss(bins=20, n=10**6, honest=4, liars=2), 3)
    0.103
    """
    from scipy.special import ndtri

    if liars >= honest:
        return 1.0
    z = float(ndtri(1 - beta / (2 * bins * honest)))
    tau = liars / honest
    return min(1.0, bins * z / (2 * sqrt(n)) * (1 + 2 * tau / (1 - tau)))
