"""Thresholds of a mixture of classes, from own points shrunk towards the other agents' means.

A threshold is the smallest q at which the coverages of all classes, weighted by the target, add up
to 1 - alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from fedwqcp._validation import Floats
from fedwqcp.methods.fedls_cp.class_sketches import Cell, grid_of
from fedwqcp.quantile import LEVEL_TOLERANCE, exact_level

FIRST_GUESS = 50.0
"""n0 before anything is known, and where no two agents have points of one class."""


BOUNDS = (2.0, 300.0)
"""Within which n0 is estimated: dispersion is seen too coarsely to say more."""


MOST_OF_A_PAIR = 50.0
"""Two agents' points of a class count as at most so many, so that one pair does not decide."""


PASSES = 4
"""How often n0 and the thresholds are found in turn."""


def mixture_thresholds(
    agents: Sequence[Sequence[Cell]], pi: Floats, alpha: float, n0: float | None
) -> tuple[Floats, float]:
    """Return one threshold for each agent, and the n0 that they were found with.

    ``n0`` is None to estimate it, and 0 where own points alone decide. Where one agent alone has
    points, the others take its threshold. Shapes: pi (M, C) -> (M,).
    """
    some = np.array([any(cell.n for cell in cells) for cells in agents])
    if n0 != 0 and some.sum() > 1:
        return shrunk_thresholds(agents, pi, alpha, n0)
    q = own_thresholds(agents, pi, alpha)
    if n0 == 0 or some.all() or not some.any():
        return q, 0.0
    q[~some & (pi.sum(axis=1) > 0)] = q[some]
    return q, FIRST_GUESS if n0 is None else n0


def own_thresholds(agents: Sequence[Sequence[Cell]], pi: Floats, alpha: float) -> Floats:
    """Return thresholds from each agent's own points alone.

    Each is the smallest q with sum_c pi_c m_c(q) / (n_c + 1) >= 1 - alpha, m_c(q) being how many
    points of class c lie at or below q.

    Shapes: pi (M, C) -> (M,).
    """
    found = []
    for cells, shares in zip(agents, pi, strict=True):
        places = np.concatenate([cell.values for cell in cells])
        sure = [p * cell.steps / (cell.n + 1) for p, cell in zip(shares, cells, strict=True)]
        order = np.argsort(places)
        found.append(_first_reaching(places[order], np.cumsum(np.hstack(sure)[order]), alpha))
    return np.array(found)


