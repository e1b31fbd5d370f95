"""The trimmed mean of local conformal thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedwqcp._validation import check_least
from fedwqcp.methods import Calibration, OneShot
from fedwqcp.methods._averages import capped, check_withstands, counted, weighted_mean
from fedwqcp.quantile import Overflow, conformal_quantile
from fedwqcp.wire.messages import LocalQuantile
from fedwqcp.wire.release import NO_GUARANTEE
from fedwqcp_lab.plugins.weighted_median_cp import RobustSharedThreshold


@dataclass(frozen=True)
class TrimmedMeanCP(OneShot[LocalQuantile]):
    r"""Weighted mean of local conformal thresholds without the smallest and the largest ones.

    The ``byzantine`` smallest and the ``byzantine`` largest q_k are left out; q_hat is the mean of
    the others with weights w_k = min(n_k, cap).

    Parameters
    ----------
    byzantine : int or None, optional
        How many Byzantine agents to withstand, which must be fewer than half of the agents that
        count (those with points and, under ``exclude``, with enough of them): else the round is
        refused. By default (M - 1) / 3 of the M agents that count, rounded down.
    cap : int or None, optional
        Largest size that counts; by default the median of the sizes that agents claim.
    overflow : {"propagate", "clip", "exclude"}, optional
        What an agent with too few points does: it counts as +inf, which is left out among the
        largest or makes the mean +inf; sends its largest score; or is left out beforehand.

    Notes
    -----
    **Idea**: leave out the extremes, then average.

    .. math::

        \hat q = \frac{\sum_{k \in K} w_k \, q_k}{\sum_{k \in K} w_k}, \qquad
        w_k = \min(n_k, \text{cap}),
        \qquad K = \text{agents that remain}

    **Guarantee**: none in finite samples; a heuristic. Breakdown point: as long as no more agents
    are Byzantine than are left out at each end (``withstands`` of the outcome), the threshold lies
    between the smallest and the largest honest one, whatever they claim. One more can move it
    anywhere. A round that is to withstand half of the agents that count, or more, is refused.

    An honest agent with +inf takes one of the places.

    **Cost**: one round; one float and one integer per agent. Excludes masked sums.

    **Fails**: where honest thresholds lie far apart, as the weighted median does.

    References
    ----------
    Yin, Chen, Ramchandran, Bartlett (2018), arXiv:1803.01498, for trimmed means of what agents
    send.

    Examples
    --------
    >>> answers = [LocalQuantile(q, 50) for q in (0.25, 0.5, 0.75, 999.0)]
    >>> TrimmedMeanCP(byzantine=1).aggregate(answers, alpha=0.1)
    RobustSharedThreshold(value=0.625, withstands=1)
    """

    byzantine: int | None = None
    cap: int | None = None
    overflow: Overflow = "propagate"

    summaries = (LocalQuantile,)
    outcomes = (RobustSharedThreshold,)
    guarantee = NO_GUARANTEE
    assumption = (
        "in finite samples nothing is proved: the mean of local thresholds is a heuristic; it "
        "lies between the honest local thresholds as long as no more agents are "
        "Byzantine than the outcome withstands"
    )

    def __post_init__(self) -> None:
        check_least(self.cap, 1, "cap")
        check_least(self.byzantine, 0, "byzantine")

    def summarize(self, cal: Calibration, alpha: float) -> LocalQuantile:
        return LocalQuantile(conformal_quantile(cal.scores, alpha, self.overflow), cal.n)

    def aggregate(self, summaries: Sequence[LocalQuantile], alpha: float) -> RobustSharedThreshold:
        # alpha is inside every local threshold already
        some = counted(summaries, self.overflow)
        M, others = len(some), max(0, len(some) - 1)
        check_withstands(self.byzantine, others // 2, M, len(summaries))
        out = others // 3 if self.byzantine is None else self.byzantine
        pairs = zip((s.threshold for s in some), capped([s.n for s in some], self.cap), strict=True)
        middle = sorted(pairs)[out : M - out]
        q_hat = weighted_mean([q_k for q_k, _ in middle], [w_k for _, w_k in middle])
        return RobustSharedThreshold(q_hat, out)
