"""How the rows of any dataset are divided, and the random streams that do it."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from fedwqcp.errors import InputError

Floats: TypeAlias = npt.NDArray[np.float64]
Labels: TypeAlias = npt.NDArray[np.int64]
Indices: TypeAlias = npt.NDArray[np.int64]
"""Row numbers in increasing order."""


def iid(n: int, shares: Sequence[float], rng: Generator) -> tuple[Indices, ...]:
    """Divide rows at random, without regard to what they hold."""
    weights = np.asarray(shares, dtype=np.float64)
    return tuple(np.sort(part) for part in _cut(rng.permutation(n), weights / weights.sum()))


def by_label(
    labels: npt.ArrayLike, n_agents: int, rng: Generator, *, beta: float
) -> tuple[Indices, ...]:
    """Divide rows with Dirichlet label skew.

    For each class the agents' shares are drawn from Dir(beta, ..., beta), and the shuffled rows of
    the class are cut at the cumulative shares. An agent may end up without rows.
    """
    if not (beta > 0 and isfinite(beta)):
        raise InputError(f"beta must be positive and finite, got {beta}")
    groups = np.asarray(labels)
    parts: list[list[Indices]] = [[] for _ in range(n_agents)]
    for group in np.unique(groups):
        rows = rng.permutation(np.flatnonzero(groups == group))
        shares = rng.dirichlet(np.full(n_agents, beta))
        for part, cut in zip(parts, _cut(rows, shares), strict=True):
            part.append(cut)
    nothing = np.empty(0, dtype=np.int64)
    return tuple(np.sort(np.concatenate([nothing, *part])) for part in parts)


def by_mix(
    labels: npt.ArrayLike, n_agents: int, points: int, rng: Generator, *, beta: float
) -> tuple[Indices, ...]:
    """Give every agent the same number of rows, and a label mix of its own.

    An agent's mix is the share of each class times a Gamma(beta) number, which is what `by_label`
    gives an agent before rows run out. Here a class that is used up is replaced by rows of the
    others, drawn at random, so that mixes come closer together where most rows are used.
    """
    groups = np.asarray(labels)
    if n_agents * points > len(groups) or min(n_agents, points) < 1:
        raise InputError(
            f"there must be at least one agent with one row and {n_agents} x {points} rows, "
            f"got {len(groups)}"
        )
    classes, counts = np.unique(groups, return_counts=True)
    rows = [rng.permutation(np.flatnonzero(groups == c)) for c in classes]
    used = np.zeros_like(counts)
    parts = []
    for _ in range(n_agents):
        weights: Floats = counts * rng.gamma(beta, size=len(classes))
        if not weights.sum():  # all underflow at a tiny beta
            weights = counts.astype(np.float64)
        take = np.minimum(rng.multinomial(points, weights / weights.sum()), counts - used)
        take += rng.multivariate_hypergeometric(counts - used - take, points - int(take.sum()))
        own = [r[u : u + n] for r, u, n in zip(rows, used, take, strict=True)]
        parts.append(np.sort(np.concatenate(own)))
        used += take
    return tuple(parts)


def fit_clusters(features: npt.ArrayLike, rng: Generator, *, n_clusters: int) -> Any:
    """Return scikit-learn's k-means of some rows, at least one, fitted from one start."""
    from sklearn.cluster import KMeans

    x = np.asarray(features, dtype=np.float64)
    start = int(rng.integers(2**31))
    distinct = len(np.unique(x, axis=0))
    return KMeans(min(n_clusters, distinct), n_init=1, random_state=start).fit(x)


def by_quantity(n: int, n_agents: int, rng: Generator, *, beta: float) -> tuple[Indices, ...]:
    """Divide rows with Dirichlet quantity skew: agents differ in how much they have, not in what.

    The agents' shares of all rows are drawn from Dir(beta, ..., beta), and the shuffled rows are
    cut at the cumulative shares. An agent may end up without rows.
    """
    return by_label(np.zeros(n, dtype=np.int64), n_agents, rng, beta=beta)


def _cut(rows: Indices, shares: Floats) -> list[Indices]:
    """Cut rows at the cumulative shares, rounded to whole rows."""
    ends = np.rint(np.cumsum(shares)[:-1] * len(rows)).astype(np.int64)
    return np.split(rows, ends)


def stream(seed: int, *names: str) -> Generator:
    """Return the generator that belongs to a seed and a list of names.

    The same seed and names always give the same numbers; other names give independent ones.

    Examples
    --------
    >>> stream(0, "train", "a").random() == stream(0, "train", "a").random()
    True
    >>> stream(0, "train", "a").random() == stream(0, "train", "b").random()
    False
    """
    key = tuple(word for name in names for word in _words(name))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def _words(name: str) -> tuple[int, ...]:
    """Hash a name to four words; the fixed length keeps ("ab", "c") and ("a", "bc") apart."""
    digest = blake2b(name.encode(), digest_size=16).digest()
    return tuple(int(word) for word in np.frombuffer(digest, dtype="<u4"))
