"""The paper's theory on data: Theorem 1, Propositions 1 and 2, and a bound without densities.

`decompose` says what a coverage gap owes to shift and what to averaging thresholds. The bounds are
computed from what the caller states; nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedwqcp.errors import InputError
from fedwqcp.quantile import conformal_rank, exact_level, order_statistic
from fedwqcp.wire.messages import check_scores

SUM_TOLERANCE = 1e-9
"""How far the sum of a distribution may be from 1."""


@dataclass(frozen=True)
class ShiftBound:
    """How far pooled coverage may be from 1 - alpha under label shift.

    Parameters
    ----------
    distances : tuple of float
        Total variation distance of each agent's label distribution from that of the test data; NaN
        for an agent without points, which has weight zero.
    value : float
        Proposition 1: the size-weighted mean of the distances, plus 1 / (N + 1).
    pooled : float
        The sharper step of its proof: the distance of the pooled distribution, plus 1 / (N + 1).
    """

    distances: tuple[float, ...]
    value: float
    pooled: float


def total_variation(p: npt.ArrayLike, q: npt.ArrayLike) -> float:
    """Return the total variation of two distributions on C classes, half their L1 distance.

    Parameters
    ----------
    p, q : array_like, shape (C,)
        Non-negative numbers that sum to 1.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    InputError
        If one is no distribution, or they differ in length.

    Examples
    --------
    >>> total_variation([0.5, 0.5, 0.0], [0.25, 0.25, 0.5])
    0.5
    """
    first = _as_distribution(p, "p", None)
    return float(np.abs(first - _as_distribution(q, "q", len(first))).sum() / 2)


def label_shift_bound(counts: npt.ArrayLike, test_distribution: npt.ArrayLike) -> ShiftBound:
    """Return the bound of Proposition 1 under label shift.

    sum_k (n_k / N) d_TV(P_k, P_test) + 1 / (N + 1). Under label shift agents and test data share
    the distribution of the input given the label, so the distance of the joint distributions is
    that of the label distributions.

    Parameters
    ----------
    counts : array_like, shape (M, C)
        Calibration points of each agent in each class. Their shares are taken as the agent's label
        distribution; where they are a sample of it, the bound is that of the sample.
    test_distribution : array_like, shape (C,)
        Probabilities of the classes at test time.

    Returns
    -------
    ShiftBound
        The bound and the distances it is made of. A value above max(alpha, 1 - alpha) says nothing.

    Raises
    ------
    InputError
        If counts are no counts, all are zero, or the test distribution is none.

    Notes
    -----
    The bound concerns the *oracle* pooled threshold, the conformal quantile of N points drawn from
    the mixture of all agents. It says nothing of an averaged threshold. Its part 1 / (N + 1) needs
    almost surely distinct scores: deterministic APS, which piles up at 1, may over-cover by more.

    Examples
    --------
    >>> bound = label_shift_bound([[60, 0], [10, 29]], [0.5, 0.5])
    >>> [round(d, 4) for d in bound.distances], round(bound.value, 4), round(bound.pooled, 4)
    ([0.5, 0.2436], 0.409, 0.2171)
    """
    table = _floats(counts, "counts", (None, None))
    if (table < 0).any() or (table != np.floor(table)).any() or not table.sum():
        raise InputError("counts must be integers of at least 0, some of them positive")
    test = _as_distribution(test_distribution, "test_distribution", table.shape[1])
    sizes = table.sum(axis=1)
    N = sizes.sum()
    gaps = np.abs(table - sizes[:, None] * test).sum(axis=1) / 2  # n_k times the distance
    shares = np.divide(gaps, sizes, out=np.full_like(gaps, np.nan), where=sizes > 0)
    pooled = np.abs(table.sum(axis=0) / N - test).sum() / 2
    return ShiftBound(
        distances=tuple(shares.tolist()),
        value=float(gaps.sum() / N + 1 / (N + 1)),
        pooled=float(pooled + 1 / (N + 1)),
    )


def stability_bound(
    thresholds: npt.ArrayLike, sizes: npt.ArrayLike, *, least_density: float, most_density: float
) -> float:
    """Return the bound of Proposition 2 on the distance of averaged and mixture quantile.

    (L / c) sum_j sum_k (n_j / N)(n_k / N) abs(q_j - q_k).

    Parameters
    ----------
    thresholds : array_like, shape (M,)
        Population quantiles q_k of the agents, all at one level.
    sizes : array_like, shape (M,)
        Their sizes n_k.
    least_density : float
        c: the mixture's density is at least c from the smallest to the largest q_k.
    most_density : float
        L: no agent's density is above L there.

    Returns
    -------
    float
        The bound, in the unit of the score.

    Raises
    ------
    InputError
        If shapes differ, no size is positive, or 0 < c <= L < inf does not hold.

    Notes
    -----
    c and L are assumptions of the caller; scores with atoms have neither. Where L / c is large,
    `spread_bound` is smaller and assumes nothing.

    Examples
    --------
    >>> round(stability_bound([0.8, 0.9], [300, 100], least_density=1, most_density=2), 6)
    0.075
    """
    q = _floats(thresholds, "thresholds", (None,))
    n = _floats(sizes, "sizes", (len(q),))
    if (n < 0).any() or not n.sum():
        raise InputError("sizes must be at least 0, some of them positive")
    if not 0 < least_density <= most_density < np.inf:
        raise InputError(
            "densities must satisfy 0 < least_density <= most_density < inf, "
            f"got {least_density} and {most_density}"
        )
    weights = n / n.sum()
    apart = np.abs(q[:, None] - q)
    return float(most_density / least_density * (weights @ apart @ weights))


def spread_bound(thresholds: npt.ArrayLike) -> float:
    """Return max q_k - min q_k, which bounds abs(q_avg - q_mix) without any density.

    Parameters
    ----------
    thresholds : array_like, shape (M,)
        Quantiles q_k of the agents that have weight, all at one level.

    Returns
    -------
    float
        The bound, in the unit of the score.

    Raises
    ------
    InputError
        If there is none, or one is not finite.

    Notes
    -----
    Both the average and the mixture quantile lie between the extreme q_k when all are taken at the
    same level. Conformal thresholds of small agents sit at ranks above it, so the mixture quantile
    may then fall below all of them.

    Examples
    --------
    >>> round(spread_bound([0.09, 0.9]), 6)
    0.81
    """
    q = _floats(thresholds, "thresholds", (None,))
    if not len(q):
        raise InputError("thresholds must hold at least one number, got none")
    return float(np.ptp(q))


def _floats(
    values: npt.ArrayLike, what: str, shape: tuple[int | None, ...]
) -> npt.NDArray[np.float64]:
    """Return finite numbers of a shape, in which None stands for any length."""
    array = np.asarray(values, dtype=np.float64)
    lengths = zip(shape, array.shape, strict=False)
    fits = array.ndim == len(shape) and all(want in (None, have) for want, have in lengths)
    if not fits or not np.isfinite(array).all():
        raise InputError(f"must be finite numbers of shape {shape}, got {array.shape}", field=what)
    return array


def _scores(scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return scores, which may be +inf."""
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim != 1 or not (array > -np.inf).all():
        raise InputError("must be one number above -inf for each point", field="scores")
    return array


