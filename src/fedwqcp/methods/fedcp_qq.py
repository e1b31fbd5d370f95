"""FedCP-QQ: a quantile of the agents' local quantiles.

Agent j gives its l_j-th smallest of n_j scores; the server takes the k-th smallest of those m
values. For scores that are i.i.d. across agents, the coverage of agent j's value is
Beta(l_j, n_j - l_j + 1), with CDF G_j(u) = I_u(l_j, n_j - l_j + 1). The coverage of the result is
therefore at most u with the chance that at least k of independent Bernoulli(G_j(u)) succeed, and
its mean is

    M = 1 - integral_0^1 P(at least k successes among Bernoulli(G_j(u))) du.

For equal l and n that chance is I_{G(u)}(k, m - k + 1). Tied scores only raise the coverage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from fedwqcp._validation import Floats
from fedwqcp.errors import InputError
from fedwqcp.methods._base import LocalThresholds
from fedwqcp.quantile import Overflow, conformal_rank, exact_level
from fedwqcp.wire.messages import (
    LocalQuantile,
    Real,
    SharedThreshold,
    check_scores,
    check_size,
)
from fedwqcp.wire.release import Guarantee, GuaranteeKind

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(15)
"""The Gauss-Legendre rule on [-1, 1] that every panel uses."""


_GUARD = 1e-10
"""A coverage this close below the level has reached it: exact hits must count despite rounding."""


class QuantileOfQuantiles(SharedThreshold):
    """The threshold, +inf where no choice of ranks suffices, and how it was chosen.

    ``coverage`` is the expected coverage M; with delta, the level that coverage given the
    calibration data reaches with probability 1 - delta. It is 1 for +inf.
    """

    value: Real
    k: int  # the rank among agents; 0 where nothing suffices
    coverage: float

    def __post_init__(self) -> None:
        check_scores((self.value,), "value")
        check_size(self.k, "k")
        if not 0 <= self.coverage <= 1:
            raise InputError(f"must be from 0 to 1, got {self.coverage}", field="coverage")


NOTHING = QuantileOfQuantiles(inf, 0, 1.0)
"""Where no choice of ranks reaches the level."""


@dataclass(frozen=True)
class FedCPQQ(LocalThresholds):
    r"""The k-th smallest of the agents' local conformal thresholds.

    For scores that are i.i.d. across agents, its expected coverage is known exactly:
    M = 1 - integral_0^1 P(at least k successes among Bernoulli(G_j(u))) du, where
    G_j(u) = I_u(l_j, n_j - l_j + 1) and l_j = min(r(n_j, alpha), n_j). The server takes the
    smallest k for which M >= 1 - alpha. An agent without scores takes no part.

    Parameters
    ----------
    delta : float, optional
        Ask that coverage given the calibration data reaches 1 - alpha with probability 1 - delta,
        rather than in the mean.

    Notes
    -----
    **Idea**: sort the agents' local quantiles and take one of them. If all scores are i.i.d., its
    expected coverage is known exactly.

    .. math::

        \hat q = \bigl( s_{1,(\ell_1)}, \dots, s_{M,(\ell_M)} \bigr)_{(k)}, \qquad
        P(V \le \hat q) = 1 - \int_0^1 P\bigl( B_1(u) + \dots + B_M(u) \ge k \bigr) \, du, \qquad
        B_j(u) \sim \text{Bernoulli}\bigl( I_u(\ell_j, n_j - \ell_j + 1) \bigr)

    **Guarantee**: P(Y in C(X)) is at least this expected coverage, which is at least 1 - alpha, and
    equals it without ties, if scores are i.i.d. at and across agents. With ``delta``, coverage
    given the calibration data is at least 1 - alpha with probability at least 1 - delta.

    Under heterogeneity nothing is promised: which agent's quantile is returned is then decided by
    rounding. Neither threshold nor k need be monotone in alpha.

    **Cost**: one round; one float and one integer per agent. The outcome states k and coverage.

    **Fails**: under heterogeneity.

    References
    ----------
    Humbert, Le Bars, Bellet, Arlot (2023), arXiv:2302.06322, and (2024), arXiv:2405.12567.

    Examples
    --------
    >>> from fedwqcp import calibrate
    >>> agents = {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.2, 0.5, 0.6, 0.7, 0.8]}
    >>> release = calibrate(agents, method=FedCPQQ(), alpha=0.3)
    >>> release.threshold("a"), release.outcomes[0].k, round(release.outcomes[0].coverage, 4)
    (0.4, 1, 0.7333)
    """

    delta: float | None = None

    overflow: ClassVar[Overflow] = "clip"
    outcomes = (QuantileOfQuantiles,)

    def __post_init__(self) -> None:
        if self.delta is not None and not 0 < self.delta < 1:
            raise InputError(f"delta must be strictly between 0 and 1, got {self.delta!r}")

    def aggregate(self, summaries: Sequence[LocalQuantile], alpha: float) -> QuantileOfQuantiles:
        local = sorted((s.threshold, s.n) for s in summaries if s.n)
        sizes = [n for _, n in local]
        ranks = [min(conformal_rank(n, alpha), n) for n in sizes]
        chosen = choose_k(ranks, sizes, float(exact_level(alpha)), self.delta) if local else None
        if chosen is None:
            return NOTHING
        k, coverage = chosen
        return QuantileOfQuantiles(local[k - 1][0], k, coverage)

    @property
    def guarantee(self) -> Guarantee:
        """In the mean over calibration data or, with delta, given them."""
        kind: GuaranteeKind = "marginal-iid" if self.delta is None else "training-conditional"
        return Guarantee(kind, "finite-sample")

    @property
    def assumption(self) -> str:
        iid = "scores are independent and identically distributed, at and across agents"
        if self.delta is None:
            return iid
        return f"{iid}; coverage then reaches 1 - alpha with probability {1 - self.delta:g}"


def choose_k(
    ranks: Sequence[int], sizes: Sequence[int], level: float, delta: float | None = None
) -> tuple[int, float] | None:
    """Return the smallest k whose coverage reaches a level, where agents chose their own ranks.

    With ``delta``, coverage given the data must reach it with probability 1 - delta, and its
    delta-quantile comes with k in place of the mean. None where even k = m falls short.
    """
    if delta is None:
        means = mean_coverages(ranks, sizes)
        reached = np.flatnonzero(means >= level - _GUARD)
        return (int(reached[0]) + 1, float(means[reached[0]])) if len(reached) else None
    reached = np.flatnonzero(_shortfalls(ranks, sizes, level) <= delta + _GUARD)
    if not len(reached):
        return None
    k = int(reached[0]) + 1
    low, high = 0.0, 1.0
    for _ in range(50):  # the chance of coverage <= t grows with t: halve to 1e-15
        middle = (low + high) / 2
        below = _shortfalls(ranks, sizes, middle)[k - 1] <= delta
        low, high = (middle, high) if below else (low, middle)
    return k, (low + high) / 2


def mean_coverages(ranks: Sequence[int], sizes: Sequence[int]) -> Floats:
    """Return the mean coverage M of the k-th smallest local order statistic, for k = 1, ..., m.

    Examples
    --------
    >>> float(mean_coverages([10] * 5, [10] * 5)[2].round(8))  # 20000 / 21607
    0.92562595
    """
    return integrate(lambda u: _fewer(u, ranks, sizes), _bends(ranks, sizes), tolerance=1e-14)


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


def integrate(function: Callable[[Floats], Floats], ends: Floats, tolerance: float) -> Floats:
    """Integrate m functions from the first to the last break point.

    ``function`` takes points (p,) and gives values (p, m) of order 1. A panel is accepted once its
    two halves agree with the whole within the tolerance, and ten times as much relative to the
    panel's width, for rounding; the halves' sum is far more accurate than that difference.

    Examples
    --------
    >>> integrate(lambda u: np.stack([u, u**2], axis=1), np.array([0.0, 1.0]), 1e-14).round(12)
    array([0.5       , 0.33333333])
    """
    low, high = ends[:-1], ends[1:]
    whole, total = _gauss(function, low, high), 0.0
    while len(low):
        middle = (low + high) / 2
        low, high = np.stack([low, middle], 1).ravel(), np.stack([middle, high], 1).ravel()
        halves = _gauss(function, low, high)
        both = halves[0::2] + halves[1::2]
        allowed = tolerance * (1 + 10 * (high[1::2] - low[0::2]))
        settled = np.abs(both - whole).max(axis=1) <= allowed
        total = total + both[settled].sum(axis=0)
        again = np.repeat(~settled, 2)
        low, high, whole = low[again], high[again], halves[again]
    return np.asarray(total)


def _gauss(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Gauss-Legendre integrals over panels, shape (panels, m)."""
    half = (high - low)[:, None] / 2
    u = low[:, None] + half * (1 + _NODES)
    values = function(u.ravel()).reshape(len(low), len(_NODES), -1)
    return np.asarray(np.einsum("pim,pi->pm", values, half * _WEIGHTS))
