"""FedCRC: conformal risk control on the sum of the agents' loss curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Literal, TypeAlias

import numpy as np

from fedwqcp._validation import Floats, check_least, is_range
from fedwqcp.errors import InputError
from fedwqcp.methods._answers import stacked, summed
from fedwqcp.methods._base import MIXTURE, OneShot, Traits
from fedwqcp.methods._calibration import Calibration, Disclosure
from fedwqcp.methods._sketches import sketch_size
from fedwqcp.quantile import LEVEL_TOLERANCE, exact_level
from fedwqcp.wire.limits import POINTS
from fedwqcp.wire.messages import SharedThreshold, Summary, check_scores, check_size
from fedwqcp.wire.release import Guarantee

Correction: TypeAlias = Literal["mixture", "pooled"]
"""How many unseen points a mean loss is corrected for: one of each agent, or one."""


_ASSUMPTIONS = {
    "mixture": f"the expected loss is at most alpha if {MIXTURE}",
    "pooled": (
        "the expected loss is at most alpha if the points of all agents and the test point are "
        "independent and identically distributed"
    ),
}


class LossCurve(Summary):
    """The sum of an agent's losses at each threshold of a grid, and its sample size."""

    losses: tuple[float, ...]  # from 0 to n, never increasing
    n: int

    def __post_init__(self) -> None:
        check_size(self.n, "n")
        check_scores(self.losses, "losses")
        if any(b > a for a, b in pairwise((self.n, *self.losses, 0))):
            raise InputError("must never increase, nor leave the range from 0 to n", field="losses")

    def sizes(self) -> tuple[int, ...]:
        return (self.n,)


