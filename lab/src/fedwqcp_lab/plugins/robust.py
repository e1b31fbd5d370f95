"""Two thresholds that a few Byzantine agents cannot move far: a median and a trimmed mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from fedwqcp._validation import check_least
from fedwqcp.errors import QuorumError
from fedwqcp.methods import LocalThresholds
from fedwqcp.methods._averages import (
    capped,
    counted,
    weighted_mean,
    weighted_median,
)
from fedwqcp.quantile import Overflow
from fedwqcp.wire.messages import LocalQuantile, SharedThreshold, check_size
from fedwqcp.wire.release import NO_GUARANTEE


class RobustSharedThreshold(SharedThreshold):
    """One threshold for every agent, and how many Byzantine agents it withstands.

    Parameters
    ----------
    value : float
        The threshold.
    withstands : int
        As long as no more agents are Byzantine, the threshold lies between the smallest and the
        largest local threshold of the others.
    """

    withstands: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size(self.withstands, "withstands")


def fewer_than_half(weights: Sequence[int]) -> int:
    """Return how many agents, whoever they are, hold less than half of the weight.

    Examples
    --------
    >>> fewer_than_half([50, 60, 60, 60]), fewer_than_half([10, 10])
    (1, 0)
    """
    heaviest = accumulate(sorted(weights, reverse=True))
    return sum(2 * together < sum(weights) for together in heaviest)


@dataclass(frozen=True)
class _Robust(LocalThresholds):
    """The settings of both, and what they promise."""

    byzantine: int | None = None
    cap: int | None = None
    overflow: Overflow = "propagate"

    outcomes = (RobustSharedThreshold,)
    guarantee = NO_GUARANTEE
    assumption = (
        "a heuristic; the threshold lies between the honest local ones as long as no more agents "
        "are Byzantine than the outcome withstands"
    )

    def __post_init__(self) -> None:
        check_least(self.byzantine, 0, "byzantine")
        check_least(self.cap, 1, "cap")


@dataclass(frozen=True)
class WeightedMedianCP(_Robust):
    r"""Weighted median of local conformal thresholds, which a few Byzantine agents cannot move far.

    With w_k = min(n_k, cap), q_hat is the smallest q_k at or below which more than half of the
    weight lies.

    Parameters
    ----------
    byzantine : int or None, optional
        How many Byzantine agents to withstand; a round whose answers withstand fewer is refused. By
        default none is asked for: the outcome says how many it withstands.
    cap : int or None, optional
        Largest size that counts; by default the median of the sizes that agents claim.
    overflow : {"propagate", "clip", "exclude"}, optional
        What an agent with too few points does: it counts as +inf, like any large threshold; sends
        its largest score; or is left out. Under ``propagate`` the median is +inf only where half
        of the weight is.

    Notes
    -----
    **Idea**: Byzantine agents must hold half of the total weight to move the median beyond the
    honest thresholds.

    .. math::

        \hat q = \min \left\{ q_k : \sum_{j : q_j \le q_k} w_j > \frac{1}{2} \sum_j w_j \right\},
        \qquad
        w_k = \min(n_k, \text{cap})

    **Guarantee**: none in finite samples; a heuristic. Breakdown point: the threshold lies between
    the smallest and the largest honest one as long as Byzantine agents hold less than half of the
    weight of the agents that count, those with points and, under ``exclude``, with enough of them.
    The outcome says how many agents that is, whoever they are and whatever they claim
    (``withstands``). With the default cap it is at least (floor(M / 2) + 1) / 2, rounded down, of M
    >= 3 agents that count: 1 of 3, 2 of 6, 3 of 10. A round that is to withstand more than it does
    is refused.

    Where the weights are equal, fewer than half of the agents are withstood. Byzantine agents move
    the threshold between the honest ones as they like, which matters where these lie far apart; and
    they can have a round refused that asks for more than it withstands.

    **Cost**: one round; one float and one integer per agent. Excludes masked sums.

    **Fails**: where honest thresholds lie far apart: Byzantine agents then move it from one to the
    next.

    References
    ----------
    Yin, Chen, Ramchandran, Bartlett (2018), arXiv:1803.01498, for medians of what agents send.

    Examples
    --------
    >>> answers = [LocalQuantile(0.9, 50), LocalQuantile(0.8, 60), LocalQuantile(999.0, 10**6)]
    >>> WeightedMedianCP().aggregate(answers, alpha=0.1)
    RobustSharedThreshold(value=0.9, withstands=1)
    """

    def aggregate(self, summaries: Sequence[LocalQuantile], alpha: float) -> RobustSharedThreshold:
        # alpha is inside every local threshold already
        some = counted(summaries, self.overflow)
        weights = capped([s.n for s in some], self.cap)
        withstands = fewer_than_half(weights)
        check_withstands(self.byzantine, withstands, len(some), len(summaries))
        return RobustSharedThreshold(
            weighted_median(summaries, self.cap, self.overflow), withstands
        )


@dataclass(frozen=True)
class TrimmedMeanCP(_Robust):
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


def check_withstands(byzantine: int | None, withstands: int, left: int, answers: int) -> None:
    """Refuse a round that withstands fewer Byzantine agents than its settings ask for."""
    if byzantine is not None and left and withstands < byzantine:
        raise QuorumError(
            f"the round is to withstand byzantine={byzantine} agents, and its answers withstand "
            f"{withstands}: {left} of {answers} agents that answered have a threshold that counts; "
            "wait for more agents, or open a round with a smaller byzantine, a cap on sizes, or "
            "overflow='propagate'"
        )