def _as_distribution(
    distribution: npt.ArrayLike, what: str, n_classes: int | None
) -> npt.NDArray[np.float64]:
    """Return a distribution on the classes, or say what is wrong."""
    values = _floats(distribution, what, (n_classes,))
    if (values < 0).any() or abs(values.sum() - 1) > SUM_TOLERANCE:
        raise InputError(
            f"{what} must hold probabilities that sum to 1, got a sum of {values.sum():.6g}; "
            "divide counts by their sum"
        )
    return values


@dataclass(frozen=True)
class Decomposition:
    """One agent's coverage gap and its two parts; ``total <= shift + aggregation``.

    Parameters
    ----------
    agent : str
        Its name.
    level : float
        1 - alpha.
    coverage : float
        Share of test scores at or below the averaged threshold.
    coverage_mix : float
        Share of test scores at or below the mixture quantile.
    """

    agent: str
    level: float
    coverage: float
    coverage_mix: float

    @property
    def total(self) -> float:
        """Distance of the coverage from the level."""
        return abs(self.coverage - self.level)

    @property
    def shift(self) -> float:
        """What even the mixture quantile misses: calibration and test data differ."""
        return abs(self.coverage_mix - self.level)

    @property
    def aggregation(self) -> float:
        """What averaging thresholds changes against the mixture quantile."""
        return abs(self.coverage - self.coverage_mix)


