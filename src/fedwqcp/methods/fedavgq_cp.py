"""FedAvgQ-CP: the plain mean of local conformal thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedwqcp.methods._averages import counted, weighted_mean
from fedwqcp.methods._base import LocalThresholds
from fedwqcp.methods._masked_sums import SummedMean
from fedwqcp.quantile import Overflow
from fedwqcp.wire.messages import LocalQuantile, SharedThreshold


@dataclass(frozen=True)
class FedAvgQCP(SummedMean, LocalThresholds):
    r"""Plain mean of local conformal thresholds: FedWQ-CP without its weights.

    q_hat is the mean of q_k over the agents with n_k >= 1, where q_k is the r(n_k, alpha)-th
    smallest score of agent k.

    Parameters
    ----------
    overflow : {"propagate", "clip", "exclude"}, optional
        What an agent with too few points does: +inf for everyone, its largest score, or nothing.

    Notes
    -----
    **Idea**: the mean of local thresholds without weights.

    .. math::

        \hat q = \frac{1}{M} \sum_{k=1}^{M} q_k

    **Guarantee**: none in finite samples, not even with identical agents; a heuristic. The
    threshold lies between the smallest and the largest local one.

    **Cost**: one round; one float and one integer per agent.

    **Fails**: like FedWQ-CP; a tiny agent also counts as much as a large one.

    References
    ----------
    Nguyen, Wang, Ku (2026), arXiv:2602.23296; as "FedCP-Avg" in Humbert, Le Bars, Bellet, Arlot
    (2023), arXiv:2302.06322.

    Examples
    --------
    >>> FedAvgQCP().aggregate([LocalQuantile(0.9, 10), LocalQuantile(0.3, 30)], alpha=0.2)
    SharedThreshold(value=0.6)
    """

    overflow: Overflow = "propagate"

    weighted = False

    def aggregate(self, summaries: Sequence[LocalQuantile], alpha: float) -> SharedThreshold:
        # alpha is inside every local threshold already
        thresholds = [s.threshold for s in counted(summaries, self.overflow)]
        return SharedThreshold(weighted_mean(thresholds, [1] * len(thresholds)))