def shrunk_thresholds(
    agents: Sequence[Sequence[Cell]], pi: Floats, alpha: float, n0: float | None
) -> tuple[Floats, float]:
    """Return the smallest q with sum_c pi_c F_kc(q) >= 1 - alpha, F_kc shrunk, and n0.

    Shapes: pi (M, C) -> (M,).
    """
    counts = np.array([[cell.n for cell in cells] for cells in agents], dtype=np.float64)
    sizes = np.maximum(counts, 1)[:, :, None]
    grid = grid_of(agents)
    low = float(grid[0])
    known = np.array([[cell.about(grid, low) for cell in cells] for cells in agents]) / sizes
    shrinkage = Shrinkage(counts, FIRST_GUESS if n0 is None else n0)
    q = _reaching(grid, shrinkage, known, pi, alpha)
    for _ in range(PASSES - 1 if n0 is None else 0):
        own = [[cell.about(q[k : k + 1], low) for cell in cells] for k, cells in enumerate(agents)]
        better = Shrinkage(counts, dispersion(counts, (np.array(own) / sizes)[:, :, 0]))
        if better.n0 == shrinkage.n0:
            break
        shrinkage = better
        q = _reaching(grid, shrinkage, known, pi, alpha)
    return q, shrinkage.n0


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """How far an agent's coverage of a class is drawn towards that of the other agents.

    Coverage of class c at agent k, F_kc, varies around the class's mean with variance
    F (1 - F) / (n0 + 1), and is seen through n_kc points. The best linear estimate weighs the
    agent's own n_kc points against ``prior``_kc = 1 / (1 / n0 + 1 / others_kc) points' worth of the
    other agents' mean, in which agent j weighs ``worth``_jc = n_jc n0 / (n_jc + n0).

    Parameters
    ----------
    counts : Floats, shape (M, C)
        n_kc.
    n0 : float
        Own points that weigh as much as all that others could say.
    """

    counts: Floats
    n0: float

    @property
    def worth(self) -> Floats:
        """What an agent's points are worth to another."""
        return self.counts * self.n0 / (self.counts + self.n0)

    @property
    def others(self) -> Floats:
        """What all others' points are worth together."""
        more = np.sort(self.worth, axis=0).sum(axis=0) - self.worth
        several = (self.counts > 0).sum(axis=0) - (self.counts > 0)
        return np.where(several > 0, more, 0.0)

    @property
    def prior(self) -> Floats:
        """How many own points the others' mean weighs as much as; 0 where nobody else has any."""
        others = self.others
        return others * self.n0 / (others + self.n0)

    @property
    def share(self) -> Floats:
        """Share of each estimate that rests on other agents' points; 0 where there are none."""
        prior = self.prior
        total = self.counts + prior
        return np.divide(prior, total, out=np.zeros_like(prior), where=total > 0)

    def mixed(self, known: Floats, pi: Floats) -> Floats:
        """Return sum_c pi_kc F_kc, the estimated coverage of each agent's mixture at G places.

        Shapes: known (M, C, G), pi (M, C) -> (M, G).
        """
        others = self.others
        from_others = np.divide(
            pi * self.share, others, out=np.zeros_like(others), where=others > 0
        )
        own = pi * (1 - self.share) - from_others * self.worth  # its own points are no others'
        total = np.einsum("kc,kcg->cg", self.worth, known)
        found: Floats = np.einsum("kc,kcg->kg", own, known) + from_others @ total
        return found


def dispersion(counts: Floats, covered: Floats) -> float:
    """Estimate n0 from how far agents differ in the same class, beyond chance.

    For two agents with n and m points of a class, h = n m / (n + m), and F the coverage of both
    together, E h (F_1 - F_2)^2 is about F (1 - F) (1 + 2 h / (n0 + 1)); the method of moments over
    all pairs and classes, each pair counted as at most 50 points.

    Shapes: counts (M, C), covered (M, C).
    """
    excess = expected = 0.0
    for column, shares in zip(counts.T, covered.T, strict=True):
        n, F = column[column > 1], shares[column > 1]
        first, second = np.triu_indices(len(n), 1)
        both = n[first] + n[second]
        h = n[first] * n[second] / both
        p = (n[first] * F[first] + n[second] * F[second]) / both
        chance = p * (1 - p)
        kept = np.minimum(h, MOST_OF_A_PAIR) / h
        excess += float(np.sort(kept * (h * (F[first] - F[second]) ** 2 - chance)).sum())
        expected += float(np.sort(kept * 2 * h * chance).sum())
    if not expected:
        return FIRST_GUESS
    low, high = BOUNDS
    return high if excess <= expected / high else max(low, expected / excess - 1)


def _reaching(
    grid: Floats, shrinkage: Shrinkage, known: Floats, pi: Floats, alpha: float
) -> Floats:
    """Return where the coverages of each agent's mixture reach the level."""
    return np.array([_first_reaching(grid, row, alpha) for row in shrinkage.mixed(known, pi)])


def _first_reaching(grid: Floats, level: Floats, alpha: float) -> float:
    """Return the first place where a distribution reaches 1 - alpha; +inf if none does."""
    reached = np.flatnonzero(level >= float(exact_level(alpha)) - LEVEL_TOLERANCE)
    return float(grid[reached[0]]) if len(reached) else inf