def mixture_quantile(scores: Mapping[str, npt.ArrayLike], alpha: float) -> float:
    """Return the (1 - alpha)-quantile of the mixture of the agents' empirical distributions.

    The mixture weighs agent k by n_k / N, so this is the ceil(N (1 - alpha))-th smallest of all N
    scores. It needs every score in one place: a yardstick for studies, not a protocol.

    Parameters
    ----------
    scores : mapping of str to array_like, shape (n_k,)
        Calibration scores of each agent.
    alpha : float
        Miscoverage level.

    Returns
    -------
    float
        One of the scores.

    Raises
    ------
    InputError
        If no agent has scores, a score is NaN or -inf, or alpha is not between 0 and 1.

    Examples
    --------
    >>> mixture_quantile({"a": [0.1, 0.2, 0.3], "b": [0.4, 0.5]}, alpha=0.2)
    0.4
    """
    pooled = np.concatenate([np.empty(0), *(_scores(own) for own in scores.values())])
    if not len(pooled):
        raise InputError("scores must hold at least one score: nothing has no quantile")
    return order_statistic(pooled, conformal_rank(len(pooled), alpha, extra=0))


def decompose(
    test_scores: Mapping[str, npt.ArrayLike], q_hat: float, q_mix: float, alpha: float
) -> tuple[Decomposition, ...]:
    """Split each agent's coverage gap into shift and aggregation (Theorem 1).

    ``|F(q_hat) - (1 - alpha)| <= |F(q_mix) - (1 - alpha)| + |F(q_hat) - F(q_mix)|``, where F is the
    empirical distribution of the agent's test scores.

    Parameters
    ----------
    test_scores : mapping of str to array_like, shape (m_k,)
        Scores of each agent's test points at their true labels.
    q_hat : float
        The averaged threshold; +inf is allowed.
    q_mix : float
        The mixture quantile, as `mixture_quantile` gives it.
    alpha : float
        Miscoverage level.

    Returns
    -------
    tuple of Decomposition
        One for each agent, in the order of the mapping.

    Raises
    ------
    InputError
        If an agent has no test scores, or a number is not valid.

    Notes
    -----
    The theorem is the triangle inequality: it locates a gap and bounds nothing by itself.

    Examples
    --------
    >>> found, = decompose({"a": [0.1, 0.2, 0.3, 0.4]}, q_hat=0.1, q_mix=0.2, alpha=0.25)
    >>> found.total, found.shift, found.aggregation
    (0.5, 0.25, 0.25)
    """
    check_scores((q_hat, q_mix), "q_hat and q_mix")
    level = float(exact_level(alpha))
    found = []
    for agent, own in test_scores.items():
        values = _scores(own)
        if not len(values):
            raise InputError(f"agent {agent!r} has no test scores: coverage needs at least one")
        covered, covered_mix = (float(np.mean(values <= q)) for q in (q_hat, q_mix))
        found.append(Decomposition(agent, level, covered, covered_mix))
    return tuple(found)
