"""Rob-FCP: FCP without the agents that are least like the others.

Each agent's scores are characterised by a vector v_k, the shares of its sample in H bins. An
agent's maliciousness is the sum of its distances to the M_b - 1 agents that are nearest to it, M_b
being the number of honest ones: an honest agent has so many honest ones around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf, sqrt
from statistics import median_low
from typing import Any

import numpy as np
from numpy.random import Generator as Random

from fedwqcp._validation import Floats, check_least
from fedwqcp.errors import InputError
from fedwqcp.methods._answers import expect, of_kind, stacked
from fedwqcp.methods._averages import capped
from fedwqcp.methods._base import Exchange, Method, Schedule, Terms
from fedwqcp.methods._calibration import Calibration, Disclosure
from fedwqcp.methods._search import CountAt, Counts, check_counts, count_steps, search_counts
from fedwqcp.methods._sketches import counts_at
from fedwqcp.quantile import conformal_rank, exact_level, order_statistic
from fedwqcp.wire.limits import BINS, POINTS
from fedwqcp.wire.messages import (
    Begin,
    Outcome,
    Question,
    Real,
    SharedThreshold,
    Summary,
    check_scores,
    check_size,
    check_sizes,
)
from fedwqcp.wire.release import Guarantee
from fedwqcp_lab.plugins.robust import check_withstands


class Span(Summary):
    """Where an agent's n scores lie: its alpha- and (1 - alpha)-quantile, +inf without scores."""

    low: Real
    high: Real
    n: int

    def __post_init__(self) -> None:
        check_size(self.n, "n")
        for name in ("low", "high"):
            check_scores((getattr(self, name),), name)
        if self.low > self.high:
            raise InputError("must not be above high", field="low")

    def sizes(self) -> tuple[int, ...]:
        return (self.n,)

    def scores(self) -> tuple[float, ...]:
        return (self.low, self.high)


class RobustThreshold(SharedThreshold):
    """One threshold for every agent, and whose answers it does not rest on.

    Parameters
    ----------
    value : float
        The threshold.
    left_out : tuple of int
        Places of the agents whose answers were left out, among those that were used.
    loss : float
        By how much coverage misses 1 - alpha at most, with probability 0.95, if honest scores
        share one distribution; 1 says nothing.
    """

    value: Real
    left_out: tuple[int, ...]
    loss: float

    def __post_init__(self) -> None:
        check_scores((self.value,), "value")
        check_sizes(self.left_out, "left_out")
        if not 0 <= self.loss <= 1:
            raise InputError(f"must be from 0 to 1, got {self.loss}", field="loss")


NOTHING = RobustThreshold(inf, (), 1.0)
"""Without finite scores there is no finite threshold."""


