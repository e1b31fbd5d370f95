"""FCP: the order statistic of all agents' scores together."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.random import Generator as Random

from fedwqcp._validation import Bools, Floats, check_least
from fedwqcp.errors import InputError
from fedwqcp.methods._averages import ADDS, mean_threshold, weighted_mean
from fedwqcp.methods._base import (
    Calibration,
    Disclosure,
    Exchange,
    Method,
    Schedule,
    Terms,
    expect,
    of_kind,
    own_data,
    stacked,
)
from fedwqcp.methods._search import CountAt, CountClaims, Counts, count_steps, search_counts
from fedwqcp.methods._sketches import (
    PooledScores,
    WeightedPoints,
    counts_at,
    order_sketch,
    pooled_quantile,
    pooled_scores,
    sketch_ranks,
)
from fedwqcp.methods._sums import FixedPoint, Summed, Total, random_words
from fedwqcp.quantile import conformal_quantile, conformal_rank
from fedwqcp.wire.limits import POINTS
from fedwqcp.wire.messages import (
    Begin,
    LocalQuantile,
    Outcome,
    Question,
    SharedThreshold,
    SharedThresholdWithin,
    Summary,
    check_score,
)
from fedwqcp.wire.release import NO_GUARANTEE, Guarantee

Sketch: TypeAlias = Literal["bisection", "order", "exact"]
"""How the agents' scores reach the server."""


@dataclass(frozen=True)
class AtLeast(Outcome):
    """A shared threshold that an agent raises to its own where that is higher.

    Parameters
    ----------
    value : float
        The shared threshold.
    """

    value: float

    same_for_all = True

    def __post_init__(self) -> None:
        check_score(self.value, "value")


