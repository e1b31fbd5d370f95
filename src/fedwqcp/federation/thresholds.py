"""From what a round ended with to the threshold that an agent predicts with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.federation.grouping import part_of
from fedwqcp.federation.plan import Plan
from fedwqcp.methods import Calibration
from fedwqcp.wire.grouping import threshold_by
from fedwqcp.wire.release import Release


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
        The agent's data, for methods that need them once more.
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
        If the agent, level or group is not part of the round, or data are missing.
    """
    plan = Plan.of(release.round)
    low, high = plan.bounds
    if calibration is None and features is None:
        value = release.threshold(agent, alpha, group)
        q = np.asarray(value)
        if not (((low <= q) & (q <= high)) | (q == np.inf)).all():
            raise InputError(
                f"the release's threshold must lie between {low:g} and {high:g} for "
                f"{release.round.score.name}, or be +inf: it was changed or is of another score"
            )
        return value
    if calibration is not None:
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
    return found if found.ndim else float(found)


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
