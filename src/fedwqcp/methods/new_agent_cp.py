"""Thresholds for an agent that took no part: every agent weighs the same, whatever its size."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import fsum, inf
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Random

from fedwqcp._validation import check_least
from fedwqcp.errors import InputError
from fedwqcp.methods._answers import expect, of_kind
from fedwqcp.methods._base import Exchange, Method, Schedule, Terms, Traits
from fedwqcp.methods._calibration import Calibration, Disclosure, one_score
from fedwqcp.methods._search import CountAt, Counts, check_counts, count_steps, search_counts
from fedwqcp.methods._sketches import WeightedPoints, counts_at, order_sketch, sketch_ranks
from fedwqcp.methods._sums import FixedPoint, Summed, Total, random_words
from fedwqcp.quantile import conformal_quantile, conformal_rank, exact_level, least_sample
from fedwqcp.wire.limits import POINTS
from fedwqcp.wire.messages import (
    Begin,
    LocalQuantile,
    Outcome,
    Question,
    SharedThreshold,
    SharedThresholdWithin,
    Summary,
)
from fedwqcp.wire.release import Guarantee

_CLOSE = 1e-9
"""Sums of shares that lie so near the level are added once more, exactly."""


@dataclass(frozen=True)
class NewAgentCP(Summed, Method[Summary]):
    r"""A threshold for a new agent that is exchangeable with those that took part.

    ``marginal``: the smallest q with sum_k F_k(q) / (M + 1) >= 1 - alpha, F_k being agent k's
    empirical distribution function; +inf where no q reaches it. ``confident``: the
    ceil((1 - delta)(M + 1))-th smallest of the agents' conformal thresholds; +inf beyond M.

    Parameters
    ----------
    form : {"marginal", "confident"}, optional
        Which of the two.
    delta : float, optional
        For ``confident``: how often a new agent may have a larger threshold of its own.
    sketch : {"order", "bisection"}, optional
        For ``marginal``: agents send evenly spaced order statistics in one round, which are read so
        that the threshold is never lower; or counts at values that the server asks for, which give
        it exactly.
    points : int, optional
        Most order statistics that ``order`` sends.
    min_gap : int, optional
        Fewest scores that a point of ``order`` stands for.
    probes : int, optional
        Values in each question of ``bisection``.

    Notes
    -----
    **Idea**: agents are a sample of agents. A conformal quantile over agents, each with the same
    weight, holds for one more of them.

    .. math::

        \hat q = \inf \left\{ q : \frac{1}{M + 1} \sum_{k=1}^{M} \hat F_k(q) \ge 1 - \alpha \right\}

    **Guarantee**: for a new agent if agents, their sizes and models included, are exchangeable, the
    new one among them, and none is left out for its size or its scores. ``marginal``: P(V <= q) >=
    1 - alpha for a point of the new agent, over the draw of agents and points. ``confident``: with
    probability at least 1 - delta over the draw of agents, the new agent's own conformal threshold,
    from a sample of an exchangeable size, would have been no larger. An agent without points, or
    whose answer was refused or did not come, still counts in M.

    Why ``marginal``: let Q be the smallest number with sum_k F_k(Q) / (M + 1) >= 1 - alpha over all
    M + 1 agents, the new one with its sample included. The point is any one of that sample, so it
    is at most Q with probability E F_{M+1}(Q), which by exchangeability of agents is the mean over
    all of them, at least 1 - alpha; and q >= Q, since it counts the missing agent as 0.
    ``confident`` takes the conformal rank among M + 1 exchangeable thresholds.
    It says nothing about the share of the new agent's population that is covered, nor about an
    agent of another size. A site that borrows a model is not exchangeable with the others.

    Finite only from 1/alpha - 1 agents (``marginal``: 9 at 0.1) or 1/delta - 1 (``confident``).

    **Cost**: ``order`` one round of at most 2 ``points`` numbers per agent; ``bisection`` about 17
    rounds of ``probes`` integers, which `calibrate` can add under masks (``secure``), shares of an
    agent rounded down; ``confident`` one round of one float and one integer.

    **Fails**: where agents are few: the threshold is +inf below 1/alpha - 1 agents (9 at alpha =
    0.1; four agents have one from alpha = 0.2). A site that borrows another's model is not
    exchangeable with the others.

    References
    ----------
    Dunn, Wasserman, Ramdas (2023), arXiv:1809.07441; arXiv:2306.06342 and arXiv:2403.16336.

    Examples
    --------
    >>> agents = [LocalQuantile(0.1 * k, 40) for k in range(1, 10)]
    >>> NewAgentCP("confident", delta=0.2).aggregate(agents)  # ceil(0.8 * 10) = 8th of 9
    SharedThreshold(value=0.8)
    """

    form: Literal["marginal", "confident"] = "marginal"
    delta: float = 0.1
    sketch: Literal["order", "bisection"] = "order"
    points: int = 64
    min_gap: int = 5
    probes: int = 15

    summaries = (WeightedPoints, Counts, LocalQuantile)
    questions = (Begin, CountAt)
    outcomes = (SharedThreshold, SharedThresholdWithin)
    assumption = (
        "agents, with their models and sample sizes, are exchangeable, the new one among them, and "
        "none was left out for its size or its scores"
    )

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise InputError(f"delta must be strictly between 0 and 1, got {self.delta!r}")
        POINTS.whole(self.points, "points")
        POINTS.whole(self.probes, "probes")
        check_least(self.min_gap, 2, "min_gap")

    def answer(self, cal: Calibration, question: Question, alpha: float, rng: Random) -> Summary:
        if isinstance(question, CountAt):
            return counts_at(cal.scores, question, self.probes)
        if self.form == "confident":
            return LocalQuantile(conformal_quantile(cal.scores, alpha), cal.n)
        if self.sketch == "bisection":
            return Counts(cal.n)
        return order_sketch(cal.scores, self.points, self.min_gap)

    def exchange(self, alpha: float) -> Exchange[Summary, Outcome]:
        answers = yield Begin()
        if self.form == "confident":
            return self.aggregate(of_kind(answers, LocalQuantile))
        least = exact_level(alpha) * (len(answers) + 1)  # what sum_k F_k(q) must reach
        if self.sketch == "order":
            return SharedThreshold(_smallest(of_kind(answers, WeightedPoints), least))
        sizes = [answer.n for answer in of_kind(answers, Counts)]
        if sum(n > 0 for n in sizes) < self.least_agents(alpha, len(sizes)):
            return SharedThreshold(inf)

        def reached(_: tuple[float, ...], answers: Sequence[Summary]) -> list[bool]:
            counted = (answer.counts for answer in of_kind(answers, Counts))
            return [_reaches(column, sizes, least) for column in zip(*counted, strict=True)]

        return SharedThreshold((yield from search_counts(self.probes, reached)))

    def aggregate(self, summaries: Sequence[LocalQuantile]) -> SharedThreshold:
        """Return the conformal rank among the agents' own thresholds."""
        rank = conformal_rank(len(summaries), self.delta)
        ordered = sorted(s.threshold for s in summaries)
        return SharedThreshold(ordered[rank - 1] if rank <= len(ordered) else inf)

    def check(self, question: Question, answer: Summary, earlier: Any, terms: Terms) -> Any:
        if not self._counts:
            return super().check(question, answer, earlier, terms)
        return check_counts(question, answer, earlier, terms.low)

    def schedule(self, agents: int, n_classes: int | None) -> Schedule:
        if not self._counts:
            return ((Begin, 1),)
        return ((Begin, 1), (CountAt, count_steps(self.probes)))

    @property
    def guarantee(self) -> Guarantee:
        """For a point of a new agent, or for its own threshold with confidence."""
        if self.form == "marginal":
            return Guarantee("new-agent-marginal", "finite-sample")
        return Guarantee("new-agent-confident", "finite-sample")

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        if self.form == "confident":
            return one_score(cal, alpha)
        if self.sketch == "order":
            ranks = sketch_ranks(cal.n, self.points, self.min_gap)
            return (Disclosure.of_ranks(cal.n, ranks),)
        questions = max(count_steps(self.probes), steps - 1)  # the first answer is n alone
        return (Disclosure(cal.n, min(cal.n, self.probes * questions)),)

    @property
    def traits(self) -> Traits:
        return Traits(
            maskable=self._counts,
            least_agents=self.least_agents,
            absent=self._absent,
        )

    def least_agents(self, alpha: float, roster: int | None = None) -> int:
        """Return how few agents give a finite threshold: in all, or with points of a roster."""
        level = alpha if self.form == "marginal" else self.delta
        return least_sample(level) if roster is None else conformal_rank(roster, level)

    def _absent(self, question: Question) -> Summary:
        """Return what stands for an agent that sends nothing: no scores, and still one of M."""
        if self.form == "confident":
            return LocalQuantile(inf, 0)
        if isinstance(question, CountAt):
            return Counts(0, (0,) * len(question.values))
        return Counts(0) if self.sketch == "bisection" else WeightedPoints((), (), 0)

    def width(self, question: Question) -> int:
        return len(question.values) if isinstance(question, CountAt) else 1

    def words(self, answer: Summary, question: Question, scale: FixedPoint) -> tuple[int, ...]:
        found = expect(answer, Counts)
        scale.check_n(found.n)
        if not isinstance(question, CountAt):
            return (0,)
        unit = 2**scale.bits - 1  # a share of 1
        return tuple(count * unit // found.n if found.n else 0 for count in found.counts)

    def out_of_range(self, question: Question) -> tuple[int, ...]:
        return random_words(len(question.values)) if isinstance(question, CountAt) else (1,)

    def from_sums(self, alpha: float, scale: FixedPoint) -> Generator[Question, Total, Outcome]:
        total = yield Begin()
        unit = 2**scale.bits - 1
        least = exact_level(alpha) * (scale.agents + 1) * unit
        if total.words[0] or least > scale.agents * unit:
            return SharedThresholdWithin(inf, 0.0)
        below = scale.low  # without rounding, too, the threshold lies above

        def reached(values: tuple[float, ...], total: Total) -> list[bool]:
            nonlocal below
            for value, word in zip(values, total.words, strict=True):
                if word + scale.agents < least:  # a share loses less than one to rounding
                    below = max(below, value)
            return [word >= least for word in total.words]

        found = yield from search_counts(self.probes, reached)
        return SharedThresholdWithin(found, max(0.0, found - below) if found < inf else 0.0)

    @property
    def _counts(self) -> bool:
        """Whether agents answer with counts at values."""
        return self.form == "marginal" and self.sketch == "bisection"


def _smallest(agents: Sequence[WeightedPoints], least: Fraction) -> float:
    """Return the smallest point at which the agents' shares reach a sum; +inf where none does."""
    known = [
        (np.asarray(a.values), np.concatenate(([0], np.cumsum(a.weights, dtype=np.int64))))
        for a in agents
    ]
    sizes = [a.n for a in agents]
    points = np.unique(np.concatenate([values for values, _ in known] or [np.empty(0)]))

    def enough(place: int) -> bool:
        at = points[place]
        counts = [int(c[np.searchsorted(values, at, side="right")]) for values, c in known]
        return _reaches(counts, sizes, least)

    first = bisect_left(range(len(points)), True, key=enough)
    return float(points[first]) if first < len(points) else inf


def _reaches(counts: Sequence[int], sizes: Sequence[int], least: Fraction) -> bool:
    """Tell whether sum_k counts_k / n_k reaches a number, by exact fractions where it is near."""
    about = fsum(c / n for c, n in zip(counts, sizes, strict=True) if n) - float(least)
    if abs(about) > _CLOSE * (1 + len(sizes)):
        return about > 0
    exact = (Fraction(c, n) for c, n in zip(counts, sizes, strict=True) if n)
    return sum(exact, Fraction(0)) >= least
