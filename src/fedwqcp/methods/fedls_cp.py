"""FedLS-CP: one threshold for each agent, corrected for label shift, in one round.

An agent sends some order statistics of each class; the server reads distributions from them and
shrinks an agent's own towards those of the other agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context
from functools import lru_cache
from itertools import chain
from math import ceil, inf, isfinite
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Floats, check_least
from fedwqcp.errors import InputError
from fedwqcp.methods._answers import check_classes, expect, stacked, summed
from fedwqcp.methods._base import OneShot, Terms, Traits, check_label_target
from fedwqcp.methods._calibration import Calibration, Disclosure
from fedwqcp.quantile import LEVEL_TOLERANCE, exact_level, order_statistics
from fedwqcp.registry import TERM
from fedwqcp.wire.limits import SIZE
from fedwqcp.wire.messages import (
    PerAgentThresholds,
    Question,
    Real,
    Summary,
    Target,
    check_scores,
    check_sizes,
)
from fedwqcp.wire.release import Guarantee

_MOST_POINTS = 48
"""Order statistics of a class: with five digits each and the count they stay below 600 bytes."""

TAIL = 4
"""Two thirds of the points lie among the largest TAIL * alpha of the scores."""

ROUNDING = 1e-4
"""Most that rounding up to five digits adds to a score, as a share of it."""

_FIVE_DIGITS = Context(prec=5, rounding=ROUND_CEILING)

MOST_READ = 2**24
"""Most numbers in a table of all agents, classes and places."""

_FIRST_GUESS = 50.0
"""n0 before anything is known, and where no two agents have points of one class."""

_BOUNDS = (2.0, 300.0)
"""Within which n0 is estimated: dispersion is seen too coarsely to say more."""

_MOST_OF_A_PAIR = 50.0
"""Two agents' points of a class count as at most so many, so that one pair does not decide."""

PASSES = 4
"""How often n0 and the thresholds are found in turn."""

Ranks: TypeAlias = npt.NDArray[np.int64]


class ClassSketches(Summary):
    """How many points an agent has of each class, and some of their scores in order."""

    exact_threshold = False

    counts: tuple[int, ...]
    values: tuple[tuple[Real, ...], ...]  # by class, at the ranks of `ranks_of`, rounded up

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.values):
            raise InputError("must be one tuple for each count", field="values")
        check_scores(tuple(chain(*self.values)), "values")
        check_sizes(self.counts, "counts")
        for n, scores in zip(self.counts, self.values, strict=True):
            if len(scores) > n:
                raise InputError("must be at most as many as the class has points", field="values")
            if list(scores) != sorted(scores):
                raise InputError("must not decrease within a class", field="values")

    def sizes(self) -> tuple[int, ...]:
        return (sum(self.counts),)

    def scores(self) -> tuple[float, ...]:
        sent = (value for scores in self.values for value in scores)
        # the least score that a rounded one can stand for: the largest may round past its bound
        return tuple(v - ROUNDING * abs(v) if v < inf else v for v in sent)


