"""Theorem 1 on data: what a coverage gap owes to shift, and what to averaging thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Floats, as_scores
from fedwqcp.errors import InputError
from fedwqcp.quantile import conformal_rank, exact_level, order_statistic
from fedwqcp.wire.messages import check_score


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
    pooled = np.concatenate([np.empty(0), *(as_scores(own) for own in scores.values())])
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
    check_score(q_hat, "q_hat")
    check_score(q_mix, "q_mix")
    level = float(exact_level(alpha))
    found = []
    for agent, own in test_scores.items():
        values = as_scores(own)
        if not len(values):
            raise InputError(f"agent {agent!r} has no test scores: coverage needs at least one")
        found.append(Decomposition(agent, level, _share(values, q_hat), _share(values, q_mix)))
    return tuple(found)


def _share(values: Floats, threshold: float) -> float:
    """Return the share of values at or below the threshold."""
    return float(np.mean(values <= threshold))
