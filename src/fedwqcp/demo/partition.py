"""How rows are divided between agents: alike, or skewed in labels or in inputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from fedwqcp.arrays import as_floats
from fedwqcp.errors import InputError, MissingExtraError

Indices: TypeAlias = npt.NDArray[np.int64]
"""Row numbers in increasing order."""


def iid(n: int, shares: Sequence[float], rng: Generator) -> tuple[Indices, ...]:
    """Divide rows at random, without regard to what they hold.

    Parameters
    ----------
    n : int
        Number of rows.
    shares : sequence of float
        The share of each part; taken relative to their sum.
    rng : numpy.random.Generator
        Source of the shuffle.

    Returns
    -------
    tuple of Indices
        One array for each share; every row is in exactly one.

    Raises
    ------
    InputError
        If shares are negative, or none is positive.
    """
    weights = as_floats(shares, "shares", (None,))
    if not (np.all(weights >= 0) and weights.sum() > 0):
        raise InputError("shares must not be negative and not all be 0")
    return tuple(np.sort(part) for part in _cut(rng.permutation(n), weights / weights.sum()))


def by_label(
    labels: npt.ArrayLike, n_agents: int, rng: Generator, *, beta: float
) -> tuple[Indices, ...]:
    """Divide rows with Dirichlet label skew.

    For each class the agents' shares are drawn from Dir(beta, ..., beta), and the shuffled rows of
    the class are cut at the cumulative shares. An agent may end up without rows.

    Parameters
    ----------
    labels : array_like, shape (n,)
        A class, or any other group, for each row.
    n_agents : int
        Number of agents.
    rng : numpy.random.Generator
        Source of shares and shuffles.
    beta : float
        Concentration: near 0 a class goes to one agent, large values divide it evenly.

    Returns
    -------
    tuple of Indices
        One array for each agent; every row is in exactly one.

    Raises
    ------
    InputError
        If ``n_agents`` or ``beta`` is not positive.
    """
    if n_agents < 1:
        raise InputError(f"n_agents must be at least 1, got {n_agents}")
    if not (beta > 0 and isfinite(beta)):
        raise InputError(f"beta must be positive and finite, got {beta}")
    groups = np.asarray(labels)
    if groups.ndim != 1:
        raise InputError(f"labels must have shape (n,), got shape {groups.shape}")
    parts: list[list[Indices]] = [[] for _ in range(n_agents)]
    for group in np.unique(groups):
        rows = rng.permutation(np.flatnonzero(groups == group))
        shares = rng.dirichlet(np.full(n_agents, beta))
        for part, cut in zip(parts, _cut(rows, shares), strict=True):
            part.append(cut)
    nothing = np.empty(0, dtype=np.int64)
    return tuple(np.sort(np.concatenate([nothing, *part])) for part in parts)


def by_cluster(
    features: npt.ArrayLike, n_agents: int, rng: Generator, *, beta: float, n_clusters: int = 10
) -> tuple[Indices, ...]:
    """Divide rows with Dirichlet skew over k-means clusters of their features.

    Parameters
    ----------
    features : array_like, shape (n, d)
        The inputs, on one scale.
    n_agents : int
        Number of agents.
    rng : numpy.random.Generator
        Source of the clusters' start, shares and shuffles.
    beta : float
        Concentration, as in `by_label`.
    n_clusters : int, optional
        Number of clusters; at most one per distinct row is used.

    Returns
    -------
    tuple of Indices
        One array for each agent; every row is in exactly one.

    Raises
    ------
    InputError
        If a number is not positive.
    MissingExtraError
        If scikit-learn is not installed.
    """
    try:
        from sklearn.cluster import KMeans
    except ImportError as error:
        raise MissingExtraError("dividing rows by clusters", "demo") from error
    x = as_floats(features, "features", (None, None))
    if n_clusters < 1:
        raise InputError(f"n_clusters must be at least 1, got {n_clusters}")
    if len(x) == 0:
        return by_label(np.empty(0, dtype=np.int64), n_agents, rng, beta=beta)
    start = int(rng.integers(2**31))
    distinct = len(np.unique(x, axis=0))
    means = KMeans(min(n_clusters, distinct), n_init=1, random_state=start)
    return by_label(means.fit_predict(x), n_agents, rng, beta=beta)


def by_quantity(n: int, n_agents: int, rng: Generator, *, beta: float) -> tuple[Indices, ...]:
    """Divide rows with Dirichlet quantity skew: agents differ in how much they have, not in what.

    The agents' shares of all rows are drawn from Dir(beta, ..., beta), and the shuffled rows are
    cut at the cumulative shares. An agent may end up without rows.

    Parameters
    ----------
    n : int
        Number of rows.
    n_agents : int
        Number of agents.
    rng : numpy.random.Generator
        Source of shares and shuffle.
    beta : float
        Concentration: near 0 one agent has almost all rows, large values divide them evenly.

    Returns
    -------
    tuple of Indices
        One array for each agent; every row is in exactly one.

    Raises
    ------
    InputError
        If ``n_agents`` or ``beta`` is not positive.
    """
    return by_label(np.zeros(n, dtype=np.int64), n_agents, rng, beta=beta)


def _cut(rows: Indices, shares: npt.NDArray[np.float64]) -> list[Indices]:
    """Cut rows at the cumulative shares, rounded to whole rows."""
    ends = np.rint(np.cumsum(shares)[:-1] * len(rows)).astype(np.int64)
    return np.split(rows, ends)