@dataclass(frozen=True)
class RobFCP(Method[Summary]):
    r"""FCP on the agents whose scores look alike; those that stand apart are left out.

    Every agent sends what share v_k of its scores lies in each of H bins. Its maliciousness is the
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
    **Idea**: compare whole distributions of scores, leave out the agents that differ most, and pool
    the rest.

    .. math::

        m_k = \sum_{j \in \text{nearest}(k)} \lVert v_k - v_j \rVert, \qquad
        \hat q = s_{(R)} \text{ of the agents with the smallest } m_k

    Five things are added to the paper's method. The bins lie between medians of the agents'
    quantiles. Large agents count for ``cap`` scores only. An agent is bound to its histogram: a
    later count that does not fit what it said before is refused, so that who looks honest in the
    bins can move the threshold within one bin at most. Of several answers that agree in every
    count, each of at least H scores, all but the first are left out first, as copies. And where the
    number of Byzantine agents is estimated, all bins share one variance.

    **Guarantee**: for large samples, if fewer than half of the agents are Byzantine and honest
    scores share one distribution: coverage misses 1 - alpha by at most
    H z / (2 sqrt(n)) (1 + 2 tau / (1 - tau)) with probability 0.95, n being the smallest sample
    that is kept and tau the ratio of Byzantine to honest agents; this is the paper's bound for its
    method, without what is added here, and the outcome's ``loss``. For 2 of 6 agents it is 1, and
    says nothing, up to 10,000 scores for each.

    **Cost**: about 64 / log2(probes + 1) + 2 rounds (18 for 15 probes); three numbers, then
    H - 1 counts, then ``probes`` counts a round. Excludes masked sums.

    **Fails**: where honest agents differ as much as Byzantine ones do: an unusual honest agent is
    then left out in place of a Byzantine one.

    References
    ----------
    Kang, Lin, Sun, Xiao, Li (2024), arXiv:2406.01960. Its published code sums the largest
    distances; this is the text's rule.

    Examples
    --------
    >>> from fedwqcp import calibrate
    >>> rng = np.random.default_rng(0)
    >>> honest = {name: rng.permutation(200)[:40] / 200 for name in "abcd"}
    >>> agents = {**honest, "e": np.zeros(40)}
    >>> release = calibrate(agents, method=RobFCP(byzantine=1), alpha=0.1)
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
        "outcome's loss, with probability 0.95: proved for the paper's method, without what is "
        "added here"
    )

    def __post_init__(self) -> None:
        check_least(self.byzantine, 0, "byzantine")
        check_least(self.cap, 1, "cap")
        BINS.whole(self.bins, "bins")
        POINTS.whole(self.probes, "probes")
        check_least(self.bins, 3, "bins")

    def answer(self, cal: Calibration, question: Question, alpha: float, rng: Random) -> Summary:
        if isinstance(question, CountAt):
            return counts_at(cal.scores, question, max(self.bins - 1, self.probes))
        if cal.n == 0:
            return Span(inf, inf, 0)
        low, high = _span_ranks(cal.n, alpha)
        return Span(order_statistic(cal.scores, low), order_statistic(cal.scores, high), cal.n)

    def exchange(self, alpha: float) -> Exchange[Summary, Outcome]:
        spans = of_kind((yield Begin()), Span)
        there = [k for k, span in enumerate(spans) if span.n]
        check_withstands(self.byzantine, max(0, len(there) - 1) // 2, len(there), len(spans))
        if not there:
            return NOTHING
        low = median_low(spans[k].low for k in there)
        high = median_low(spans[k].high for k in there)
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
        smallest = min(spans[k].n for k in kept)  # one that is left out says nothing of the others
        loss = coverage_loss(self.bins, smallest, len(kept), len(left_out))
        return RobustThreshold(value, left_out, loss)

    def check(self, question: Question, answer: Summary, earlier: Any, terms: Terms) -> Any:
        if not isinstance(question, CountAt):
            answer = Counts(expect(answer, Span).n)
        return check_counts(question, answer, earlier, terms.low)

    def schedule(self, agents: int, n_classes: int | None) -> Schedule:
        # one question of bins, then the search
        return ((Begin, 1), (CountAt, 1 + count_steps(self.probes)))

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        most = max(self.bins - 1, self.probes)  # in any question, of bins or of the search
        questions = max(1 + count_steps(self.probes), steps - 1)
        return (Disclosure(cal.n, min(cal.n, 2 + most * questions)),)

    def _honest(self, cumulative: Floats, sizes: Sequence[int]) -> list[int]:
        """Return the places of the agents that are taken for honest."""
        M = len(sizes)
        most = (M - 1) // 2 if self.byzantine is None else self.byzantine
        copied = copies(cumulative, sizes, self.bins)
        if len(copied) > most:  # more agree than can be byzantine: honest agents do
            copied = []
        rest = [k for k in range(M) if k not in copied]
        v = vectors(cumulative, sizes)[rest]
        byzantine = min(most, (len(rest) - 1) // 2)  # copies may be honest: the others are searched
        if self.byzantine is None:
            byzantine = estimated_byzantine(v, byzantine)
        return sorted(rest[k] for k in by_maliciousness(v, byzantine)[: len(rest) - byzantine])

    def _search(
        self, alpha: float, weights: Mapping[int, tuple[int, int]]
    ) -> Exchange[Summary, float]:
        """Find FCP's order statistic; ``weights`` are (scores that count, scores) of each agent."""
        N = sum(part for part, _ in weights.values())
        R = conformal_rank(N, alpha, extra=len(weights))
        if R > N:
            return inf

        def reached(_: tuple[float, ...], answers: Sequence[Summary]) -> list[bool]:
            counts = of_kind(answers, Counts)
            shares = [[c * part // n for c in counts[k].counts] for k, (part, n) in weights.items()]
            return [sum(column) >= R for column in zip(*shares, strict=True)]

        return (yield from search_counts(self.probes, reached))


def bin_edges(low: float, high: float, bins: int) -> tuple[float, ...]:
    """Return the values that cut a range into bins, of which the outer two have no end.

    Examples
    --------
    >>> bin_edges(0.0, 1.0, 6)
    (0.0, 0.25, 0.5, 0.75, 1.0)
    """
    cuts = bins - 2
    return tuple(sorted({low * (1 - j / cuts) + high * (j / cuts) for j in range(cuts + 1)}))


def vectors(cumulative: Floats, sizes: Sequence[int]) -> Floats:
    """Return the shares of every agent's scores in the bins.

    Shapes: cumulative (M, H - 1) -> (M, H).
    """
    n = np.array(sizes, dtype=np.float64)
    counts = np.diff(np.column_stack([np.zeros_like(n), cumulative, n]), axis=1)
    return np.asarray(counts / n[:, None])


def copies(cumulative: Floats, sizes: Sequence[int], fewest: int) -> list[int]:
    """Return the agents whose whole answer another one gave before, all but the first of each.

    Of fewer scores than ``fewest``, honest ones may agree by chance. Shapes: cumulative (M, H - 1).
    """
    answers = [(n, *row) for n, row in zip(sizes, cumulative.tolist(), strict=True)]
    return [k for k, own in enumerate(answers) if own[0] >= fewest and own in answers[:k]]


def by_maliciousness(v: Floats, byzantine: int) -> list[int]:
    """Return the agents, the least malicious first, so that the last ``byzantine`` are left out.

    Equals keep the order of their vectors. Shapes: v (M, H).

    Examples
    --------
    >>> by_maliciousness(np.array([[0.5, 0.5], [0.0, 1.0], [0.4, 0.6], [0.6, 0.4]]), byzantine=1)
    [0, 2, 3, 1]
    """
    M = len(v)
    distances = np.sqrt(np.square(v[:, None] - v[None]).sum(axis=2))
    nearest = np.sort(distances, axis=1)[:, : M - byzantine]  # the first is its own, 0
    maliciousness = nearest.sum(axis=1)
    return sorted(range(M), key=lambda k: (maliciousness[k], *v[k]))


def estimated_byzantine(v: Floats, most: int) -> int:
    """Estimate the number of Byzantine agents: honest vectors likeliest, the others least.

    For each number z the M - z least malicious agents are taken for honest, with a normal
    distribution fitted to their vectors; z maximises their mean log-likelihood less that of the z
    others. With fewer agents than bins only one variance for all bins can be fitted, and the
    difference is then the others' mean squared distance from the honest mean in units of the honest
    ones' own.

    Shapes: v (M, H).

    Examples
    --------
    >>> honest, others = np.eye(5) / 10 + 0.18, np.eye(5)[:2]
    >>> estimated_byzantine(np.vstack([honest, others]), most=3)
    2
    """
    best, found = -1.0, 0
    for z in range(1, most + 1):
        order = by_maliciousness(v, z)
        honest, others = order[: len(v) - z], order[len(v) - z :]
        squares = np.square(v - v[honest].mean(axis=0)).sum(axis=1)
        spread = max(float(squares[honest].mean()), np.finfo(np.float64).tiny)
        if squares[others].mean() / spread > best:
            best, found = float(squares[others].mean()) / spread, z
    return found


def coverage_loss(bins: int, n: int, honest: int, byzantine: int, beta: float = 0.05) -> float:
    """Return by how much coverage misses 1 - alpha at most, with probability 1 - beta.

    H z / (2 sqrt(n)) (1 + 2 tau / (1 - tau)), with z the normal quantile at 1 - beta / (2 H M_b)
    and tau = M_m / M_b, for M_b honest agents of n scores from one distribution and M_m < M_b
    Byzantine ones. At most 1, which says nothing.

    Examples
    --------
    >>> round(coverage_loss(bins=20, n=10**6, honest=4, byzantine=2), 3)
    0.103
    """
    from scipy.special import ndtri

    if byzantine >= honest:
        return 1.0
    z = float(ndtri(1 - beta / (2 * bins * honest)))
    tau = byzantine / honest
    return min(1.0, bins * z / (2 * sqrt(n)) * (1 + 2 * tau / (1 - tau)))


def _span_ranks(n: int, alpha: float) -> tuple[int, int]:
    """Return the ranks of the alpha- and (1 - alpha)-quantile, the smaller first."""
    low = max(1, floor((n + 1) * (1 - exact_level(alpha))))
    high = min(conformal_rank(n, alpha), n)
    return min(low, high), max(low, high)
