"""The weighted median of local conformal thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from fedwqcp.methods._base import OneShot
from fedwqcp.methods._calibration import Calibration
from fedwqcp.methods._claims import capped, check_cap
from fedwqcp.quantile import Overflow, check_overflow, conformal_quantile
from fedwqcp.wire.guarantee import NO_GUARANTEE
from fedwqcp.wire.payload import LocalQuantile, ToAll


@dataclass(frozen=True)
class WeightedMedianCP(OneShot[LocalQuantile]):
    """Weighted median of local conformal thresholds: FedWQ-CP that a few liars cannot carry away.

    With w_k = min(n_k, cap), q_hat is the smallest q_k at or below which more than half of the
    weight lies.

    Parameters
    ----------
    cap : int or None, optional
        Largest size that counts; by default the median of the sizes that agents claim.
    overflow : {"propagate", "clip", "exclude"}, optional
        What an agent with too few points does: it counts as +inf, like any large threshold; sends
        its largest score; or is left out. Under ``propagate`` the median is +inf only where half
        of the weight is.

    Notes
    -----
    **Guarantee**: none in finite samples under heterogeneity; a heuristic. Breakdown point: the
    threshold lies between the smallest and the largest honest one as long as liars hold less than
    half of the weight. With sizes that are equal or capped to be so, that is fewer than half of the
    agents. With the default cap it holds for any sizes, honest or claimed, up to
    (floor(M / 2) + 1) / 2 liars of M >= 3 agents, rounded down: 1 of 3, 2 of 6, 3 of 10. Between
    the honest thresholds liars move it as they like, which matters where these lie far apart.

    **Cost**: one round; one float and one integer per agent. Not to be had from masked sums.

    References
    ----------
    Yin, Chen, Ramchandran, Bartlett (2018), arXiv:1803.01498, for medians of what agents send.

    Examples
    --------
    >>> answers = [LocalQuantile(0.9, 50), LocalQuantile(0.8, 60), LocalQuantile(999.0, 10**6)]
    >>> WeightedMedianCP().aggregate(answers, alpha=0.1)
    ToAll(value=0.9)
    """

    cap: int | None = None
    overflow: Overflow = "propagate"

    summaries = (LocalQuantile,)
    guarantee = NO_GUARANTEE
    assumption = (
        "none in finite samples: the median of local thresholds is a heuristic; it lies between "
        "the honest local thresholds as long as liars hold less than half of the capped weight"
    )

    def __post_init__(self) -> None:
        check_overflow(self.overflow)
        check_cap(self.cap)

    def summarize(self, cal: Calibration, alpha: float) -> LocalQuantile:
        return LocalQuantile(conformal_quantile(cal.scores, alpha, self.overflow), cal.n)

    def aggregate(self, summaries: Sequence[LocalQuantile], alpha: float) -> ToAll:
        del alpha  # already inside every local threshold
        return ToAll(self.median(summaries))

    def median(self, summaries: Sequence[LocalQuantile]) -> float:
        """Return the weighted median.

        Parameters
        ----------
        summaries : sequence of LocalQuantile
            One for each agent.

        Returns
        -------
        float
            +inf where nobody has a threshold.
        """
        some = [s for s in summaries if s.n]  # an empty agent has weight zero
        if self.overflow == "exclude":
            some = [s for s in some if s.threshold < inf]
        weights = capped([s.n for s in some], self.cap)
        total, reached = sum(weights), 0
        for q_k, w_k in sorted(zip((s.threshold for s in some), weights, strict=True)):
            reached += w_k
            if 2 * reached > total:
                return q_k
        return inf
