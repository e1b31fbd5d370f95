"""FedWQ-CP: the calibration-size-weighted mean of local conformal thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedwqcp.errors import InputError
from fedwqcp.methods._averages import counted, weighted_mean
from fedwqcp.methods._base import OneShot, Terms, Traits
from fedwqcp.methods._calibration import Calibration, Disclosure, one_score
from fedwqcp.methods._masked_sums import SummedMean
from fedwqcp.quantile import (
    Overflow,
    conformal_quantile,
    conformal_rank,
    order_statistics,
    tail_ranks,
)
from fedwqcp.wire.messages import (
    MOST_TAIL,
    LocalQuantile,
    QuantileAndTail,
    Question,
    SharedThreshold,
    Summary,
)


@dataclass(frozen=True)
class FedWQCP(SummedMean, OneShot[LocalQuantile]):
    r"""Calibration-size-weighted mean of local conformal thresholds (Algorithm 1 of the paper).

    q_hat = sum_k n_k q_k / N, with q_k the r(n_k, alpha)-th smallest score of agent k.

    Parameters
    ----------
    overflow : {"propagate", "clip", "exclude"}, optional
        What an agent with too few points does: +inf for everyone, its largest score, or nothing.
    tail : int, optional
        How many more order statistics each agent sends, 16 at most; an agent with n points sends at
        most n/10. The threshold does not depend on them: they show whether it is safe
        (`fedwqcp.theory.diagnose`); a threshold and a size per agent cannot show that.

    Notes
    -----
    **Idea**: every agent finds its own threshold; the server averages them, and large agents count
    more.

    .. math::

        \hat q = \frac{1}{N} \sum_{k=1}^{M} n_k \, q_k

    **Guarantee**: none in finite samples, not even with identical agents; a heuristic. The
    threshold lies between the smallest and the largest local one.

    **Cost**: one round; one float and one integer per agent, and ``tail`` more of each. Each order
    statistic is one person's score. ``tail`` excludes masked sums.

    **Fails**: where agents' score scales differ: weights depend on sample sizes, not on models.
    Even among identical agents, averaging order statistics over-covers where the quantile function
    is convex (residuals) and under-covers where it is concave (scores that gather at an upper
    bound). Transforming all scores by one increasing function changes which points are covered,
    unless the function is affine.

    References
    ----------
    Nguyen, Wang, Ku (2026), arXiv:2602.23296.

    Examples
    --------
    >>> FedWQCP().aggregate([LocalQuantile(0.9, 10), LocalQuantile(0.3, 30)], alpha=0.2)
    SharedThreshold(value=0.45)
    """

    overflow: Overflow = "propagate"
    tail: int = 0

    summaries = (LocalQuantile, QuantileAndTail)

    def __post_init__(self) -> None:
        if not 0 <= self.tail <= MOST_TAIL:
            raise InputError(f"tail must be an integer from 0 to {MOST_TAIL}, got {self.tail!r}")

    def summarize(self, cal: Calibration, alpha: float) -> LocalQuantile:
        q_k = conformal_quantile(cal.scores, alpha, self.overflow)  # line 3
        if self.tail:
            ranks = tail_ranks(cal.n, alpha, self.tail)
            return QuantileAndTail(q_k, cal.n, ranks, order_statistics(cal.scores, ranks))
        return LocalQuantile(threshold=q_k, n=cal.n)  # line 4

    def aggregate(self, summaries: Sequence[LocalQuantile], alpha: float) -> SharedThreshold:
        # alpha is inside every local threshold already
        some = counted(summaries, self.overflow)
        q_hat = weighted_mean([s.threshold for s in some], [s.n for s in some])  # line 6
        return SharedThreshold(q_hat)  # line 7

    def check(self, question: Question, answer: Summary, earlier: Any, terms: Terms) -> Any:
        tail = isinstance(answer, QuantileAndTail)
        if tail != (self.tail > 0):
            raise InputError(f"must hold a tail of {self.tail}, as the round asks", field="answers")
        if isinstance(answer, QuantileAndTail):
            rank = conformal_rank(answer.n, terms.alpha)
            answer.check(min(rank, answer.n) if self.overflow == "clip" else rank)
        return super().check(question, answer, earlier, terms)

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        (threshold,) = one_score(cal, alpha, self.overflow)
        tail = tail_ranks(cal.n, alpha, self.tail) if self.tail else ()
        return (Disclosure.of_ranks(cal.n, (*threshold.ranks, *tail)),)

    @property
    def traits(self) -> Traits:
        some = super().traits
        return replace(some, maskable=some.maskable and not self.tail)
