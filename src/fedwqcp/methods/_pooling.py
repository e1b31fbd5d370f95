"""How the server of CPhet turns what agents sent into an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.methods._aim import Aim
from fedwqcp.methods._answers import stacked, summed
from fedwqcp.methods._base import UnfitAnswerError
from fedwqcp.methods._laws import Laws
from fedwqcp.methods._reweighting import (
    PooledScores,
    ReweightedToAll,
    ReweightedToEach,
    Weighed,
    WeightedScores,
)
from fedwqcp.quantile import weighted_quantile


def reweighted(
    q: Floats, totals: Floats, squares: Floats, *, shared: bool
) -> ReweightedToAll | ReweightedToEach:
    """Return thresholds with their effective sample sizes; without weight a threshold is +inf.

    Parameters
    ----------
    q : Floats, shape (T,)
        Thresholds.
    totals, squares : Floats, shape (T,)
        Sums of weights and of squared weights.
    shared : bool
        Whether there is one target for all agents.

    Returns
    -------
    ReweightedToAll or ReweightedToEach
        The outcome.
    """
    values = np.where(totals > 0, q, inf).tolist()
    effective = effective_sizes(totals, squares)
    if shared:
        return ReweightedToAll(values[0], effective[0])
    return ReweightedToEach(tuple(values), effective)


def effective_sizes(totals: Floats, squares: Floats) -> tuple[float, ...]:
    """Return (sum w)^2 / sum w^2.

    Parameters
    ----------
    totals, squares : Floats, shape (T,)
        Sums of weights and of squared weights.

    Returns
    -------
    tuple of float
        0 where there is no weight.
    """
    return tuple((np.square(totals) / np.where(squares > 0, squares, 1.0)).tolist())


def pooled_weights(answers: Sequence[WeightedScores], rows: int) -> tuple[Floats, Floats]:
    """Return all agents' scores and weights.

    Parameters
    ----------
    answers : sequence of WeightedScores
        What the agents sent.
    rows : int
        Number of targets T.

    Returns
    -------
    tuple of Floats
        Scores of shape (N,) and weights of shape (T, N).

    Raises
    ------
    UnfitAnswerError
        If an agent sent weights for another number of targets.
    """
    for position, answer in enumerate(answers):
        if len(answer.weights) != rows:
            raise UnfitAnswerError(position, f"must hold {rows} rows of weights, one per target")
    scores = np.array([value for answer in answers for value in answer.values], dtype=np.float64)
    return scores, np.hstack([stacked(a.weights, len(a.values)) for a in answers])


def oracle(scores: Floats, weights: Floats, alpha: float, aim: Aim, laws: Laws) -> PooledScores:
    """Return all that thresholds of single inputs need.

    Parameters
    ----------
    scores : Floats, shape (N,)
        Scores of all agents.
    weights : Floats, shape (T, N)
        Their weights.
    alpha : float
        Miscoverage level.
    aim : Aim
        What is aimed at.
    laws : Laws
        Laws of all agents.

    Returns
    -------
    PooledScores
        The outcome.
    """
    return PooledScores(
        values=tuple(scores.tolist()),
        weights=tuple(tuple(row) for row in weights.tolist()),
        laws=laws,
        largest=tuple(float(aim.thresholds(scores, row, alpha, None)) for row in weights),
        effective=effective_sizes(weights.sum(axis=1), np.square(weights).sum(axis=1)),
        shared=aim.target != "own",
    )


def pooled_quantiles(
    scores: Floats, weights: Floats, alpha: float, *, shared: bool
) -> ReweightedToAll | ReweightedToEach:
    """Return the weighted quantile for each target.

    Parameters
    ----------
    scores : Floats, shape (N,)
        Scores of all agents.
    weights : Floats, shape (T, N)
        Their weights.
    alpha : float
        Miscoverage level.
    shared : bool
        Whether there is one target for all agents.

    Returns
    -------
    ReweightedToAll or ReweightedToEach
        The outcome.
    """
    q = np.array([weighted_quantile(scores, row, alpha) for row in weights])
    return reweighted(q, weights.sum(axis=1), np.square(weights).sum(axis=1), shared=shared)


def first_guess(answers: Sequence[Weighed], shares: Floats, start: float | None) -> Floats:
    """Return where the descent starts: by default the weighted mean of the agents' own quantiles.

    Parameters
    ----------
    answers : sequence of Weighed
        What the agents sent.
    shares : Floats, shape (M, T)
        Their shares of the weight at each target.
    start : float or None
        Where the descent of every target starts, if it is given.

    Returns
    -------
    Floats, shape (T,)
        An infinite quantile counts as 0.
    """
    if start is not None:
        return np.full(shares.shape[1], start)
    local = stacked([answer.quantiles for answer in answers], shares.shape[1])
    return summed(shares * np.where(np.isfinite(local), local, 0.0))
