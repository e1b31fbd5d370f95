"""The largest of the agents' conformal thresholds: coverage at every agent, whatever the mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from fedwqcp.methods._base import LocalThresholds
from fedwqcp.wire.messages import LocalQuantile, SharedThreshold
from fedwqcp.wire.release import Guarantee


@dataclass(frozen=True)
class MaxCP(LocalThresholds):
    r"""The largest local conformal threshold, max_k q_k, for every agent.

    Parameters
    ----------
    overflow : {"propagate", "exclude"}, optional
        What an agent with too few points, or none, does: +inf for everyone, or it is left out and
        has no promise. ``clip`` is refused: the largest of few scores covers too little.

    Notes
    -----
    **Idea**: the threshold that is enough for the agent with the largest scores is enough for every
    agent.

    .. math::

        \hat q = \max_k q_k

    **Guarantee**: coverage of at least 1 - alpha, in finite samples, at every agent that counts and
    whose test points are exchangeable with its calibration points; so too under every mixture of
    these agents' distributions, known or not, where each point is scored by its own agent's model.
    An agent that was left out, refused or absent has no promise.

    Why: q_k <= max_j q_j, so that P(V_k <= max_j q_j) >= P(V_k <= q_k) >= 1 - alpha, and a mixture
    of probabilities of at least 1 - alpha is at least 1 - alpha.

    **Cost**: one round; one float and one integer per agent. Excludes masked sums.

    **Fails**: to give small sets: easy agents are covered far more often than asked, and one agent
    decides for all. An agent with too few points makes it +inf, or with ``exclude`` is left out.

    References
    ----------
    arXiv:2601.02998, for several distributions at once.

    Examples
    --------
    >>> MaxCP().aggregate([LocalQuantile(0.9, 50), LocalQuantile(0.3, 500)], alpha=0.1)
    SharedThreshold(value=0.9)
    """

    overflow: Literal["propagate", "exclude"] = "propagate"

    guarantee = Guarantee("multi-distribution", "finite-sample")

    def aggregate(self, summaries: Sequence[LocalQuantile], alpha: float) -> SharedThreshold:
        # alpha is inside every local threshold already
        thresholds = [s.threshold for s in summaries]  # +inf where an agent has too few points
        if self.overflow == "exclude":
            thresholds = [q for q in thresholds if q < inf]
        return SharedThreshold(max(thresholds, default=inf))

    @property
    def assumption(self) -> str:
        least = (
            "each test point is exchangeable with the calibration points of the agent whose model "
            "scores it, and that agent's answer was used"
        )
        if self.overflow == "exclude":
            return f"{least}; agents with too few points are left out and have no promise"
        return least
