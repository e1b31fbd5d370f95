"""Rob-FCP: FCP without the agents that are least like the others."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf
from typing import Any

import numpy as np
from numpy.random import Generator as Random

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.methods._answers import expect, of_kind, stacked
from fedwqcp.methods._base import Disclosure, Each, Method, Terms
from fedwqcp.methods._bisection import Bracket
from fedwqcp.methods._byzantine import (
    bin_edges,
    by_maliciousness,
    copies,
    coverage_loss,
    estimated_liars,
    vectors,
)
from fedwqcp.methods._calibration import Calibration
from fedwqcp.methods._claims import capped, check_byzantine, check_cap, check_withstands
from fedwqcp.methods._counts import CountAt, CountClaims, Counts
from fedwqcp.methods._robust import NOTHING, RobustThreshold, Span
from fedwqcp.quantile import conformal_rank, exact_level, order_statistic
from fedwqcp.wire.guarantee import Guarantee
from fedwqcp.wire.limits import BINS, POINTS
from fedwqcp.wire.payload import Begin, Outcome, Question, Summary


@dataclass(frozen=True)
class RobFCP(Method[Summary]):
    """FCP on the agents whose scores look alike; those that stand apart are left out.

    Every agent tells what share v_k of its scores lies in each of H bins. Its maliciousness is the
    sum of the distances ||v_k - v_j|| to the M_b - 1 nearest agents, M_b = M - byzantine. The
    ``byzantine`` most malicious are left out, and the threshold is the R-th smallest score of the
    others, found from counts as in FCP. Range of the bins: from the median of the agents'
    alpha-quantiles to that of their (1 - alpha)-quantiles, which fewer than half of them cannot
    move beyond honest ones.

    Parameters
    ----------
    byzantine : int or None, optional
        How many to leave out, which must be fewer than half of the agents with points: else the
        round is refused. By default it is estimated, and at least 1.
    bins : int, optional
        H, at least 3.
    cap : int or None, optional
        Largest size that counts; by default the median of the sizes that agents claim. The counts
        of a larger agent are scaled down to it.
    probes : int, optional
        Values in each question of the search.

    Notes
    -----
    Two things are added to the paper's method. An agent is bound to its histogram: a later count
    that does not fit what it said before is refused, so that who looks honest in the bins can move
    the threshold within one bin at most. And of several answers that agree in every count, each of
    at least H scores, all but the first are left out first, as copies.

    **Guarantee**: for large samples, if fewer than half of the agents are Byzantine and honest
    scores share one distribution: coverage misses that of FCP by at most
    H z / (2 sqrt(n)) (1 + 2 tau / (1 - tau)) with probability 0.95, tau being the ratio of
    Byzantine to honest agents; the outcome tells this ``loss``. For 2 of 6 agents it is 1, and says
    nothing, up to 10,000 scores for each.

    Where honest agents differ, the odd ones are left out in place of Byzantine ones that do not.

    **Cost**: about 64 / log2(probes + 1) + 2 rounds (18 for 15 probes); three numbers, then
    H - 1 counts, then ``probes`` counts a round. Not to be had from masked sums.

    References
    ----------
    Kang, Lin, Sun, Xiao, Li (2024), arXiv:2406.01960. Its published code sums the largest
    distances; this is the text's rule.

    Examples
    --------
    >>> from fedwqcp import calibrate
    >>> rng = np.random.default_rng(0)
    >>> honest = {name: rng.permutation(200)[:40] / 200 for name in "abcd"}
    >>> release = calibrate({**honest, "liar": np.zeros(40)}, method=RobFCP(byzantine=1), alpha=0.1)
    >>> release.threshold("a"), release.outcomes[0].left_out
    (0.9, (4,))
    """

    byzantine: int | None = None
    bins: int = 20
    cap: int | None = None
    probes: int = 15

    summaries = (Span, Counts)
    questions = (Begin, CountAt)
    outcomes = (RobustThreshold,)
    guarantee = Guarantee("marginal-iid", "asymptotic")
    assumption = (
        "fewer than half of the agents are Byzantine, no more than are left out, and the honest "
        "agents' scores share one distribution; then coverage misses 1 - alpha by at most the "
        "outcome's loss, with probability 0.95"
    )

    def __post_init__(self) -> None:
        check_byzantine(self.byzantine)
        check_cap(self.cap)
        BINS.whole(self.bins, "bins")
        POINTS.whole(self.probes, "probes")
        if self.bins < 3:
            raise InputError(f"bins must be an integer of at least 3, got {self.bins!r}")

    def reveals(
        self, cal: Calibration, alpha: float, *, steps: int, agents: int
    ) -> tuple[Disclosure, ...]:
        del alpha, agents
        most = max(self.bins - 1, self.probes)
        planned = self.bins - 1 + self.probes * Bracket.steps(self.probes)
        return (Disclosure(cal.n, min(cal.n, 2 + max(planned, most * (steps - 1)))),)

    def answer(self, cal: Calibration, question: Question, alpha: float, rng: Random) -> Summary:
        del rng  # nothing is random
        if isinstance(question, CountAt):
            most = max(self.bins - 1, self.probes)
            if len(question.values) > most:
                raise InputError(f"the server must ask for at most {most} counts at a time")
            counts = np.searchsorted(np.sort(cal.scores), question.values, side="right")
            return Counts(cal.n, tuple(counts.tolist()))
        if cal.n == 0:
            return Span(inf, inf, 0)
        low, high = _span_ranks(cal.n, alpha)
        return Span(order_statistic(cal.scores, low), order_statistic(cal.scores, high), cal.n)

    def check(self, question: Question, answer: Summary, earlier: Any, terms: Terms) -> Any:
        if isinstance(question, CountAt):
            return earlier.extended(question.values, expect(answer, Counts))
        span = expect(answer, Span)
        if not span.n:
            return CountClaims(0)
        ranked = zip(span.scores(), _span_ranks(span.n, terms.alpha), strict=True)
        return CountClaims.of_ranks(span.n, *ranked, low=terms.low)

    def exchange(self, alpha: float) -> Generator[Question | Each, Sequence[Summary], Outcome]:
        spans = of_kind((yield Begin()), Span)
        there = [k for k, span in enumerate(spans) if span.n]
        check_withstands(self.byzantine, max(0, len(there) - 1) // 2, len(there), len(spans))
        if not there:
            return NOTHING
        low, high = (
            _median([ends[at] for ends in (spans[k].scores() for k in there)]) for at in (0, 1)
        )
        if high == inf:
            return NOTHING
        edges = bin_edges(low, high, self.bins)
        counts = of_kind((yield CountAt(edges)), Counts)
        known = stacked([answer.counts for answer in counts], len(edges))
        sizes = [spans[k].n for k in there]
        kept = [there[at] for at in self._honest(known[there], sizes)]
        counted = dict(zip(there, capped(sizes, self.cap), strict=True))
        weights = {k: (counted[k], spans[k].n) for k in kept}
        value = yield from self._search(alpha, weights)
        left_out = tuple(k for k in there if k not in kept)
        loss = coverage_loss(self.bins, min(sizes), len(kept), len(left_out))
        return RobustThreshold(value, left_out, loss)

    def _honest(self, cumulative: Floats, sizes: Sequence[int]) -> list[int]:
        """Return the places of the agents that are taken for honest."""
        M = len(sizes)
        most = (M - 1) // 2 if self.byzantine is None else self.byzantine
        twins = copies(cumulative, sizes, self.bins)
        if len(twins) > most:  # more agree than can be liars: honest agents do
            twins = []
        rest = [k for k in range(M) if k not in twins]
        v = vectors(cumulative, sizes)[rest]
        liars = min(most, (len(rest) - 1) // 2)  # twins may be honest, so the others are searched
        if self.byzantine is None:
            liars = estimated_liars(v, liars)
        return sorted(rest[k] for k in by_maliciousness(v, liars)[: len(rest) - liars])

    def _search(
        self, alpha: float, weights: Mapping[int, tuple[int, int]]
    ) -> Generator[Question | Each, Sequence[Summary], float]:
        """Find FCP's order statistic of some agents, each counting for (so much) of (so many)."""
        N = sum(part for part, _ in weights.values())
        R = conformal_rank(N, alpha, extra=len(weights))
        if R > N:
            return inf
        bracket = Bracket()
        while bracket.open:
            probes = bracket.probes(self.probes)
            answers = of_kind((yield CountAt(probes)), Counts)
            counts = {k: answers[k].counts for k in weights}
            totals = [
                sum(counts[k][at] * part // n for k, (part, n) in weights.items())
                for at in range(len(probes))
            ]
            bracket = bracket.narrow(probes, totals, R)
        return bracket.value


def _span_ranks(n: int, alpha: float) -> tuple[int, int]:
    """Return the ranks of the alpha- and (1 - alpha)-quantile, the smaller first."""
    low = max(1, floor((n + 1) * (1 - exact_level(alpha))))
    high = min(conformal_rank(n, alpha), n)
    return min(low, high), max(low, high)


def _median(values: Sequence[float]) -> float:
    """Return the lower median."""
    return sorted(values)[(len(values) - 1) // 2]
