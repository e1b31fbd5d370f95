"""How much agents lend each other where one has few points of a class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.methods.fedls_cp.class_sketches import Cell, grid_of
from fedwqcp.quantile import LEVEL_TOLERANCE, exact_level

FIRST_GUESS = 50.0
"""n0 before anything is known, and where no two agents have points of one class."""

BOUNDS = (2.0, 300.0)
"""Within which n0 is estimated: dispersion is seen too coarsely to say more."""

MOST_OF_A_PAIR = 50.0
"""Two agents' points of a class count as at most so many, so that one pair does not decide."""


@dataclass(frozen=True, eq=False)
class Loan:
    """The weights of own and lent points, for all agents and classes.

    Coverage of class c at agent k, F_kc, varies around the class's mean with variance
    F (1 - F) / (n0 + 1), and is seen through n_kc points. The best linear estimate weighs the
    agent's own n_kc points against ``lent`` points' worth of the other agents' mean, in which agent
    j weighs ``worth``_jc = n_jc n0 / (n_jc + n0).

    Parameters
    ----------
    counts : Floats, shape (M, C)
        n_kc.
    n0 : float
        Own points that weigh as much as all that others could say.

    Attributes
    ----------
    worth : Floats, shape (M, C)
        What an agent's points are worth to another.
    others : Floats, shape (M, C)
        What all others' points are worth together.
    lent : Floats, shape (M, C)
        1 / (1 / n0 + 1 / others); 0 where nobody else has the class.
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
    def lent(self) -> Floats:
        """How many points' worth the others lend."""
        others = self.others
        return others * self.n0 / (others + self.n0)

    @property
    def share(self) -> Floats:
        """Share of each estimate that rests on other agents' points; 0 where there are none."""
        lent = self.lent
        total = self.counts + lent
        return np.divide(lent, total, out=np.zeros_like(lent), where=total > 0)

    def mixed(self, known: Floats, pi: Floats) -> Floats:
        """Return sum_c pi_kc F_kc, the estimated coverage of each agent's mixture.

        Shapes: known (M, C, G), pi (M, C) -> (M, G).
        """
        others = self.others
        lent = np.divide(pi * self.share, others, out=np.zeros_like(others), where=others > 0)
        own = pi * (1 - self.share) - lent * self.worth  # nobody lends to itself
        total = np.einsum("kc,kcg->cg", self.worth, known)
        found: Floats = np.einsum("kc,kcg->kg", own, known) + lent @ total
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


PASSES = 4
"""How often n0 and the thresholds are found in turn."""


def mixture_thresholds(
    agents: Sequence[Sequence[Cell]], pi: Floats, alpha: float, n0: float | None
) -> tuple[Floats, float]:
    """Return one threshold for each agent, from own points and from what others lend.

    Where one agent alone has points, it borrows nothing; the others take its threshold.

    Shapes: pi (M, C).
    """
    some = np.array([any(cell.n for cell in cells) for cells in agents])
    if n0 != 0 and some.sum() > 1:
        return lent_thresholds(agents, pi, alpha, n0)
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
    for cells, law in zip(agents, pi, strict=True):
        places = np.concatenate([cell.values for cell in cells])
        sure = [p * cell.steps / (cell.n + 1) for p, cell in zip(law, cells, strict=True)]
        order = np.argsort(places)
        found.append(_first_reaching(places[order], np.cumsum(np.hstack(sure)[order]), alpha))
    return np.array(found)


def lent_thresholds(
    agents: Sequence[Sequence[Cell]], pi: Floats, alpha: float, n0: float | None
) -> tuple[Floats, float]:
    """Return, from own and lent points, the smallest q with sum_c pi_c F_kc(q) >= 1 - alpha.

    Shapes: pi (M, C).
    """
    counts = np.array([[cell.n for cell in cells] for cells in agents], dtype=np.float64)
    sizes = np.maximum(counts, 1)[:, :, None]
    grid = grid_of(agents)
    low = float(grid[0])
    known = np.array([[cell.about(grid, low) for cell in cells] for cells in agents]) / sizes
    loan = Loan(counts, FIRST_GUESS if n0 is None else n0)
    q = _reaching(grid, loan, known, pi, alpha)
    for _ in range(PASSES - 1 if n0 is None else 0):
        own = [[cell.about(q[k : k + 1], low) for cell in cells] for k, cells in enumerate(agents)]
        better = Loan(counts, dispersion(counts, (np.array(own) / sizes)[:, :, 0]))
        if better.n0 == loan.n0:
            break
        loan = better
        q = _reaching(grid, loan, known, pi, alpha)
    return q, loan.n0


def _reaching(grid: Floats, loan: Loan, known: Floats, pi: Floats, alpha: float) -> Floats:
    """Return where the coverages of each agent's mixture reach the level."""
    return np.array([_first_reaching(grid, row, alpha) for row in loan.mixed(known, pi)])


def _first_reaching(grid: Floats, level: Floats, alpha: float) -> float:
    """Return the first place where a distribution reaches 1 - alpha; +inf if none does."""
    reached = np.flatnonzero(level >= float(exact_level(alpha)) - LEVEL_TOLERANCE)
    return float(grid[reached[0]]) if len(reached) else inf
