"""Theorem 2 as a simulation: coverage error of averaged thresholds against n and beta.

The score distributions are known, so population quantiles and coverage are computed, not sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, log1p
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from numpy.random import Generator as Random

from fedwqcp.errors import InputError
from fedwqcp.quantile import conformal_rank, exact_level
from fedwqcp_lab.datasets.partition import Floats

Family: TypeAlias = Literal["uniform", "exponential", "reflected"]
"""Standard distributions: U(0, 1), Exp(1), and -Exp(1), which piles up at its upper bound."""


HALVINGS = 80
"""Steps of bisection; they leave less than a rounding error of the bracket."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """Coverages that `simulate` found; R repetitions.

    Parameters
    ----------
    alpha, sizes, betas : float, tuple of int and tuple of float
        As they were given.
    coverage : Floats, shape (betas, sizes, R)
        Exact test coverage of the averaged threshold.
    limit : Floats, shape (betas, R)
        The same for the mean of the agents' population quantiles: what n to infinity leaves.
    worst, worst_limit : Floats
        The same two at the agent with the lowest coverage; equal to them where models are alike.
    """

    alpha: float
    sizes: tuple[int, ...]
    betas: tuple[float, ...]
    coverage: Floats
    limit: Floats
    worst: Floats
    worst_limit: Floats

    @property
    def error(self) -> Floats:
        """Mean distance of the coverage from 1 - alpha, shape (betas, sizes)."""
        return np.asarray(np.abs(self.coverage - float(exact_level(self.alpha))).mean(axis=-1))


def simulate(
    sizes: Sequence[int],
    betas: Sequence[float],
    *,
    alpha: float,
    scores: ScoreDistribution,
    agents: int = 6,
    shares: Sequence[float] | None = None,
    models: Sequence[float] | None = None,
    repetitions: int = 100,
    rng: Random,
) -> Simulation:
    """Simulate FedWQ-CP under label skew with known distributions.

    Each agent's label distribution is drawn from Dirichlet(beta, ..., beta); that of the test data
    is uniform over the classes. Every agent has n scores, or its share of M n, and sends its
    conformal threshold. Coverage of the weighted mean on test data is computed exactly, as a mean
    over agents.

    Parameters
    ----------
    sizes : sequence of int
        Calibration points of every agent, or their mean, one simulation for each size.
    betas : sequence of float
        Concentrations; +inf makes all agents alike.
    alpha : float
        Miscoverage level.
    scores : ScoreDistribution
        The distribution of the score in each class, the same at all agents.
    agents : int, optional
        Number of agents M.
    shares : sequence of float, optional
        Sizes of the agents relative to one another; by default equal.
    models : sequence of float, optional
        What each agent's model multiplies its scores with, on calibration and test data; by default
        1 for all. A stronger model has smaller scores.
    repetitions : int, optional
        Number of draws R.
    rng : numpy.random.Generator
        Source of randomness.

    Notes
    -----
    Theorem 2 assumes that averaged and mixture quantile meet. Here one sees when: as beta grows
    `Simulation.limit` goes to 1 - alpha; at fixed beta it stays away, however large n is. Unequal
    models keep it away even where all agents' data are alike.
    """
    if not (min(*sizes, agents, repetitions, 1) >= 1 and all(beta > 0 for beta in betas)):
        raise InputError("sizes, betas, agents and repetitions must be positive")
    part = np.full(agents, 1 / agents) if shares is None else np.array(shares) / sum(shares)
    scale = np.ones(agents) if models is None else np.array(models, dtype=np.float64)
    if part.shape != (agents,) or scale.shape != (agents,) or min(*part, *scale) <= 0:
        raise InputError("shares and models must be one positive number for each agent")
    level, C = float(exact_level(alpha)), len(scores.scales)
    test = np.full(C, 1 / C)
    coverage, worst = (np.empty((len(betas), len(sizes), repetitions)) for _ in range(2))
    limit, worst_limit = (np.empty((len(betas), repetitions)) for _ in range(2))

    def covered(q: Floats) -> Floats:
        """Return each agent's coverage; shapes q (R,) -> (R, M)."""
        return scores.cdf(q[:, None] / scale, test)

    for b, beta in enumerate(betas):
        shape = (repetitions, agents)
        skewed = np.isfinite(beta)
        labels = rng.dirichlet(np.full(C, beta), shape) if skewed else np.full((*shape, C), 1 / C)
        found = covered((scores.quantile(level, labels) * scale * part).sum(axis=-1))
        limit[b], worst_limit[b] = found.mean(axis=-1), found.min(axis=-1)
        for a, n in enumerate(sizes):
            own = np.maximum(1, np.rint(n * agents * part)).astype(int)
            q_k = np.empty(shape)
            for size in np.unique(own):
                like = own == size
                drawn = scores.sample(int(size), labels[:, like], rng)
                q_k[:, like] = _thresholds(drawn, conformal_rank(int(size), alpha))
            found = covered((q_k * scale * own).sum(axis=-1) / own.sum())
            coverage[b, a], worst[b, a] = found.mean(axis=-1), found.min(axis=-1)
    return Simulation(alpha, tuple(sizes), tuple(betas), coverage, limit, worst, worst_limit)


