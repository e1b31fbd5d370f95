"""The weighted median of local thresholds, as far as an agent's own data allow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from fedwqcp._validation import Floats, check_least
from fedwqcp.errors import InputError
from fedwqcp.methods._averages import weighted_median
from fedwqcp.methods._base import LocalThresholds, Traits
from fedwqcp.methods._calibration import Calibration, own_data
from fedwqcp.quantile import Overflow, conformal_quantile
from fedwqcp.wire.messages import LocalQuantile, Outcome, Real, check_scores
from fedwqcp.wire.release import NO_GUARANTEE, Guarantee


class Proposal(Outcome):
    """A threshold that each agent takes as far as its own data allow.

    Parameters
    ----------
    value : float
        The threshold.
    """

    value: Real

    same_for_all = True

    def __post_init__(self) -> None:
        check_scores((self.value,), "value")


@dataclass(frozen=True)
class GuardedMedianCP(LocalThresholds):
    r"""Weighted median of local thresholds that each agent checks against its own data.

    With q_k(a) agent k's conformal threshold at level a, and q_hat the weighted median of all
    q_k(alpha), the agent predicts with q_hat moved into [q_k(alpha), q_k((1 - slack) alpha)].

    Parameters
    ----------
    slack : float, optional
        Share of alpha by which the others may lower an agent's own miscoverage, from 0 to below 1.
        At 0 it is SplitCP.
    cap : int or None, optional
        Largest size that counts; by default the median of the sizes that agents claim.
    overflow : {"propagate", "clip", "exclude"}, optional
        What an agent with too few points does. In the median it counts as
        +inf, is left out, or counts with its largest score. For its own thresholds: +inf, or under
        ``clip`` its largest score.

    Notes
    -----
    **Idea**: an agent can always trust its own data, so it uses the median of all agents only
    within bounds from its own scores.

    .. math::

        \hat q_k = \min \bigl( \max( \hat q, q_k(\alpha) ), q_k((1 - \text{slack}) \alpha) \bigr),
        \qquad
        1 - \alpha \le P(Y \in C_k(X)) \le 1 - (1 - \text{slack}) \alpha + \frac{1}{n_k + 1}

    **Guarantee**: 1 - alpha <= P(Y in C_k(X)) at every honest agent k whose test points are
    exchangeable with its calibration points, however many others are Byzantine and whatever they
    send: the threshold lies between two of its own. Without ties it is at most 1 - (1 - slack)
    alpha + 1/(n_k + 1). ``clip`` loses it.

    **Cost**: one round; one float and one integer per agent. The agent needs its calibration data
    once more to predict. Excludes masked sums.

    **Fails**: where the test data are unlike an agent's own: ``slack`` then bounds how far a
    Byzantine agent reaches, and how much honest agents can help.

    References
    ----------
    Both thresholds are split conformal ones: Papadopoulos et al. (2002). For the median: Yin, Chen,
    Ramchandran, Bartlett (2018), arXiv:1803.01498.

    Examples
    --------
    >>> from fedwqcp import calibrate
    >>> scores = np.arange(1, 100) / 100
    >>> release = calibrate(
    ...     {"a": scores, "b": scores / 2, "other": np.zeros(99)},
    ...     method=GuardedMedianCP(slack=0.5),
    ...     alpha=0.1,
    ... )
    >>> release.outcomes[0], release.threshold("a"), release.threshold("b")
    (Proposal(value=0.45), 0.9, 0.45)
    """

    slack: float = 0.05
    cap: int | None = None
    overflow: Overflow = "propagate"

    outcomes = (Proposal,)
    assumption = (
        "each agent's test points are exchangeable with its own calibration points; the other "
        "agents may send what they like"
    )

    def __post_init__(self) -> None:
        if not 0 <= self.slack < 1:
            raise InputError(f"slack must be from 0 to below 1, got {self.slack!r}")
        check_least(self.cap, 1, "cap")

    def aggregate(self, summaries: Sequence[LocalQuantile], alpha: float) -> Proposal:
        # alpha is inside every local threshold already
        return Proposal(weighted_median(summaries, self.cap, self.overflow))

    def localize(
        self, outcome: Outcome, cal: Calibration | None, position: int | None, alpha: float
    ) -> Floats:
        cal = own_data(cal, "guarded-median-cp")
        q_hat = cast(Proposal, outcome).value
        least = conformal_quantile(cal.scores, alpha, self.overflow)
        most = conformal_quantile(cal.scores, (1 - self.slack) * alpha, self.overflow)
        return np.asarray(min(max(q_hat, least), most))

    @property
    def traits(self) -> Traits:
        return Traits(predicts_from_own_data=True)

    @property
    def guarantee(self) -> Guarantee:
        """Marginal at the agent, unless the rank is clipped."""
        if self.overflow == "clip":
            return NO_GUARANTEE
        return Guarantee("marginal-agent", "finite-sample")
