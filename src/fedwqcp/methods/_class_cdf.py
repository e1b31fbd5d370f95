"""The distributions of scores by class that order statistics give, and where they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats
from fedwqcp.methods._class_sketch import ClassSketches, ranks_of

Ranks = npt.NDArray[np.int64]

MOST_READ = 2**24
"""Most numbers in a table of all agents, classes and places."""


@dataclass(frozen=True, eq=False)
class Cell:
    """The scores of one class at one agent, as the server knows them.

    Parameters
    ----------
    values : Floats, shape (p,)
        Order statistics, in order; some may be equal.
    ranks : Ranks, shape (p,)
        Their ranks, the last one n.
    """

    values: Floats
    ranks: Ranks

    @property
    def n(self) -> int:
        """Points of the class; 0 where too few for any to be sent."""
        return int(self.ranks[-1]) if len(self.ranks) else 0

    @property
    def steps(self) -> Ranks:
        """How many scores each sent score stands for: itself, and those since the one before."""
        return np.diff(self.ranks, prepend=0)

    def at_least(self, q: Floats) -> Floats:
        """Return how many scores are surely at most q: those that a sent score up to q stands for.

        Parameters
        ----------
        q : Floats, shape (m,)
            Where.

        Returns
        -------
        Floats, shape (m,)
            Never more than the true counts.
        """
        known = np.concatenate(([0], self.ranks))
        return known[np.searchsorted(self.values, q, side="right")].astype(np.float64)

    def about(self, q: Floats, low: float) -> Floats:
        """Return about how many scores are at most q.

        The scores between two that were sent are taken to be spread evenly there, and those before
        the first one between ``low`` and it.

        Parameters
        ----------
        q : Floats, shape (m,)
            Where.
        low : float
            Where scores begin.

        Returns
        -------
        Floats, shape (m,)
            Counts; exact at the scores that were sent, or more where some are equal.
        """
        values = np.concatenate(([low], self.values))
        after = np.searchsorted(self.values, q, side="right") + 1
        found = self.at_least(q)
        inside = (after < len(values)) & (q > low)
        i = after[inside]
        share = (q[inside] - values[i - 1]) / (values[i] - values[i - 1])
        between = self.steps[i - 1] - 1
        found[inside] += share * between
        return found


def read_cells(
    summary: ClassSketches, alpha: float, limits: tuple[int, ...]
) -> tuple[Cell, ...] | None:
    """Return the classes of one agent.

    Parameters
    ----------
    summary : ClassSketches
        What it sent.
    alpha : float
        Miscoverage level.
    limits : tuple of int
        As `ranks_of` takes them.

    Returns
    -------
    tuple of Cell or None
        None where it sent more or fewer scores than the ranks are.
    """
    cells = []
    for n, values in zip(summary.counts, summary.values, strict=True):
        ranks = ranks_of(n, alpha, *limits)
        if len(ranks) != len(values):
            return None
        cells.append(Cell(np.array(values, dtype=np.float64), np.array(ranks, dtype=np.int64)))
    return tuple(cells)


def grid_of(agents: Sequence[Sequence[Cell]]) -> Floats:
    """Return the places that thresholds are chosen from: the scores sent, or some of very many.

    Parameters
    ----------
    agents : sequence of sequence of Cell
        Classes of every agent.

    Returns
    -------
    Floats, shape (G,)
        Distinct and in order, the largest score among them; none where nobody has a point.
    """
    cells = [cell for found in agents for cell in found]
    every = np.unique(np.concatenate([cell.values for cell in cells]))
    most = min(4096, MOST_READ // len(cells))
    if len(every) <= most:
        return every
    return np.asarray(every[np.linspace(0, len(every) - 1, most).astype(np.int64)])