@dataclass(frozen=True)
class ScoreDistribution:
    """Scores given the class: in class c, `scales[c]` times a variable of a standard family.

    Examples
    --------
    >>> scores = ScoreDistribution((0.1, 1.0), "uniform")
    >>> round(float(scores.cdf(0.171, [0.5, 0.5])), 4)  # half of 1, and half of 0.171
    0.5855
    """

    scales: tuple[float, ...]
    family: Family = "exponential"

    def __post_init__(self) -> None:
        if not self.scales or not all(0 < scale < np.inf for scale in self.scales):
            raise InputError(f"scales must be positive numbers, got {self.scales}")
        if self.family not in get_args(Family):
            raise InputError(
                f"family must be one of {', '.join(get_args(Family))}, got {self.family!r}"
            )

    def cdf(self, q: npt.ArrayLike, weights: npt.ArrayLike) -> Floats:
        """Return the share of scores at or below q, exactly.

        Shapes: q (...), +inf allowed; weights, label distributions, (..., C) -> (...).
        """
        x = np.asarray(q, dtype=np.float64)[..., None] / np.asarray(self.scales)
        return np.asarray((_standard_cdf(x, self.family) * np.asarray(weights)).sum(axis=-1))

    def quantile(self, level: float, weights: npt.ArrayLike) -> Floats:
        """Return the population quantile, to rounding; it lies between those of the classes.

        Shapes: weights, label distributions, (..., C) -> (...).
        """
        labels = np.asarray(weights, dtype=np.float64)
        ends = np.asarray(self.scales) * _standard_quantile(level, self.family)
        low, high = np.full(labels.shape[:-1], ends.min()), np.full(labels.shape[:-1], ends.max())
        for _ in range(HALVINGS):
            middle = low + (high - low) / 2
            reached = self.cdf(middle, labels) >= level
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return high

    def sample(self, n: int, weights: Floats, rng: Random) -> Floats:
        """Draw n scores for each label distribution, those of one class beside each other.

        Shapes: weights (..., C) -> (..., n).
        """
        counts = rng.multinomial(n, weights)
        rows = counts.size // len(self.scales)
        scales = np.repeat(np.tile(self.scales, rows), counts.ravel())
        shape = (*weights.shape[:-1], n)
        return scales.reshape(shape) * _standard_draw(shape, self.family, rng)


def _thresholds(drawn: Floats, rank: int) -> Floats:
    """Return the rank-th smallest score along the last axis; +inf beyond the sample."""
    if rank > drawn.shape[-1]:
        return np.full(drawn.shape[:-1], np.inf)
    return np.asarray(np.partition(drawn, rank - 1, axis=-1)[..., rank - 1])


def _standard_cdf(x: Floats, family: Family) -> Floats:
    if family == "uniform":
        return np.clip(x, 0.0, 1.0)
    if family == "exponential":
        return np.asarray(-np.expm1(-np.maximum(x, 0.0)))
    return np.asarray(np.exp(np.minimum(x, 0.0)))


def _standard_quantile(level: float, family: Family) -> float:
    if family == "uniform":
        return level
    return -log1p(-level) if family == "exponential" else log(level)


def _standard_draw(shape: tuple[int, ...], family: Family, rng: Random) -> Floats:
    if family == "uniform":
        return rng.random(shape)
    drawn = rng.standard_exponential(shape)
    return drawn if family == "exponential" else -drawn
