"""FCP: the order statistic of all agents' scores together."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.random import Generator as Random

from fedwqcp._validation import Bools, check_least
from fedwqcp.errors import InputError
from fedwqcp.methods._answers import of_kind, stacked
from fedwqcp.methods._base import MIXTURE, Exchange, Method, Schedule, Terms, Traits
from fedwqcp.methods._calibration import Calibration, Disclosure
from fedwqcp.methods._masked_sums import FixedPoint, Summed, Total, random_words
from fedwqcp.methods._search import CountAt, Counts, check_counts, count_steps, search_counts
from fedwqcp.methods._sketches import (
    WeightedPoints,
    counts_at,
    order_sketch,
    pooled_quantile,
    sketch_ranks,
)
from fedwqcp.quantile import conformal_rank
from fedwqcp.wire.limits import POINTS
from fedwqcp.wire.messages import (
    Begin,
    Outcome,
    Question,
    SharedThreshold,
    SharedThresholdWithin,
    Summary,
)
from fedwqcp.wire.release import NO_GUARANTEE, Guarantee

Sketch: TypeAlias = Literal["bisection", "order"]
"""How the agents' scores reach the server."""


@dataclass(frozen=True)
class FCP(Summed, Method[Summary]):
    r"""The R-th smallest of all agents' N scores, R = ceil((N + M)(1 - alpha)); +inf where R > N.

    ``bisection`` finds it exactly from counts: after the sizes, the server asks how many scores are
    at most each of a few values. ``order`` sends evenly spaced order statistics with the counts
    between them, of which the server takes the smallest whose cumulative weight reaches R.

    Parameters
    ----------
    sketch : {"bisection", "order"}, optional
        How the scores reach the server.
    points : int, optional
        Most order statistics that ``order`` sends.
    probes : int, optional
        Values in each question of ``bisection``.
    min_gap : int, optional
        Fewest scores that a point of ``order`` stands for, so that a small agent does not send its
        whole sample.
    count_gap : int, optional
        Counts of ``bisection`` go up in steps of at least so many scores: an agent answers from the
        points that ``order`` would send for this gap, whatever is asked. 1 counts exactly.
    correction : bool, optional
        Whether M test points count in the rank. Without them R = ceil(N (1 - alpha)), the plain
        quantile of all scores, of which nothing is proved (`fedwqcp.federated_quantile`).

    Notes
    -----
    **Idea**: the threshold of all scores pooled in one place, found without collecting them there.

    .. math::

        \hat q = s_{(R)}, \qquad R = \lceil (N + M)(1 - \alpha) \rceil, \qquad
        1 - \alpha \le \sum_{k=1}^{M} \frac{n_k + 1}{N + M} P_k(V \le \hat q)
        \le 1 - \alpha + \frac{M}{N + M}

    **Guarantee**: 1 - alpha <= P(Y in C(X)) for a test point that comes from agent k with
    probability (n_k + 1) / (N + M) and is then exchangeable with that agent's scores, given the
    scores of the other agents (as it is where agents are independent), ties included. Where s_(R)
    is exact and there are no ties, it is at most 1 - alpha + M / (N + M). Nothing is promised at a
    single agent. ``bisection`` with ``count_gap=1`` gives exactly s_(R). ``order``,
    and ``bisection`` on coarse counts, never give less, and at most s_(R + sum_k (g_k - 1)), g_k
    being the largest gap between the ranks that agent k sends.

    Why coarse counts never give less: what the server counts at v is at most the true count, so
    that q >= s_(R); below q it counts at most R - 1, the truth at most sum_k (g_k - 1) more.
    **Cost**: ``bisection`` about 64 / log2(probes + 1) + 1 rounds (17 for 15 probes) of ``probes``
    integers; ``order`` one round, of at most 2 ``points`` numbers. Counts are only ever summed, so
    `calibrate` can add them under masks (``secure``) with the same result; without masks the server
    sees each agent's counts. The threshold is one person's score.

    **Fails**: at single agents whose scores are larger than the others'.

    References
    ----------
    Lu, Yu, Karimireddy, Jordan, Raskar (2023), arXiv:2305.17564.

    Examples
    --------
    >>> from fedwqcp import calibrate
    >>> agents = {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.2, 0.5, 0.6, 0.7, 0.8]}
    >>> calibrate(agents, method=FCP(), alpha=0.3).threshold("a")  # R = ceil(11 * 0.7) = 8 of 9
    0.7
    """

    sketch: Sketch = "bisection"
    points: int = 64
    probes: int = 15
    min_gap: int = 5
    count_gap: int = 1
    correction: bool = True

    summaries = (Counts, WeightedPoints)
    questions = (Begin, CountAt)
    outcomes = (SharedThreshold, SharedThresholdWithin)

    def __post_init__(self) -> None:
        POINTS.whole(self.points, "points")
        POINTS.whole(self.probes, "probes")
        check_least(self.min_gap, 2, "min_gap")
        check_least(self.count_gap, 1, "count_gap")

    def answer(self, cal: Calibration, question: Question, alpha: float, rng: Random) -> Summary:
        if isinstance(question, CountAt):
            return counts_at(cal.scores, question, self.probes, self.count_gap)
        if self.sketch == "bisection":
            return Counts(cal.n)
        return order_sketch(cal.scores, self.points, self.min_gap)

    def exchange(self, alpha: float) -> Exchange[Summary, Outcome]:
        answers = yield Begin()
        sizes = [sum(answer.sizes()) for answer in answers]
        N = sum(sizes)
        R = self._rank(N, alpha, len(sizes))
        if R > N:
            return SharedThreshold(inf)
        if self.sketch != "bisection":
            return SharedThreshold(pooled_quantile(of_kind(answers, WeightedPoints), R))

        def reached(_: tuple[float, ...], sent: Sequence[Summary]) -> Bools:
            counts = stacked([answer.counts for answer in of_kind(sent, Counts)])
            return np.asarray(counts.sum(axis=0) >= R)

        return SharedThreshold((yield from search_counts(self.probes, reached)))

    def check(self, question: Question, answer: Summary, earlier: Any, terms: Terms) -> Any:
        if self.sketch != "bisection":
            return super().check(question, answer, earlier, terms)
        return check_counts(question, answer, earlier, terms.low)

    def schedule(self, agents: int, n_classes: int | None) -> Schedule:
        if self.sketch != "bisection":
            return ((Begin, 1),)
        return ((Begin, 1), (CountAt, count_steps(self.probes)))

    @property
    def guarantee(self) -> Guarantee:
        """Marginal over the mixture of agents."""
        if not self.correction:
            return NO_GUARANTEE
        return Guarantee("marginal-mixture", "finite-sample")

    @property
    def assumption(self) -> str:
        if not self.correction:
            return "the plain quantile of all scores counts no test point"
        return MIXTURE

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        n = cal.n
        if self.sketch == "bisection" and self.count_gap == 1:
            questions = max(count_steps(self.probes), steps - 1)  # the first answer is n alone
            return (Disclosure(n, min(n, self.probes * questions)),)
        if self.sketch == "bisection":  # whatever is asked, counts follow from these scores
            return (Disclosure.of_ranks(n, sketch_ranks(n, n, self.count_gap)),)
        return (Disclosure.of_ranks(n, sketch_ranks(n, self.points, self.min_gap)),)

    @property
    def traits(self) -> Traits:
        return Traits(maskable=self.sketch == "bisection")

    # Under masks the first question sums n_k and the agents out of range;
    # each later one sums counts. The threshold is the same as without masks.

    def words(self, answer: Summary, question: Question, scale: FixedPoint) -> tuple[int, ...]:
        if not isinstance(answer, Counts):
            raise InputError(f"only counts can be summed, got {answer.kind!r}")
        scale.check_n(answer.n)
        return answer.counts if isinstance(question, CountAt) else (answer.n, 0)

    def out_of_range(self, question: Question) -> tuple[int, ...]:
        if isinstance(question, CountAt):
            return random_words(len(question.values))
        return *random_words(1), 1

    def from_sums(self, alpha: float, scale: FixedPoint) -> Generator[Question, Total, Outcome]:
        # counts are whole numbers already: they need no scale
        total = yield Begin()
        N, out_of_range = total.words
        R = self._rank(N, alpha, total.agents)
        if out_of_range or R > N:
            return SharedThresholdWithin(inf, 0.0)
        value = yield from search_counts(self.probes, lambda _, sums: np.array(sums.words) >= R)
        return SharedThresholdWithin(value, 0.0)

    def _rank(self, N: int, alpha: float, agents: int) -> int:
        """Return R: a test point of each agent counts beside the N scores, or none does."""
        return conformal_rank(N, alpha, extra=agents if self.correction else 0)
