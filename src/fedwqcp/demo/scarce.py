"""One agent with too few calibration points, to see what each rule makes of it."""

from __future__ import annotations

import dataclasses

import numpy as np

from fedwqcp.demo.agents import Problem
from fedwqcp.demo.partition import Indices
from fedwqcp.demo.streams import stream
from fedwqcp.methods import Calibration
from fedwqcp.quantile import conformal_rank


def with_scarce_agent(problem: Problem, *, keep: int, alpha: float, seed: int) -> Problem:
    """Take the agent with most calibration points down to fewer than a finite threshold needs.

    Parameters
    ----------
    problem : Problem
        The trained agents.
    keep : int
        Points that it keeps, at most.
    alpha : float
        Miscoverage level.
    seed : int
        Seed of the run.

    Returns
    -------
    Problem
        The same, with the poor agent's name in ``scarce``.
    """
    while keep and conformal_rank(keep, alpha) <= keep:
        keep -= 1
    most = max(problem.sides, key=lambda side: side.calibration.n)
    rng = stream(seed, problem.dataset, "scarce")
    kept = np.sort(rng.permutation(most.calibration.n)[:keep])
    poor = dataclasses.replace(most, calibration=_rows(most.calibration, kept))
    sides = tuple(poor if side is most else side for side in problem.sides)
    return dataclasses.replace(problem, sides=sides, scarce=poor.recipe.name)


def _rows(cal: Calibration, rows: Indices) -> Calibration:
    """Keep some of the calibration points."""
    labels = None if cal.labels is None else cal.labels[rows]
    features = None if cal.features is None else cal.features[rows]
    return Calibration(cal.scores[rows], labels, features, cal.n_classes)
