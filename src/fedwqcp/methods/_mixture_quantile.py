"""Thresholds of a mixture of classes: where the coverages of all classes add up to 1 - alpha."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.methods._class_cdf import Cell, grid_of
from fedwqcp.methods._lending import FIRST_GUESS, Loan, dispersion
from fedwqcp.quantile import LEVEL_TOLERANCE, exact_level

PASSES = 4
"""How often n0 and the thresholds are found in turn."""


def mixture_thresholds(
    agents: Sequence[Sequence[Cell]], pi: Floats, alpha: float, n0: float | None
) -> tuple[Floats, float]:
    """Return one threshold for each agent, from own points and from what others lend.

    Where one agent alone has points, it borrows nothing; the others take its threshold.

    Parameters
    ----------
    agents : sequence of sequence of Cell
        Classes of every agent.
    pi : Floats, shape (M, C)
        The label law that each agent aims at.
    alpha : float
        Miscoverage level.
    n0 : float or None
        Own points that weigh as much as all that others could say; None to estimate it, 0 where
        nothing is lent.

    Returns
    -------
    tuple
        The thresholds, shape (M,), and the n0 that they were found with.
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

    Parameters
    ----------
    agents : sequence of sequence of Cell
        Classes of every agent.
    pi : Floats, shape (M, C)
        The label law that each agent aims at.
    alpha : float
        Miscoverage level.

    Returns
    -------
    Floats, shape (M,)
        The thresholds; +inf where the sum never reaches 1 - alpha.
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

    Parameters
    ----------
    agents : sequence of sequence of Cell
        Classes of every agent.
    pi : Floats, shape (M, C)
        The label law that each agent aims at.
    alpha : float
        Miscoverage level.
    n0 : float or None
        Own points that weigh as much as all that others could say; None to estimate it.

    Returns
    -------
    tuple
        The thresholds, shape (M,), and the n0 that they were found with.
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
