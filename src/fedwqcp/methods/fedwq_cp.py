"""FedWQ-CP: the calibration-size-weighted mean of local conformal thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from fedwqcp.methods._base import OneShot
from fedwqcp.methods._calibration import Calibration
from fedwqcp.methods._mean import weighted_mean
from fedwqcp.methods._sums import SummedMean
from fedwqcp.quantile import Overflow, check_overflow, conformal_quantile
from fedwqcp.wire.guarantee import NO_GUARANTEE
from fedwqcp.wire.masked import ToAllWithin
from fedwqcp.wire.payload import LocalQuantile, ToAll


@dataclass(frozen=True)
class FedWQCP(SummedMean, OneShot[LocalQuantile]):
    """Calibration-size-weighted mean of local conformal thresholds (Algorithm 1 of the paper).

    q_hat = sum_k n_k q_k / N, with q_k the r(n_k, alpha)-th smallest score of agent k.

    Parameters
    ----------
    overflow : {"propagate", "clip", "exclude"}, optional
        What an agent with too few points does: +inf for everyone, its largest score, or nothing.

    Notes
    -----
    **Guarantee**: none in finite samples, not even with identical agents; a heuristic. The
    threshold lies between the smallest and the largest local one.

    **Cost**: one round; one float and one integer per agent.

    References
    ----------
    Nguyen, Wang, Ku (2026), arXiv:2602.23296.

    Examples
    --------
    >>> FedWQCP().aggregate([LocalQuantile(0.9, 10), LocalQuantile(0.3, 30)], alpha=0.2)
    ToAll(value=0.45)
    """

    overflow: Overflow = "propagate"

    summaries = (LocalQuantile,)
    outcomes = (ToAll, ToAllWithin)
    guarantee = NO_GUARANTEE
    assumption = (
        "none in finite samples: the mean of local thresholds is a heuristic; "
        "it lies between the extreme local thresholds"
    )

    def __post_init__(self) -> None:
        check_overflow(self.overflow)

    def summarize(self, cal: Calibration, alpha: float) -> LocalQuantile:
        q_k = conformal_quantile(cal.scores, alpha, self.overflow)  # line 3
        return LocalQuantile(threshold=q_k, n=cal.n)  # line 4

    def aggregate(self, summaries: Sequence[LocalQuantile], alpha: float) -> ToAll:
        del alpha  # already inside every local threshold
        some = [s for s in summaries if s.n]  # an empty agent has weight zero
        if self.overflow == "exclude":
            some = [s for s in some if s.threshold < inf]
        q_hat = weighted_mean([s.threshold for s in some], [s.n for s in some])  # line 6
        return ToAll(q_hat)  # line 7
