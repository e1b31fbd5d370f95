"""The smoothed pinball loss, and federated averaging of many quantile problems at once.

S_v(q) = (1 - alpha)(v - q)^+ + alpha (q - v)^+ has its minimum over q, summed over weighted scores
v, at their (1 - alpha)-quantile. Its Moreau envelope with parameter gamma is smooth, and its
minimum lies within gamma of that quantile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Literal, TypeAlias

import numpy as np

from fedwqcp._validation import Floats
from fedwqcp.errors import InputError
from fedwqcp.methods._answers import of_kind, stacked, summed
from fedwqcp.methods._base import Exchange, PerAgentQuestions
from fedwqcp.wire.limits import LOCAL_STEPS, NUMBER, ROUNDS
from fedwqcp.wire.messages import Question, Summary

Average: TypeAlias = Literal["last", "half", "all"]
"""What is returned: the last iterate, the mean over the last half of the rounds, or over all."""


class Step(Summary):
    """How far an agent moved, and where it was on the way."""

    shift: tuple[float, ...]  # for each problem, the last local iterate less the first
    mean: tuple[float, ...]  # for each problem, the mean of the local iterates before the last

    def __post_init__(self) -> None:
        if len(self.shift) != len(self.mean):
            raise InputError("must hold one number for each problem, as shift does", field="mean")
        if not all(abs(value) <= NUMBER.most for value in (*self.shift, *self.mean)):
            raise InputError(
                f"must hold numbers of at most {NUMBER.most:g}, as mean must", field="shift"
            )


def check_step(
    step: Step, start: Sequence[float], alpha: float, *, steps: int, step_size: float
) -> None:
    """Refuse a step that no local descent makes.

    A gradient lies within [-(1 - alpha), alpha], so K steps lead from q to no further than
    [q - K eta alpha, q + K eta (1 - alpha)], each local iterate included.
    """
    if len(step.shift) != len(start):
        raise InputError(
            f"must be {len(start)}, one for each problem, got {len(step.shift)}", field="shift"
        )
    q = np.array(start, dtype=np.float64)
    rounding = 1e-9 * (1 + np.abs(q))
    down, up = steps * step_size * alpha + rounding, steps * step_size * (1 - alpha) + rounding
    for name, moved in (("shift", np.array(step.shift)), ("mean", np.array(step.mean) - q)):
        if not ((-down <= moved) & (moved <= up)).all():
            raise InputError("must be within local_steps * step_size of the start", field=name)


def moreau_gradient(q: Floats, v: Floats | float, alpha: float, gamma: float) -> Floats:
    """Return the gradient of the Moreau envelope of the pinball loss.

    -(1 - alpha) below v - gamma (1 - alpha), alpha above v + gamma alpha, (q - v)/gamma between.

    Examples
    --------
    >>> moreau_gradient(np.array([0.0, 0.5, 1.0]), 0.5, alpha=0.25, gamma=0.1)
    array([-0.75,  0.  ,  0.25])
    """
    return np.clip((q - v) / gamma, -(1 - alpha), alpha)


class SmoothedPinball:
    """One agent's smoothed loss for P problems that share the agent's scores.

    Sorted scores and running sums make a gradient cost O(P log n). Shapes: scores (n,), weights
    (T, n), of which problem p uses row ``p // (P / T)``, and atoms (P,), further mass at 1.
    """

    def __init__(
        self, scores: Floats, weights: Floats, atoms: Floats, *, alpha: float, gamma: float
    ) -> None:
        order = np.argsort(scores, kind="stable")
        sums = weights.sum(axis=1)
        sorted_weights = weights[:, order] / np.where(sums > 0, sums, 1.0)[:, None]
        self._rows = np.repeat(np.arange(len(sums)), len(atoms) // max(1, len(sums)))
        self._scores = scores[order]
        finite = np.where(np.isfinite(self._scores), self._scores, 0.0)  # no window reaches +inf
        start = np.zeros((len(sums), 1))
        self._mass = np.hstack([start, np.cumsum(sorted_weights, axis=1)])
        self._moment = np.hstack([start, np.cumsum(sorted_weights * finite, axis=1)])
        total = sums[self._rows] + atoms
        self._atoms = np.divide(atoms, total, out=np.zeros_like(total), where=total > 0)
        self._rest = (total > 0) - self._atoms
        self._alpha, self._gamma = alpha, gamma

    def gradient(self, q: Floats) -> Floats:
        """Return the gradient of each problem's loss at q (P,), its weights normalised to 1."""
        alpha, gamma, rows = self._alpha, self._gamma, self._rows
        low = np.searchsorted(self._scores, q - gamma * alpha, side="left")
        high = np.searchsorted(self._scores, q + gamma * (1 - alpha), side="right")
        below, upto = self._mass[rows, low], self._mass[rows, high]
        window = q * (upto - below) - (self._moment[rows, high] - self._moment[rows, low])
        of_points = alpha * below - (1 - alpha) * (self._mass[rows, -1] - upto) + window / gamma
        atom = moreau_gradient(q, 1.0, alpha, gamma)
        both: Floats = self._rest * np.clip(of_points, -(1 - alpha), alpha) + self._atoms * atom
        return both


def descend(loss: SmoothedPinball, start: Floats, *, steps: int, step_size: float) -> Step:
    """Make an agent's local steps q <- q - eta gradient."""
    q, visited = start, np.zeros_like(start)
    for _ in range(steps):
        visited = visited + q
        q = q - step_size * loss.gradient(q)
    return Step(tuple((q - start).tolist()), tuple((visited / steps).tolist()))


def federated_quantiles(
    ask: Callable[[Floats], Question | PerAgentQuestions],
    start: Floats,
    shares: Floats,
    rounds: int,
    average: Average,
) -> Exchange[Summary, Floats]:
    """Run the server's side of federated averaging, every agent in every round.

    q <- q + sum_i lambda_i shift_i, and the mean of sum_i lambda_i mean_i over the rounds.

    Shapes: start (P,), shares (M, P) -> (P,).
    """
    q, means = start, []
    for _ in range(rounds):
        steps = of_kind((yield ask(q)), Step)
        q = q + summed(shares * stacked([step.shift for step in steps], len(q)))
        means.append(summed(shares * stacked([step.mean for step in steps], len(q))))
    if average == "last":
        return q
    return np.asarray(np.mean(means[rounds // 2 if average == "half" else 0 :], axis=0))


def check_descent(rounds: int, local_steps: int, step_size: float, smoothing: float) -> None:
    """Refuse settings of the descent that are out of range."""
    ROUNDS.whole(rounds, "rounds")
    LOCAL_STEPS.whole(local_steps, "local_steps")
    for name, size in (("step_size", step_size), ("smoothing", smoothing)):
        if not 0 < size < inf:
            raise InputError(f"{name} must be a positive number, got {size!r}")