@dataclass(frozen=True)
class FCP(Summed, Method[Summary]):
    r"""The R-th smallest of all agents' N scores, R = ceil((N + M)(1 - alpha)); +inf where R > N.

    ``bisection`` finds it exactly from counts: after the sizes, the server asks how many scores are
    at most each of a few values. ``order`` sends evenly spaced order statistics with the counts
    between them, ``exact`` every score. The server then takes the smallest point whose cumulative
    weight reaches R.

    Parameters
    ----------
    sketch : {"bisection", "order", "exact"}, optional
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
    count_empty : bool, optional
        Whether an agent without scores counts in M.
    floor : bool, optional
        Whether the threshold is never below FedWQ-CP's of the same scores, agents with too few left
        out (``overflow="exclude"``): every set then contains FedWQ-CP's.
    own : bool, optional
        Whether an agent's threshold is never below its own conformal threshold. An agent with too
        few points for one of its own uses the shared threshold.
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
    single agent. ``bisection`` with ``count_gap=1`` and ``exact`` give exactly s_(R). ``order``,
    and ``bisection`` on coarse counts, never give less, and at most s_(R + sum_k (g_k - 1)), g_k
    being the largest gap between the ranks that agent k sends. With ``floor`` the lower bound
    stays, the upper does not. With ``own`` too, and an agent with enough points for a threshold of
    its own is also covered with probability at least 1 - alpha on test points that are exchangeable
    with its calibration points.

    Why coarse counts never give less: what the server counts at v is at most the true count, so
    that q >= s_(R); below q it counts at most R - 1, the truth at most sum_k (g_k - 1) more.
    **Cost**: ``bisection`` about 64 / log2(probes + 1) + 1 rounds (17 for 15 probes) of ``probes``
    integers; the others one round, of at most 2 ``points`` numbers (``order``), or all scores
    (``exact``, which every agent must allow). The counts of ``bisection`` are only ever summed, so
    `calibrate` can add them under masks (``secure``) with the same result; without masks the server
    sees each agent's counts. The threshold is one person's score, or a floor. ``floor`` adds an
    agent's own threshold to its first answer to ``bisection``, which cannot be masked then;
    ``order`` and ``exact`` already hold it, or a point above it. ``own`` sends nothing more; the
    agent needs its calibration data once more to predict.

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
    count_empty: bool = True
    floor: bool = False
    own: bool = False
    correction: bool = True

    summaries = (Counts, LocalQuantile, WeightedPoints, PooledScores)
    questions = (Begin, CountAt)
    outcomes = (SharedThreshold, SharedThresholdWithin, AtLeast)

    def __post_init__(self) -> None:
        POINTS.whole(self.points, "points")
        POINTS.whole(self.probes, "probes")
        check_least(self.min_gap, 2, "min_gap")
        check_least(self.count_gap, 1, "count_gap")
        if not self.correction and (self.floor or self.own):
            raise InputError("correction=False is the plain quantile: leave floor and own out")

    def answer(self, cal: Calibration, question: Question, alpha: float, rng: Random) -> Summary:
        if isinstance(question, CountAt):
            return counts_at(cal.scores, question, self.probes, self.count_gap)
        if self.sketch == "bisection" and self.floor:
            return LocalQuantile(self._own(cal, alpha), cal.n)
        if self.sketch == "bisection":
            return Counts(cal.n)
        if self.sketch == "order":
            return order_sketch(cal.scores, self.points, self.min_gap)
        return pooled_scores(cal.scores)

    def exchange(self, alpha: float) -> Exchange[Summary, Outcome]:
        shared = yield from self._shared(alpha)
        return AtLeast(shared) if self.own and shared < inf else SharedThreshold(shared)

    def _shared(self, alpha: float) -> Exchange[Summary, float]:
        """Find the threshold of the pooled scores, or the floor above it."""
        answers = yield Begin()
        sizes = [sum(answer.sizes()) for answer in answers]
        N = sum(sizes)
        R = self._rank(N, alpha, agents=len(sizes), nonempty=sum(n > 0 for n in sizes))
        floor = self._least(answers, alpha) if self.floor else -inf
        if R > N:
            return inf
        if self.sketch != "bisection":
            return max(pooled_quantile(of_kind(answers, WeightedPoints), R), floor)

        def reached(_: tuple[float, ...], sent: Sequence[Summary]) -> Bools:
            counts = stacked([answer.counts for answer in of_kind(sent, Counts)])
            return np.asarray(counts.sum(axis=0) >= R)

        found = yield from search_counts(self.probes, reached)
        return max(found, floor)

    def localize(
        self,
        outcome: Outcome,
        cal: Calibration | None,
        position: int | None,
        alpha: float,
        features: Floats | None = None,
    ) -> Floats:
        if not isinstance(outcome, AtLeast):
            return super().localize(outcome, cal, position, alpha, features)
        cal = own_data(cal, "fcp with own=True")
        enough = conformal_rank(cal.n, alpha) <= cal.n
        own = conformal_quantile(cal.scores, alpha) if enough else -inf
        return np.asarray(max(outcome.value, own))

    def check(self, question: Question, answer: Summary, earlier: Any, terms: Terms) -> Any:
        if self.sketch != "bisection":
            return super().check(question, answer, earlier, terms)
        if isinstance(question, CountAt):
            return earlier.extended(question.values, expect(answer, Counts))
        if not self.floor:
            return CountClaims.of_ranks(expect(answer, Counts).n, low=terms.low)
        own = expect(answer, LocalQuantile)
        rank = conformal_rank(own.n, terms.alpha)
        if rank > own.n:
            if own.threshold < inf:
                raise InputError("must be +inf where its rank passes n", field="threshold")
            return CountClaims.of_ranks(own.n, low=terms.low)
        return CountClaims.of_ranks(own.n, (own.threshold, rank), low=terms.low)

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
            return "none: the plain quantile of all scores counts no test point"
        mixture = (
            "a test point comes from agent k with probability (n_k + 1) / (N + M) and is then "
            "exchangeable with that agent's scores given the scores of the other agents"
        ) + (ADDS if self.floor else "")
        if self.own:
            mixture += (
                "; where an agent's own conformal threshold is higher it uses that, which covers "
                "test points that are exchangeable with its own calibration points"
            )
        return mixture

    @property
    def predicts_from_own_data(self) -> bool:
        return self.own

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        n = cal.n
        if self.sends_samples:
            return (Disclosure.of_ranks(n, range(1, n + 1)),)
        if self.sketch == "bisection" and self.count_gap == 1:
            questions = max(count_steps(self.probes), steps - 1)  # the first answer is n alone
            return (Disclosure(n, min(n, self.probes * questions + self.floor)),)
        if self.sketch == "bisection":  # whatever is asked, counts follow from these scores
            return (Disclosure.of_ranks(n, sketch_ranks(n, n, self.count_gap)),)
        return (Disclosure.of_ranks(n, sketch_ranks(n, self.points, self.min_gap)),)

    @property
    def sends_samples(self) -> bool:
        """Where every score is uploaded."""
        return self.sketch == "exact"

    @property
    def ranked_threshold(self) -> bool:
        """Not with coarse counts: the agent then sends the next point of its sketch."""
        return self.count_gap == 1

    @property
    def maskable(self) -> bool:
        """Whether sums over the agents are all it needs: by bisection, one threshold for all."""
        return self.sketch == "bisection" and not self.floor and not self.own

    # Under masks the first question sums n_k, the agents with points and the agents out of range;
    # each later one sums counts. The threshold is the same as without masks.

    def width(self, question: Question) -> int:
        return len(question.values) if isinstance(question, CountAt) else 3

    def words(self, answer: Summary, question: Question, scale: FixedPoint) -> tuple[int, ...]:
        if not isinstance(answer, Counts):
            raise InputError(f"only counts can be summed, got {answer.kind!r}")
        scale.check_n(answer.n)
        return answer.counts if isinstance(question, CountAt) else (answer.n, int(answer.n > 0), 0)

    def out_of_range(self, question: Question) -> tuple[int, ...]:
        if isinstance(question, CountAt):
            return random_words(len(question.values))
        return *random_words(2), 1

    def from_sums(self, alpha: float, scale: FixedPoint) -> Generator[Question, Total, Outcome]:
        # counts are whole numbers already: they need no scale
        total = yield Begin()
        N, nonempty, out_of_range = total.words
        R = self._rank(N, alpha, agents=total.agents, nonempty=nonempty)
        if out_of_range or R > N:
            return SharedThresholdWithin(inf, 0.0)
        value = yield from search_counts(self.probes, lambda _, sums: np.array(sums.words) >= R)
        return SharedThresholdWithin(value, 0.0)

    def _rank(self, N: int, alpha: float, *, agents: int, nonempty: int) -> int:
        """Return R: M test points count beside the N scores, one for each agent, or none."""
        M = agents if self.count_empty else nonempty
        return conformal_rank(N, alpha, extra=M if self.correction else 0)

    def _own(self, cal: Calibration, alpha: float) -> float:
        """Return the agent's own threshold, or the next of the points that it counts by."""
        rank = conformal_rank(cal.n, alpha)
        if self.count_gap == 1 or rank > cal.n:
            return conformal_quantile(cal.scores, alpha)
        return pooled_quantile([order_sketch(cal.scores, cal.n, self.count_gap)], rank)

    def _least(self, answers: Sequence[Summary], alpha: float) -> float:
        """Return the mean of the agents' own thresholds, or of the next points above them."""
        if self.sketch == "bisection":
            return mean_threshold(of_kind(answers, LocalQuantile))
        ranked = [(s, conformal_rank(s.n, alpha)) for s in of_kind(answers, WeightedPoints)]
        own = [(pooled_quantile([s], rank), s.n) for s, rank in ranked if rank <= s.n]
        return weighted_mean(*zip(*own, strict=True)) if own else -inf
