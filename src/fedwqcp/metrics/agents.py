"""Coverage and size at each agent, and what they come to over the agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedwqcp.errors import InputError
from fedwqcp.metrics.rate import Rate
from fedwqcp.sets import Intervals, LabelSets


@dataclass(frozen=True, kw_only=True)
class AgentMetrics(Rate):
    """Coverage and size at one agent; built by `measure`.

    Parameters
    ----------
    agent : str
        Its name.
    size : float
        Mean number of labels or mean length; +inf where a length is infinite.
    empty : float
        Share of empty sets.
    full : float
        Share of sets that exclude nothing: every label, or the whole line.
    infinite : float
        Share of intervals of infinite length; 0 for sets of labels.
    """

    agent: str
    size: float
    empty: float
    full: float
    infinite: float


@dataclass(frozen=True)
class Across:
    """What the agents' coverages come to; built by `across_agents`.

    Parameters
    ----------
    agents : int
        How many.
    coverage : float
        Mean of the agents' coverages, each agent counting alike.
    worst : float
        Lowest coverage.
    worst_agent : str
        Whose it is; the first where several share it.
    spread : float
        Highest minus lowest coverage.
    deviation : float
        Standard deviation of the coverages, with divisor M.
    size : float
        Mean of the agents' mean sizes.
    """

    agents: int
    coverage: float
    worst: float
    worst_agent: str
    spread: float
    deviation: float
    size: float


def measure(
    agent: str, sets: LabelSets | Intervals, y: npt.ArrayLike, level: float = 0.95
) -> AgentMetrics:
    """Return coverage and size of one agent's sets on its test points.

    Parameters
    ----------
    agent : str
        Name of the agent.
    sets : LabelSets or Intervals
        One set for each test point.
    y : array_like, shape (n,)
        The true labels or values.
    level : float, optional
        Confidence of the interval of the coverage.

    Returns
    -------
    AgentMetrics
        The figures.

    Raises
    ------
    InputError
        If there are no test points, or y does not fit the sets.

    Examples
    --------
    >>> sets = LabelSets(np.array([[True, False], [True, True]]))
    >>> found = measure("a", sets, [1, 1])
    >>> found.coverage, found.size, found.full
    (0.5, 1.5, 0.5)
    """
    if not len(sets):
        raise InputError(f"agent {agent!r} has no test points: coverage needs at least one")
    sizes = sets.sizes()
    if isinstance(sets, LabelSets):
        empty, full = sizes == 0, sizes == sets.mask.shape[1]
    else:
        empty, full = sets.lower > sets.upper, (sets.lower == -np.inf) & (sets.upper == np.inf)
    return AgentMetrics(
        agent=agent,
        n=len(sets),
        hits=int(sets.cover(y).sum()),
        level=level,
        size=float(sizes.mean()),
        empty=float(empty.mean()),
        full=float(full.mean()),
        infinite=float(np.isinf(sizes).mean()),
    )


def across_agents(metrics: Sequence[AgentMetrics]) -> Across:
    """Return mean, worst agent and dispersion of the agents' coverages.

    Parameters
    ----------
    metrics : sequence of AgentMetrics
        One for each agent.

    Returns
    -------
    Across
        The figures.

    Raises
    ------
    InputError
        If there is no agent.
    """
    if not metrics:
        raise InputError("metrics must hold at least one agent, got none")
    coverages = np.array([m.coverage for m in metrics])
    lowest = int(np.argmin(coverages))
    return Across(
        agents=len(metrics),
        coverage=float(coverages.mean()),
        worst=float(coverages[lowest]),
        worst_agent=metrics[lowest].agent,
        spread=float(np.ptp(coverages)),
        deviation=float(coverages.std()),
        size=float(np.mean([m.size for m in metrics])),
    )