@dataclass(frozen=True)
class FedLSCP(OneShot[ClassSketches]):
    r"""Thresholds at which the estimated coverage of a label mixture reaches 1 - alpha.

    With pi the target's label distribution and F_kc the distribution of agent k's scores of class
    c, q_k is the smallest q with sum_c pi_c F_kc(q) >= 1 - alpha. Agents send order statistics by
    class. F_kc is agent k's own distribution shrunk towards the mean of the other agents',

    F_kc = (n_kc own_kc + m_kc others_kc) / (n_kc + m_kc), m_kc <= n0,

    so that a class of which the agent has no point is judged by the others alone (`Shrinkage`).

    Parameters
    ----------
    target : "own", "mixture" or tuple of float, optional
        A term of the round (``calibrate(..., target=...)``), the label distribution of the test
        data: the agent's own, that of all agents' points together, or one that the caller names,
        one number of at least 0 for each class; their sum is taken for 1.
    n0 : float, optional
        Own points of a class that weigh as much as all that others could say. By default it is
        estimated from how far agents differ in the same class. 0: no shrinkage, and the threshold
        has the guarantee below; towards the agent's own labels it is refused, since `split-cp` is
        never larger and assumes less.
    points : int, optional
        Most order statistics of a class, from 2 to 48.
    min_gap : int, optional
        Fewest scores from one order statistic to the next, at least 2.
    min_class : int, optional
        Of a class with fewer points only their number is sent; its scores are judged by the other
        agents' alone.

    Notes
    -----
    **Idea**: if only class frequencies differ between agents, scores of a class can be borrowed
    from other agents.

    .. math::

        q_k = \inf \left\{ q : \sum_c \pi_c F_{kc}(q) \ge 1 - \alpha \right\}, \qquad
        F_{kc} = \frac{n_{kc} F^{\text{own}}_{kc} + m_{kc} F^{\text{others}}_{kc}}{n_{kc} + m_{kc}}

    **Guarantee**: with ``n0 = 0``, coverage at the target is at least 1 - alpha in finite samples
    if, given the class, agent k's test score is exchangeable with its calibration scores whatever
    the scores of other classes, and the target's label shares are as stated; nothing is assumed of
    other agents, nor of agent k's own label shares. Without ties it is at most 1 - alpha + sum_c
    pi_c g_c / (n_c + 1) + max_c pi_c / (n_c + 1), plus what rounding scores up to five digits adds,
    g_c being the largest gap between the ranks sent, 0 and n_c + 1 among them. A class without
    points, or with fewer than ``min_class``, never counts as covered: with more than alpha of the
    target in such classes the threshold is +inf. With shrinkage coverage is approximate, and right
    as far as other agents' scores of a class are distributed alike.

    The threshold is the smallest q with sum_c pi_c m_c(q) / (n_c + 1) >= 1 - alpha, m_c the scores
    that are surely at most q; the page on label shift has the proof. ``mixture`` and ``own``
    take the shares from counts: the statement is then about the shares that were counted, which
    miss the true ones by an error of order sqrt(C / N) in total variation.

    The release states by agent ``unknown``, the share of its target in classes of which no agent
    has a point, or all fewer than ``min_class``; ``borrowed``, the share of its estimate that is
    others', sum_c pi_c m_kc / (n_kc + m_kc); and ``effective``, how many points drawn from the
    target would estimate coverage as well, (sum_c pi_c)^2 / sum_c pi_c^2 / (n_kc + m_kc) over the
    classes that are known.

    **Cost**: one round; for each class its count and at most 48 scores of five digits, below 600
    bytes. All agents' thresholds and figures come back, ``borrowed`` in tenths and ``effective`` to
    one digit: other agents learn these of a site, and cannot find its class counts beyond one digit
    from the two. ``unknown`` is exact: it tells which share of its points is of such classes.

    **Fails**: where scores of a class mean something else at other agents (LAC with models of
    unequal accuracy).

    References
    ----------
    Podkopaev, Ramdas (2021), arXiv:2103.03323; Tibshirani et al. (2019), arXiv:1904.06019. The
    guarantee is that of Lu et al. (2023), arXiv:2305.17564, with classes for agents.

    Examples
    --------
    >>> import fedwqcp as fw
    >>> a = fw.Calibration([0.1, 0.2, 0.3, 0.4, 0.9], labels=[0, 0, 0, 0, 1])
    >>> b = fw.Calibration([0.2, 0.5, 0.6, 0.7, 0.8], labels=[0, 1, 1, 1, 1])
    >>> sites, method = {"a": a, "b": b}, FedLSCP(min_class=1)
    >>> release = fw.calibrate(sites, method=method, alpha=0.2)
    >>> release.threshold("a"), release.threshold("b")
    (0.4, 0.8)
    >>> release = fw.calibrate(sites, method=method, alpha=0.2, target="mixture")
    >>> release.threshold("a"), release.threshold("b")
    (0.8, 0.8)
    """

    target: Target = field(default="own", metadata=TERM)
    n0: float | None = None
    points: int = _MOST_POINTS
    min_gap: int = 5
    min_class: int = 10

    summaries = (ClassSketches,)
    outcomes = (PerAgentThresholds,)

    def __post_init__(self) -> None:
        check_label_target(self.target)
        if self.n0 is not None and not (isfinite(self.n0) and self.n0 >= 0):
            raise InputError(f"n0 must be a finite number of at least 0, got {self.n0!r}")
        if not 2 <= self.points <= _MOST_POINTS:
            raise InputError(f"must be from 2 to {_MOST_POINTS}, got {self.points}", "points")
        check_least(self.min_gap, 2, "min_gap")
        check_least(self.min_class, 1, "min_class")

    def summarize(self, cal: Calibration, alpha: float) -> ClassSketches:
        parts = cal.by_class("fedls-cp")
        sent = [order_statistics(part, self._ranks(len(part), alpha)) for part in parts]
        return ClassSketches(
            counts=tuple(map(len, parts)),
            values=tuple([tuple(map(rounded_up, values)) for values in sent]),
        )

    def aggregate(self, summaries: Sequence[ClassSketches], alpha: float) -> PerAgentThresholds:
        pi = self._targets(stacked([s.counts for s in summaries]))  # all of the same classes
        agents = [
            [Cell.of(v, self._ranks(n, alpha)) for n, v in zip(s.counts, s.values, strict=True)]
            for s in summaries
        ]
        counts = np.array([[cell.n for cell in cells] for cells in agents], dtype=np.float64)
        q, n0 = _mixture_thresholds(agents, pi, alpha, self.n0)
        unknown = (pi * (counts == 0).all(axis=0)).sum(axis=1)
        rests_on = Shrinkage(counts, n0).rests_on(pi)
        return PerAgentThresholds(tuple(q.tolist()), tuple(unknown.tolist()), *rests_on)

    def check(self, question: Question, answer: Summary, earlier: Any, terms: Terms) -> Any:
        sent = expect(answer, ClassSketches)
        check_classes(sent.counts, terms.n_classes)
        ranks = [self._ranks(n, terms.alpha) for n in sent.counts]
        if list(map(len, sent.values)) != list(map(len, ranks)):
            raise InputError("must be the scores at the ranks of each class", field="values")
        return super().check(question, answer, earlier, terms)

    @property
    def guarantee(self) -> Guarantee:
        """At the target, in finite samples where an agent's own points alone decide."""
        return Guarantee("target-shift", "finite-sample" if self.n0 == 0 else "approximate")

    @property
    def assumption(self) -> str:
        shift = (
            "given the class, an agent's test scores are distributed as its calibration scores "
            "(only their shares differ), and the target's shares are right"
        )
        if self.n0 == 0:
            least = "then coverage at the target is at least 1 - alpha in finite samples"
            return f"{shift}; {least}"
        return (
            f"{shift}; where an agent has few points of a class, its scores of that class are "
            "distributed as other agents'; coverage is approximate"
        )

    @property
    def traits(self) -> Traits:
        return Traits(
            corrects_shift_of="labels",
            needs_labels=True,
            dominated_by="split-cp" if self.n0 == 0 and self.target == "own" else None,
        )

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        return tuple(
            Disclosure.of_ranks(len(scores), self._ranks(len(scores), alpha), part)
            for part, scores in enumerate(cal.by_class("fedls-cp"))
        )

    def _ranks(self, n: int, alpha: float) -> tuple[int, ...]:
        """Return which order statistics of n scores of a class are sent."""
        return ranks_of(n, alpha, self.points, self.min_gap, self.min_class)

    def _targets(self, counts: Floats) -> Floats:
        """Return the target label distribution of each agent, shape (M, C)."""
        if isinstance(self.target, str):
            return shares(counts if self.target == "own" else summed(counts), counts.shape)
        check_label_target(self.target, counts.shape[1])
        return shares(self.target, counts.shape)