@dataclass(frozen=True)
class FedCRC(OneShot[LossCurve]):
    r"""Smallest threshold of a grid at which the agents' mean loss, corrected, is at most alpha.

    The loss of a point at threshold t is the weight of its scores above t (`Calibration.weights`):
    its false-negative rate for a `MultiLabel` score; without weights, 1 where its score is above t,
    which makes this FCP on a grid. With L_k(t) the sum of agent k's losses and L = sum_k L_k,

    - ``mixture`` takes the smallest t with (L(t) + M) / (N + M) <= alpha,
    - ``pooled`` the smallest t with (L(t) + 1) / (N + 1) <= alpha.

    For the risk at each agent alone there is `auto`.

    Parameters
    ----------
    correction : {"mixture", "pooled"}, optional
        Whose expected loss is bounded, as above.
    points : int, optional
        Steps of the grid between the bounds.
    bounds : tuple of float, optional
        Range of the scores; a threshold beyond is +inf.
    min_gap : int, optional
        Losses are rounded up to steps of at least this number, so that a curve tells fewer single
        scores; thresholds are never lower for it.

    Notes
    -----
    **Idea**: bound the expected loss rather than the probability of a miss: raise the threshold
    until the corrected mean loss is small enough.

    .. math::

        \hat t = \min \left\{ t : \frac{L(t) + M}{N + M} \le \alpha \right\}, \qquad
        L(t) = \sum_{k=1}^{M} L_k(t)

    **Guarantee**: the expected loss of a test point is at most alpha, for losses between 0 and 1
    that fall with t. ``mixture``: for a test point that comes from agent k with probability (n_k +
    1) / (N + M) and is then exchangeable with that agent's points, given those of the other agents
    (as it is where agents are independent). ``pooled``: if all points are i.i.d. The grid costs at
    most one step of the threshold.

    ``pooled`` is the theorem of conformal risk control, ``mixture`` FCP's argument with losses in
    place of misses: give every agent one test point, and let t* be the smallest grid point (or
    +inf) at which all N + M losses have a mean of at most alpha. It does not depend on the order of
    an agent's n_k + 1 points, so the mixture's expected loss at t* is that mean's expectation; and
    the threshold is never below t*, because M such losses are at most M.

    **Cost**: one round; ``points`` + 1 floats and one integer per agent, only ever summed. Where
    points are few, the curve shows single scores as finely as the grid is.

    **Fails**: at single agents, as FCP does.

    References
    ----------
    Angelopoulos, Bates, Fisch, Lei, Schuster (2024), arXiv:2208.02814.

    Examples
    --------
    >>> import fedwqcp as fw
    >>> score = fw.MultiLabel()
    >>> probs, labels = [[0.9, 0.2], [0.6, 0.7], [0.1, 0.8]], [[1, 0], [1, 1], [0, 1]]
    >>> cal = fw.Calibration(score.of_every_label(probs), weights=score.weights(labels))
    >>> fw.calibrate({"a": cal}, method=FedCRC(), alpha=0.5).threshold("a")  # losses 0, 1, 0
    0.2
    """

    correction: Correction = "mixture"
    points: int = 1000
    bounds: tuple[float, ...] = (0.0, 1.0)
    min_gap: int = 1

    summaries = (LossCurve,)

    def __post_init__(self) -> None:
        POINTS.whole(self.points, "points")
        check_least(self.min_gap, 1, "min_gap")
        if not is_range(self.bounds):
            raise InputError(f"must be two finite numbers, got {self.bounds}", field="bounds")

    def summarize(self, cal: Calibration, alpha: float) -> LossCurve:
        losses = self.curve(cal)
        if self.min_gap > 1:
            level = cal.n / sketch_size(cal.n, cal.n, self.min_gap) if cal.n else 1.0
            losses = np.ceil(losses / level) * level
        return LossCurve(tuple(np.minimum(losses, cal.n).tolist()), cal.n)

    def curve(self, cal: Calibration) -> Floats:
        """Return the sum of an agent's losses at each threshold of the grid."""
        scores = cal.scores  # those beyond the grid are missed at every threshold
        weights = np.ones(scores.shape) if cal.weights is None else cal.weights
        cell = np.searchsorted(self.grid, scores.ravel())  # the first threshold that holds a score
        mass = np.bincount(cell, weights.ravel(), minlength=self.points + 2)
        # the loss at a threshold is the mass of all later cells
        return np.cumsum(mass[:0:-1], dtype=np.float64)[::-1]

    def aggregate(self, summaries: Sequence[LossCurve], alpha: float) -> SharedThreshold:
        L = summed(stacked([s.losses for s in summaries], self.points + 1))
        N, M = sum(s.n for s in summaries), len(summaries)
        extra = M if self.correction == "mixture" else 1
        return SharedThreshold(self.smallest(L, N, extra, alpha))

    @property
    def grid(self) -> Floats:
        """The thresholds that are tried, shape (points + 1,)."""
        low, high = self.bounds
        return low + (high - low) * (np.arange(self.points + 1) / self.points)

    @property
    def guarantee(self) -> Guarantee:
        """On the expected loss."""
        mixture = self.correction == "mixture"
        return Guarantee("risk-mixture" if mixture else "risk-iid", "finite-sample")

    @property
    def assumption(self) -> str:
        return _ASSUMPTIONS[self.correction]

    @property
    def traits(self) -> Traits:
        # decided by the terms alone: a refusal for one score beyond the bounds would tell of it
        stated = (0.0, 1.0) if self.bounds == (0.0, 1.0) else None
        return Traits(controls_risk=True, stated_range=stated)

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        levels = sketch_size(cal.n, self.points + 1, self.min_gap)
        return (Disclosure(cal.n, levels, each_level=False),)

    def smallest(self, losses: Floats, n: int, extra: int, alpha: float) -> float:
        """Return the smallest threshold with (losses + extra) / (n + extra) <= alpha, or +inf."""
        most = float((1 - exact_level(alpha)) * (n + extra) - extra)
        low_enough = losses <= most + LEVEL_TOLERANCE * (n + extra)
        return float(self.grid[low_enough.argmax()]) if low_enough.any() else inf
