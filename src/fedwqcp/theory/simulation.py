"""Theorem 2 as a simulation: coverage error of averaged thresholds against n and beta.

The laws are known, so population quantiles and coverage are computed, not sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator as Random

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.quantile import conformal_rank, exact_level
from fedwqcp.theory.laws import Family, ScoreLaw


@dataclass(frozen=True, eq=False)
class Simulation:
    """Coverages that `simulate` found; R repetitions.

    Parameters
    ----------
    alpha : float
        Miscoverage level.
    sizes : tuple of int
        The sizes n, of every agent.
    betas : tuple of float
        The concentrations.
    coverage : Floats, shape (betas, sizes, R)
        Exact test coverage of the averaged threshold.
    limit : Floats, shape (betas, R)
        The same for the mean of the agents' population quantiles: what n to infinity leaves.
    """

    alpha: float
    sizes: tuple[int, ...]
    betas: tuple[float, ...]
    coverage: Floats
    limit: Floats

    @property
    def error(self) -> Floats:
        """Mean distance of the coverage from 1 - alpha, shape (betas, sizes)."""
        return np.asarray(np.abs(self.coverage - float(exact_level(self.alpha))).mean(axis=-1))


def simulate(
    sizes: Sequence[int],
    betas: Sequence[float],
    *,
    alpha: float,
    law: ScoreLaw,
    agents: int = 6,
    repetitions: int = 100,
    rng: Random,
) -> Simulation:
    """Simulate FedWQ-CP under label skew with known laws.

    Each agent's label law is drawn from Dirichlet(beta, ..., beta); the test law is uniform over
    the classes. Every agent has n scores and sends its conformal threshold; with equal n their
    weighted mean is the plain one. Its coverage under the test law is computed exactly.

    Parameters
    ----------
    sizes : sequence of int
        Calibration points of every agent, one simulation for each size.
    betas : sequence of float
        Concentrations; +inf makes all agents alike.
    alpha : float
        Miscoverage level.
    law : ScoreLaw
        The law of the score in each class, the same at all agents.
    agents : int, optional
        Number of agents M.
    repetitions : int, optional
        Number of draws R.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    Simulation
        Arrays of coverages.

    Raises
    ------
    InputError
        If a size, a beta or a count is not positive, or alpha is not between 0 and 1.

    Notes
    -----
    Theorem 2 assumes that averaged and mixture quantile meet. Here one sees when: as beta grows
    `Simulation.limit` goes to 1 - alpha; at fixed beta it stays away, however large n is.
    """
    if not (min(*sizes, agents, repetitions, 1) >= 1 and all(beta > 0 for beta in betas)):
        raise InputError("sizes, betas, agents and repetitions must be positive")
    level, C = float(exact_level(alpha)), len(law.scales)
    test = np.full(C, 1 / C)
    coverage = np.empty((len(betas), len(sizes), repetitions))
    limit = np.empty((len(betas), repetitions))
    for b, beta in enumerate(betas):
        shape = (repetitions, agents)
        skewed = np.isfinite(beta)
        laws = rng.dirichlet(np.full(C, beta), shape) if skewed else np.full((*shape, C), 1 / C)
        limit[b] = law.cdf(law.quantile(level, laws).mean(axis=-1), test)
        for a, n in enumerate(sizes):
            q_k = _thresholds(law.sample(n, laws, rng), conformal_rank(n, alpha))
            coverage[b, a] = law.cdf(q_k.mean(axis=-1), test)
    return Simulation(alpha, tuple(sizes), tuple(betas), coverage, limit)


def many_agents_limit(n: int, alpha: float, family: Family) -> float:
    """Return the coverage of FedWQ-CP with many agents that are all alike.

    The mean of their thresholds tends to the expected r-th of n order statistics, which is
    r / (n + 1) for U(0, 1), H_n - H_{n-r} for Exp(1) and H_{r-1} - H_n for -Exp(1). Averaging
    over-covers where the quantile function is convex and under-covers where it is concave.

    Parameters
    ----------
    n : int
        Calibration points of every agent.
    alpha : float
        Miscoverage level.
    family : {"uniform", "exponential", "reflected"}
        Law of the scores.

    Returns
    -------
    float
        The coverage; 1 where the rank passes n.

    Examples
    --------
    >>> [round(many_agents_limit(19, 0.05, f), 4) for f in ("uniform", "exponential", "reflected")]
    [0.95, 0.9712, 0.9487]
    """
    from scipy.special import digamma

    rank = conformal_rank(n, alpha)
    if rank > n:
        return 1.0
    mean = {
        "uniform": rank / (n + 1),
        "exponential": digamma(n + 1) - digamma(n - rank + 1),
        "reflected": digamma(rank) - digamma(n + 1),
    }[family]
    return float(ScoreLaw((1.0,), family).cdf(mean, [1.0]))


def _thresholds(scores: Floats, rank: int) -> Floats:
    """Return the rank-th smallest score along the last axis; +inf beyond the sample."""
    if rank > scores.shape[-1]:
        return np.full(scores.shape[:-1], np.inf)
    return np.asarray(np.partition(scores, rank - 1, axis=-1)[..., rank - 1])