def shares(mass: npt.ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return the label distribution of each agent, shape (M, C), from counts or shares.

    A row without any stays 0.
    """
    mass = np.broadcast_to(np.asarray(mass, dtype=np.float64), shape)
    total = mass.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(mass, total, out=np.zeros(shape), where=total > 0))


@lru_cache(maxsize=4096)
def ranks_of(
    n: int, alpha: float, points: int, min_gap: int, min_class: int = 1
) -> tuple[int, ...]:
    """Return which order statistics of n scores are sent; agents and server compute the same.

    Two thirds of the points are spread evenly over the largest 4 alpha n scores, the others over
    the rest; the last one is n. Each stands for at least ``min_gap`` scores, unless n is less.

    Examples
    --------
    >>> ranks_of(100, 0.05, points=6, min_gap=5)
    (40, 80, 85, 90, 95, 100)
    """
    if n < max(1, min_class):
        return ()
    tail = min(n, max(min_gap, ceil(min(1.0, TAIL * alpha) * n)))
    body = n - tail
    high = max(1, min(ceil(2 * points / 3), tail // min_gap))
    low = min(points - high, body // min_gap)
    ranks = [-(-i * body // low) for i in range(1, low + 1)]
    return tuple(ranks + [body - (-i * tail // high) for i in range(1, high + 1)])


def rounded_up(score: float) -> float:
    """Return the least number of five digits that is not below a score.

    Examples
    --------
    >>> rounded_up(0.12345678), rounded_up(0.25)
    (0.12346, 0.25)
    """
    if score == inf:
        return score
    return max(score, float(_FIVE_DIGITS.create_decimal(repr(score))))


class Cell(msgspec.Struct, frozen=True, eq=False):
    """The scores of one class at one agent, as the server knows them: order statistics."""

    values: Floats  # (p,), in order; some may be equal
    ranks: Ranks  # (p,), the last one n
    steps: Ranks  # how many scores each stands for: itself, and those since the one before
    n: int  # points of the class; 0 where too few for any to be sent

    @classmethod
    def of(cls, values: tuple[float, ...], ranks: tuple[int, ...]) -> Cell:
        """Read what was sent of a class."""
        places = np.array((0, *ranks), dtype=np.int64)
        return cls(np.array(values), places[1:], places[1:] - places[:-1], int(places[-1]))

    def about(self, q: Floats, low: float) -> Floats:
        """Return about how many scores are at most q.

        Scores between two that were sent, or between ``low`` and the first, are taken to be spread
        evenly there.
        """
        values = np.concatenate(([low], self.values))
        after = np.searchsorted(self.values, q, side="right") + 1
        counts = np.concatenate(([0], self.ranks))[after - 1].astype(np.float64)
        inside = (after < len(values)) & (q > low)
        i = after[inside]
        with np.errstate(over="ignore", invalid="ignore"):  # a Byzantine agent may send +-1e308
            share = (q[inside] - values[i - 1]) / (values[i] - values[i - 1])
        between = self.steps[i - 1] - 1
        counts[inside] += np.nan_to_num(share) * between
        return counts


def grid_of(agents: Sequence[Sequence[Cell]]) -> Floats:
    """Return the places that thresholds are chosen from: the scores sent, or some of very many."""
    cells = [cell for agent in agents for cell in agent]
    every = np.unique(np.concatenate([cell.values for cell in cells]))
    most = min(4096, MOST_READ // len(cells))
    if len(every) <= most:
        return every
    return np.asarray(every[np.linspace(0, len(every) - 1, most).astype(np.int64)])


def _mixture_thresholds(
    agents: Sequence[Sequence[Cell]], pi: Floats, alpha: float, n0: float | None
) -> tuple[Floats, float]:
    """Return one threshold for each agent, and the n0 that they are found with.

    ``n0`` is None to estimate it, and 0 where own points alone decide. Where one agent alone has
    points, the others take its threshold. Shapes: pi (M, C) -> (M,).
    """
    some = np.array([any(cell.n for cell in cells) for cells in agents])
    if n0 != 0 and some.sum() > 1:
        return shrunk_thresholds(agents, pi, alpha, n0)
    q = own_thresholds(agents, pi, alpha)
    if n0 != 0 and some.any() and not some.all():
        q[~some & (pi.sum(axis=1) > 0)] = q[some]
    return q, _FIRST_GUESS if n0 is None else n0


def own_thresholds(agents: Sequence[Sequence[Cell]], pi: Floats, alpha: float) -> Floats:
    """Return the smallest q with sum_c pi_c m_c(q) / (n_c + 1) >= 1 - alpha for each agent.

    m_c(q) is how many of its own points of class c surely lie at or below q. Shapes: pi (M, C).
    """
    thresholds = []
    for cells, shares in zip(agents, pi, strict=True):
        places = np.concatenate([cell.values for cell in cells])
        sure = [p * cell.steps / (cell.n + 1) for p, cell in zip(shares, cells, strict=True)]
        order = np.argsort(places)
        thresholds.append(first_reaching(places[order], np.cumsum(np.hstack(sure)[order]), alpha))
    return np.array(thresholds)


def shrunk_thresholds(
    agents: Sequence[Sequence[Cell]], pi: Floats, alpha: float, n0: float | None
) -> tuple[Floats, float]:
    """Return the smallest q with sum_c pi_c F_kc(q) >= 1 - alpha, F_kc shrunk, and n0."""
    counts = np.array([[cell.n for cell in cells] for cells in agents], dtype=np.float64)
    sizes = np.maximum(counts, 1)[:, :, None]
    grid = grid_of(agents)
    low = float(grid[0])
    known = np.array([[cell.about(grid, low) for cell in cells] for cells in agents]) / sizes
    shrinkage = Shrinkage(counts, _FIRST_GUESS if n0 is None else n0)
    q = first_reaching(grid, shrinkage.mixed(known, pi), alpha)
    for _ in range(PASSES - 1 if n0 is None else 0):
        places = np.searchsorted(grid, q)  # each is a place of the grid, or beyond it
        covered = np.where(
            np.isinf(q)[:, None], counts > 0, known[np.arange(len(q)), :, places % len(grid)]
        )
        better = Shrinkage(counts, dispersion(counts, covered))
        if better.n0 == shrinkage.n0:
            break
        shrinkage = better
        q = first_reaching(grid, shrinkage.mixed(known, pi), alpha)
    return q, shrinkage.n0


class Shrinkage:
    """How far an agent's coverage of a class is drawn towards that of the other agents.

    Coverage of class c at agent k, F_kc, varies around the class's mean with variance
    F (1 - F) / (n0 + 1), and is seen through n_kc points. The best linear estimate weighs the
    agent's own n_kc points against ``prior``_kc = 1 / (1 / n0 + 1 / others_kc) points' worth of the
    other agents' mean, in which agent j weighs ``worth``_jc = n_jc n0 / (n_jc + n0). ``share`` is
    the part of an estimate that rests on other agents' points. Shapes: all (M, C).
    """

    def __init__(self, counts: Floats, n0: float) -> None:
        some = counts > 0
        self.n0 = n0
        self.worth = np.divide(counts * n0, counts + n0, out=np.zeros_like(counts), where=some)
        others = summed(self.worth) - self.worth
        self.others = np.where(some.sum(axis=0) > some, others, 0.0)  # 0, not nearly, without any
        self.prior = self.others * n0 / (self.others + n0) if n0 else np.zeros_like(counts)
        self.total = counts + self.prior
        self.share = np.divide(
            self.prior, self.total, out=np.zeros_like(counts), where=self.total > 0
        )

    def rests_on(
        self, pi: Floats, pooled: Floats | float = 0.0
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return ``borrowed`` and ``effective`` of `FedLSCP`; ``pooled`` adds to the first.

        In tenths and to one digit, so that they tell no count of a class beyond one digit.
        """
        known = self.total > 0
        spread = np.divide(pi**2, self.total, out=np.zeros_like(pi), where=known).sum(axis=1)
        mass, borrowed = (pi * known).sum(axis=1), (pi * self.share).sum(axis=1) + pooled
        sizes = np.divide(mass**2, spread, out=np.zeros_like(mass), where=spread > 0)
        rounded = [float(f"{size:.0e}") for size in np.minimum(sizes, SIZE.most).tolist()]
        return tuple(np.clip(borrowed, 0, 1).round(1).tolist()), tuple(rounded)

    def mixed(self, known: Floats, pi: Floats) -> Floats:
        """Return sum_c pi_kc F_kc, the estimated coverage of each agent's mixture at G places.

        Shapes: known (M, C, G), pi (M, C) -> (M, G).
        """
        mass, others = pi * self.share, self.others
        from_others = np.divide(mass, others, out=np.zeros_like(mass), where=others > 0)
        of_agent = (
            pi * (1 - self.share) - from_others * self.worth
        )  # without its own part of ``total``
        total = np.einsum("kc,kcg->cg", self.worth, known)
        mixed: Floats = np.einsum("kc,kcg->kg", of_agent, known) + from_others @ total
        return mixed


def dispersion(counts: Floats, covered: Floats) -> float:
    """Estimate n0 from how far agents differ in the same class, beyond chance.

    For two agents with n and m points of a class, h = n m / (n + m), and F the coverage of both
    together, E h (F_1 - F_2)^2 is about F (1 - F) (1 + 2 h / (n0 + 1)); the method of moments over
    all pairs and classes, each pair counted as at most 50 points.

    Shapes: counts (M, C), covered (M, C).
    """
    excess = expected = 0.0
    for column, shares in zip(counts.T, covered.T, strict=True):
        order = np.lexsort((shares, column))[np.searchsorted(np.sort(column), 1, "right") :]
        n, first, size = np.unique(column[order], return_index=True, return_counts=True)
        if not len(n):
            continue
        S, Q = np.add.reduceat(shares[order], first), np.add.reduceat(shares[order] ** 2, first)
        for m, M, s, squares in zip(n, size, S, Q, strict=True):  # all pairs of two sizes at once
            h, w = n * m / (n + m), n / (n + m)
            apart = M * Q + size * squares - 2 * S * s
            p = w * M * S + (1 - w) * size * s
            p2 = w**2 * M * Q + (1 - w) ** 2 * size * squares + 2 * w * (1 - w) * S * s
            chance = p - p2 - (n == m) * (s - squares)  # without an agent beside itself
            kept = np.minimum(h, _MOST_OF_A_PAIR) / h
            excess += float((kept * (h * apart - chance)).sum())
            expected += float((kept * 2 * h * chance).sum())
    if expected <= 1e-12 * len(counts) ** 2:  # nothing but rounding
        return _FIRST_GUESS
    low, high = _BOUNDS
    return high if excess <= expected / high else max(low, expected / excess - 1)


def first_reaching(grid: Floats, level: Floats, alpha: float) -> Floats:
    """Return the first place where each distribution reaches 1 - alpha; +inf if none does."""
    reached = level >= float(exact_level(alpha)) - LEVEL_TOLERANCE
    if not grid.size:
        return np.full(level.shape[:-1], inf)
    return np.where(reached.any(axis=-1), grid[reached.argmax(axis=-1)], inf)
