"""How likely an input is at a target, against where the scores come from: the weights of CPhet."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, inf
from typing import TypeAlias

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.methods._density import GaussianMixture, read_mixture
from fedwqcp.methods._laws import Laws
from fedwqcp.quantile import LEVEL_TOLERANCE, exact_level

Target: TypeAlias = str | tuple[float, ...]
"""``"own"``, ``"mixture"``, or a Gaussian mixture in numbers."""

LARGEST_LOG_RATIO = 100.0
"""Log density ratios are cut here, so that weights and their squares stay finite."""


def check_target(target: Target) -> None:
    """Refuse a target that is neither a known word nor a law.

    Parameters
    ----------
    target : str or tuple of float
        The target.

    Raises
    ------
    InputError
        If it is another word, or its numbers are no mixture.
    """
    if not isinstance(target, str):
        read_mixture(target)
    elif target not in ("own", "mixture"):
        raise InputError(f"target must be 'own', 'mixture' or numbers from law_of, got {target!r}")


def pooled_ratios(target: Target, laws: Laws, x: Floats) -> Floats:
    """Return lambda(x) = P*(x) / sum_i (N_i / N) P_i(x) for each target.

    Parameters
    ----------
    target : "own" or tuple of float
        Each agent's own law, or one that the caller names.
    laws : Laws
        Laws of all agents.
    x : Floats, shape (n, d)
        Features.

    Returns
    -------
    Floats, shape (T, n)
        One row for each agent where each aims at its own law, otherwise one row.
    """
    check_features(x, laws.densities)
    logs = laws.log_densities(x)
    mixture = laws.log_mixture(logs)
    return ratio(logs if isinstance(target, str) else _log_named(target, x), mixture)


def largest_ratios(target: Target, laws: Laws) -> Floats:
    """Return what no ratio of `pooled_ratios` passes, for each target, shape (T,).

    The mixture holds (N_t / N) P_t, so towards agent t's own law a ratio is at most N / N_t,
    wherever the point lies. Towards a law that the caller names there is only the cut.
    """
    if not isinstance(target, str):
        return np.array([exp(LARGEST_LOG_RATIO)])
    sizes = np.array(
        [n if law else 0 for n, law in zip(laws.sizes, laws.densities, strict=True)], np.float64
    )
    top = np.full(len(sizes), sizes.sum())
    return np.asarray(np.divide(top, sizes, out=np.zeros(len(sizes)), where=sizes > 0))


def local_ratios(
    target: Target, own: GaussianMixture | None, laws: Laws | None, x: Floats
) -> Floats:
    """Return P*(x) / P_i(x), which re-weights the scores of agent i alone.

    Parameters
    ----------
    target : "mixture" or tuple of float
        The agents' mixture, or a law that the caller names.
    own : GaussianMixture or None
        P_i; without it nothing has weight.
    laws : Laws or None
        Laws of all agents, where their mixture is the target.
    x : Floats, shape (n, d)
        Features.

    Returns
    -------
    Floats, shape (1, n)
        The ratios.
    """
    if own is None:
        return np.zeros((1, len(x)))
    check_features(x, (own.numbers(), *(laws.densities if laws else ())))
    if laws is not None:
        return ratio(laws.log_mixture(laws.log_densities(x))[None], own.log_density(x))
    if isinstance(target, str):
        raise InputError("the agents' mixture needs the laws of all agents")
    return ratio(_log_named(target, x), own.log_density(x))


def check_features(x: Floats, densities: Sequence[tuple[float, ...]]) -> None:
    """Refuse features that do not fit the laws.

    Parameters
    ----------
    x : Floats, shape (n, d)
        Features.
    densities : sequence of tuple of float
        Gaussian mixtures in numbers.

    Raises
    ------
    InputError
        If the dimension is another.
    """
    for density in densities:
        if density and int(density[1]) != x.shape[1]:
            raise InputError(
                f"features must have {int(density[1])} dimensions, as the laws of this round, "
                f"got {x.shape[1]}"
            )


def ratio(log_target: Floats, log_source: Floats) -> Floats:
    """Return the density ratio target / source.

    Parameters
    ----------
    log_target, log_source : Floats
        Log densities; they broadcast.

    Returns
    -------
    Floats
        At most exp(100); 0 where the target has no density.
    """
    with np.errstate(invalid="ignore"):
        logs = np.minimum(log_target - log_source, LARGEST_LOG_RATIO)
    return np.where(np.isneginf(log_target), 0.0, np.exp(logs))


def clip_weights(weights: Floats, level: float) -> Floats:
    """Cut weights at a quantile of an agent's own.

    Parameters
    ----------
    weights : Floats, shape (T, n)
        One row for each target.
    level : float
        From 0 to 1; 1 cuts nothing.

    Returns
    -------
    Floats, shape (T, n)
        Weights, none above the ceil(level n)-th smallest of its row.
    """
    n = weights.shape[1]
    rank = max(1, ceil(level * n - 1e-9))
    if rank >= n:
        return weights
    return np.minimum(weights, np.sort(weights, axis=1)[:, rank - 1 : rank])


def quantiles_at(scores: Floats, weights: Floats, alpha: float, at_inf: Floats) -> Floats:
    """Return the weighted quantile for each of many masses at infinity.

    Parameters
    ----------
    scores, weights : Floats, shape (n,)
        Scores and their weights.
    alpha : float
        Miscoverage level.
    at_inf : Floats
        Masses at +inf; an infinite one gives +inf.

    Returns
    -------
    Floats
        `weighted_quantile` for each mass, in the shape of ``at_inf``.
    """
    some = weights > 0
    order = np.argsort(scores[some], kind="stable")
    values = np.append(scores[some][order], inf)
    reached = np.cumsum(weights[some][order])
    total = (reached[-1] if len(reached) else 0.0) + at_inf
    at = np.searchsorted(reached, (float(exact_level(alpha)) - LEVEL_TOLERANCE) * total)
    return np.asarray(values[at])


def _log_named(target: tuple[float, ...], x: Floats) -> Floats:
    """Return the log density of a law that the caller names, shape (1, n)."""
    check_features(x, (target,))
    return read_mixture(target).log_density(x)[None]
