"""From what a round ended with to the threshold that an agent predicts with."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError, WrongRoundError
from fedwqcp.federation.grouping import part_of
from fedwqcp.federation.plan import Plan
from fedwqcp.methods import Calibration
from fedwqcp.wire.grouping import threshold_by
from fedwqcp.wire.release import Release
from fedwqcp.wire.round import Round


def thresholds(
    release: Release,
    agent: str,
    alpha: float | None = None,
    calibration: Calibration | None = None,
    features: Floats | None = None,
    *,
    group: str | int | npt.ArrayLike | None = None,
) -> float | Floats:
    """Return the threshold that an agent predicts with.

    Parameters
    ----------
    release : Release
        What the round ended with.
    agent : str
        Name of the agent.
    alpha : float, optional
        Which level, where the round has several.
    calibration : Calibration, optional
        The agent's data, for methods that need them once more. Where they are left out, what
        agents of this process found for themselves is used.
    features : Floats, optional
        Features of the test inputs, for thresholds that depend on the input.
    group : str, int or array_like, optional
        In a round by group, the name of one, or the group of each test input.

    Returns
    -------
    float or Floats
        Shape () shared, (C,) per label, (n, 1) per input, (2,) per column of the score.

    Raises
    ------
    InputError
        If the agent, level or group is not part of the round, data are missing, or the release
        claims what its method does not give.
    """
    plan = Plan.of(release.round)
    if calibration is None:
        shown = release.threshold(agent, alpha, group)  # says whose data are missing, if any are
        if agent in release.local and features is None:
            return shown
    else:
        plan.check(calibration)

    def _of_group(place: int) -> Floats:
        """Return the threshold of one group."""
        values = [
            localize(plan, release, agent, at, calibration, features=features)
            for at in release.tasks_of(alpha, place)
        ]
        if len(values) == 1:
            return values[0]
        return np.concatenate([q if q.ndim else q[None] for q in values], axis=-1)

    found = threshold_by(release.round, _of_group, group)
    low, high = plan.bounds
    if not (((low <= found) & (found <= high)) | (found == np.inf)).all():
        raise InputError(
            f"the release's threshold must lie between {low:g} and {high:g} for "
            f"{release.round.score.name}, or be +inf: it was changed or is of another score"
        )
    return found if found.ndim else float(found)


def check_terms(release: Release, answered: Round) -> None:
    """Refuse a release of another round, or of other terms, than an agent answered.

    Parameters
    ----------
    release : Release
        What the agent was handed.
    answered : Round
        The terms as it received them before it answered.

    Raises
    ------
    WrongRoundError
        Naming the terms that differ.
    """
    ours, theirs = answered.brief(), release.round.brief()
    if theirs.id != ours.id:
        raise WrongRoundError(
            "server", "round", f"the release is of round {theirs.id}, this agent has {ours.id}"
        )
    names = [f.name for f in fields(Round) if getattr(ours, f.name) != getattr(theirs, f.name)]
    if names:
        raise WrongRoundError(
            "server", ", ".join(names), "must be as in the round that this agent answered"
        )


def localize(
    plan: Plan,
    release: Release,
    agent: str,
    task: int,
    calibration: Calibration | None,
    *,
    features: Floats | None = None,
) -> Floats:
    """Return an agent's threshold for one task of the round.

    Parameters
    ----------
    plan : Plan
        What the round computes.
    release : Release
        What it ended with.
    agent : str
        Name of the agent.
    task : int
        Which task.
    calibration : Calibration or None
        The agent's data, for methods that need them once more.
    features : Floats, optional
        Features of the test inputs.

    Returns
    -------
    Floats
        Shape () shared, (C,) per label, (n, 1) per input; +inf where it would be the agent's own
        and it has no point of the group.
    """
    this, outcome = plan.tasks[task], release.outcomes[task]
    shared = outcome.threshold(None)
    if shared == np.inf or (shared is None and release.sat_out(agent, task)):
        return np.asarray(np.inf)
    own = None
    if calibration is not None:
        own = part_of(release.round, calibration.column(this.column), this.group)
    return plan.method.localize(outcome, own, release.position(agent, task), this.alpha, features)
