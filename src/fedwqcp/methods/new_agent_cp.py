"""Thresholds for an agent that took no part: every agent weighs the same, whatever its size."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import fsum, inf
from typing import Literal

import numpy as np

from fedwqcp._validation import check_least
from fedwqcp.errors import InputError
from fedwqcp.methods._answers import of_kind
from fedwqcp.methods._base import OneShot, Traits
from fedwqcp.methods._calibration import Calibration, Disclosure, one_score
from fedwqcp.methods._sketches import WeightedPoints, order_sketch, sketch_ranks
from fedwqcp.quantile import conformal_quantile, conformal_rank, exact_level, least_sample
from fedwqcp.wire.limits import POINTS
from fedwqcp.wire.messages import LocalQuantile, SharedThreshold, Summary
from fedwqcp.wire.release import Guarantee

_CLOSE = 1e-9
"""Sums of shares that lie so near the level are added once more, exactly."""


@dataclass(frozen=True)
class NewAgentCP(OneShot[Summary]):
    r"""A threshold for a new agent that is exchangeable with those that took part.

    ``marginal``: the smallest q with sum_k F_k(q) / (M + 1) >= 1 - alpha, F_k being agent k's
    empirical distribution function; +inf where no q reaches it. Agents send evenly spaced order
    statistics, which are read so that the threshold is never lower. ``confident``: the
    ceil((1 - delta)(M + 1))-th smallest of the agents' conformal thresholds; +inf beyond M.

    Parameters
    ----------
    form : {"marginal", "confident"}, optional
        Which of the two.
    delta : float, optional
        For ``confident``: how often a new agent may have a larger threshold of its own.
    points : int, optional
        For ``marginal``: most order statistics that an agent sends.
    min_gap : int, optional
        Fewest scores that one of them stands for.

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

    **Cost**: one round of at most 2 ``points`` numbers per agent, or for ``confident`` of one float
    and one integer. Excludes masked sums.

    **Fails**: where agents are few: the threshold is +inf below 1/alpha - 1 agents (9 at alpha =
    0.1; four agents have one from alpha = 0.2). A site that borrows another's model is not
    exchangeable with the others.

    References
    ----------
    Dunn, Wasserman, Ramdas (2023), arXiv:1809.07441; arXiv:2306.06342 and arXiv:2403.16336.

    Examples
    --------
    >>> agents = [LocalQuantile(0.1 * k, 40) for k in range(1, 10)]
    >>> NewAgentCP("confident", delta=0.2).aggregate(agents, 0.1)  # the 8th of 9
    SharedThreshold(value=0.8)
    """

    form: Literal["marginal", "confident"] = "marginal"
    delta: float = 0.1
    points: int = 64
    min_gap: int = 5

    summaries = (WeightedPoints, LocalQuantile)
    assumption = (
        "agents, with their models and sample sizes, are exchangeable, the new one among them, and "
        "none was left out for its size or its scores"
    )

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise InputError(f"delta must be strictly between 0 and 1, got {self.delta!r}")
        POINTS.whole(self.points, "points")
        check_least(self.min_gap, 2, "min_gap")

    def summarize(self, cal: Calibration, alpha: float) -> Summary:
        if self.form == "confident":
            return LocalQuantile(conformal_quantile(cal.scores, alpha), cal.n)
        return order_sketch(cal.scores, self.points, self.min_gap)

    def aggregate(self, summaries: Sequence[Summary], alpha: float) -> SharedThreshold:
        M = len(summaries)
        if self.form == "marginal":
            least = exact_level(alpha) * (M + 1)  # what sum_k F_k(q) must reach
            return SharedThreshold(_smallest(of_kind(summaries, WeightedPoints), least))
        rank = conformal_rank(M, self.delta)  # among the agents' own thresholds
        thresholds = sorted(s.threshold for s in of_kind(summaries, LocalQuantile))
        return SharedThreshold(thresholds[rank - 1] if rank <= M else inf)

    @property
    def guarantee(self) -> Guarantee:
        """For a point of a new agent, or for its own threshold with confidence."""
        if self.form == "marginal":
            return Guarantee("new-agent-marginal", "finite-sample")
        return Guarantee("new-agent-confident", "finite-sample")

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        if self.form == "confident":
            return one_score(cal, alpha)
        return (Disclosure.of_ranks(cal.n, sketch_ranks(cal.n, self.points, self.min_gap)),)

    @property
    def traits(self) -> Traits:
        # an agent that sends nothing is still one of M
        confident = self.form == "confident"
        absent = LocalQuantile(inf, 0) if confident else WeightedPoints((), (), 0)
        return Traits(least_agents=self.least_agents, absent=absent)

    def least_agents(self, alpha: float, roster: int | None = None) -> int:
        """Return how few agents give a finite threshold: in all, or with points of a roster."""
        level = alpha if self.form == "marginal" else self.delta
        return least_sample(level) if roster is None else conformal_rank(roster, level)


def _smallest(agents: Sequence[WeightedPoints], least: Fraction) -> float:
    """Return the smallest point at which the agents' shares reach a sum; +inf where none does."""
    known = [
        (np.asarray(a.values), np.concatenate(([0], np.cumsum(a.weights, dtype=np.int64))))
        for a in agents
    ]
    sizes = [a.n for a in agents]
    points = np.unique(np.concatenate([values for values, _ in known] or [np.empty(0)]))

    def enough(index: int) -> bool:
        value = points[index]
        counts = [int(c[np.searchsorted(values, value, side="right")]) for values, c in known]
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
