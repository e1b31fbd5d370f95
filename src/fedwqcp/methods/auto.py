"""The default: each agent's own threshold, raised by a borrowed one within bounds of its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from math import ceil, floor, inf, isfinite
from typing import Any, Literal

import numpy as np

from fedwqcp._validation import Floats
from fedwqcp.errors import InputError, UnfitAnswerError
from fedwqcp.methods._answers import check_classes, expect, most_common
from fedwqcp.methods._base import MIXTURE, Method, OneShot, Terms, Traits, check_label_target
from fedwqcp.methods._calibration import Calibration, Disclosure, own_data
from fedwqcp.methods.fed_crc import LossCurve
from fedwqcp.methods.fedls_cp import (
    Cell,
    ClassSketches,
    Shrinkage,
    first_reaching,
    grid_of,
    shares,
    shrunk_thresholds,
)
from fedwqcp.methods.guarded_median_cp import Proposal
from fedwqcp.quantile import (
    SAFE_ERROR,
    Scores,
    conformal_rank,
    exact_level,
    joined,
    order_statistic,
    order_statistics,
)
from fedwqcp.registry import TERM
from fedwqcp.wire.messages import (
    Outcome,
    PerAgentThresholds,
    Question,
    Real,
    SharedThreshold,
    Summary,
    Target,
    check_figures,
    check_scores,
    check_size,
)
from fedwqcp.wire.release import Guarantee

HIDDEN = 10
"""Of fewer points (of a class, or of all others together) only the number is sent."""
GAP = 7
"""One score is sent for at least so many: a seventh, below the fifth that sites allow by default,
so that a round of another method can follow."""
SPREAD = 8
"""Farther below the largest, the next score sent leaves out one in so many of those above it."""
REFERENCE = 0.1
"""The level at which the shrinkage is estimated; one for all levels, so that they are nested."""


EXCHANGEABLE = (
    "an agent's future cases are exchangeable with its calibration cases, and score and key were "
    "chosen without looking at these"
)
"""What the floor assumes."""


class PartSketches(ClassSketches):
    """Some scores of each class in order, and of all points whose class has too few or is unknown.

    ``others`` is the number of points without a class.
    """

    rest: tuple[Real, ...]
    others: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size(self.others, "others")
        check_scores(self.rest, "rest")
        if list(self.rest) != sorted(self.rest):
            raise InputError("must not decrease", field="rest")

    def sizes(self) -> tuple[int, ...]:
        return (sum(self.counts) + self.others,)

    def scores(self) -> tuple[float, ...]:
        return (*chain(*self.values), *self.rest)

    @property
    def parts(self) -> tuple[tuple[int, tuple[float, ...]], ...]:
        """Size and scores of each class, and of the rest last."""
        counts = [n if n >= HIDDEN else 0 for n in self.counts]
        rest = self.others + sum(self.counts) - sum(counts)
        return (*zip(counts, self.values, strict=True), (rest, self.rest))


class Borrowed(Outcome):
    """What each agent may raise its own threshold to, in the order of their answers.

    Parameters
    ----------
    values : tuple of float
        One for each agent; +inf where there is nothing to borrow.
    pooled : float
        For an agent that is none of them.
    borrowed, effective : tuple of float
        Of values by classes, as in `fedls-cp`: which share is other agents' or pooled, and how
        many points it is worth. Else empty.
    """

    values: tuple[Real, ...]
    pooled: Real
    borrowed: tuple[float, ...] = ()
    effective: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_scores((*self.values, self.pooled), "values")
        check_figures(self, "borrowed", "effective")


@dataclass(frozen=True)
class Auto(OneShot[PartSketches]):
    r"""An agent's own threshold where its data suffice; else raised to one borrowed from others.

    With n points, q is the r(n, alpha)-th smallest score and m the largest. A site with ``enough``
    points uses its own threshold q. A smaller site uses the borrowed threshold, limited to between
    q and m. If it has too few points for q, it uses the larger of m and the borrowed threshold.
    Without points it uses the borrowed one.

    Parameters
    ----------
    target : "own", "mixture" or tuple of float, optional
        A term of the round. Toward ``"mixture"`` the threshold is that of `fcp` from the scores
        sent, toward a distribution in numbers that of `fedls-cp`; neither looks at an agent's own.
    enough : float, optional
        An agent has enough points if in 95 of 100 calibrations its own threshold misses at most
        ``enough`` times alpha: 110 points at alpha = 0.1.
    small : {"borrow", "inf"}, optional
        Where r > n: as above, or +inf as in `split-cp`.
    max_groups : int, optional
        A term of the round. Where a point may be in several groups, fewer scores of each are sent.

    Notes
    -----
    **Idea**: a threshold t that is never below a floor from the agent's own data covers as the
    floor does, whoever chose t. So an agent may borrow as it likes above the floor.

    .. math::

        t_k \ge f_k, \quad f_k = s_{k,(\min(r_k, n_k))} \quad\Rightarrow\quad
        P(V_k \le t_k) \ge \min\left(1 - \alpha, \frac{n_k}{n_k + 1}\right)

    **Guarantee**: coverage of at least min(1 - alpha, n/(n + 1)) at each agent, in finite samples,
    if its test points are exchangeable with its n calibration points; whatever other agents and the
    server send, if score and key are chosen without knowledge of these points. Of a score of two
    columns it is min(1 - alpha, (n - 1)/(n + 1)). Within each label or group the same holds with
    the points of that part. A Byzantine agent cannot raise the threshold of an agent with r <= n
    above its largest score. Toward ``"mixture"`` and a distribution the guarantees are those of
    `fcp` and `fedls-cp`. Of a score with losses (`MultiLabel`, `Mask`) the expected loss is at most
    alpha where 1/(n + 1) <= alpha, else (n alpha + 1)/(n + 1): 0.25 with five points at 0.1.

    The borrowed threshold is the smallest at which the estimated coverage of the agent's label
    shares reaches 1 - alpha: of each class by `fedls-cp`'s estimate, of classes of which nobody
    sent a score by the pooled scores of all. Without classes it is `fcp`'s pooled threshold. Levels
    are nested where it is finite. ``enough=2`` (30 points at alpha = 0.1) makes sets up to a tenth
    smaller, with as many bad calibrations as `split-cp` (the page on what the default promises).

    With losses the own threshold is that of conformal risk control, the borrowed one that of
    `fed-crc`. The upper limit is the threshold at which none of the site's own points has a loss.

    **Cost**: one round. An agent sends at most a seventh of its scores. Classes of fewer than 10
    points are taken together; of fewer than 10 in all only numbers are sent. Which scores does not
    depend on alpha. It needs its calibration data once more to predict.

    **Fails**: where test points are unlike the agent's own calibration points. Where r > n and the
    borrowing does not fit, coverage is n/(n + 1) and not 1 - alpha.

    References
    ----------
    Papadopoulos et al. (2002) for the floor; Podkopaev, Ramdas (2021), arXiv:2103.03323, and Lu et
    al. (2023), arXiv:2305.17564, for what is borrowed.

    Examples
    --------
    >>> import fedwqcp as fw
    >>> sites = {"a": np.arange(200) / 200, "b": np.arange(60) / 60, "c": [0.2, 0.4, 0.6]}
    >>> release = fw.calibrate(sites, method="auto", alpha=0.1)
    >>> release.threshold("a"), round(release.threshold("b"), 3), release.threshold("c")
    (0.9, 0.9, 0.89)
    """

    target: Target = field(default="own", metadata=TERM)
    enough: float = 1.5
    small: Literal["borrow", "inf"] = "borrow"
    max_groups: int = field(default=1, metadata=TERM)

    summaries = (PartSketches, LossCurve)
    outcomes = (Borrowed, Proposal, SharedThreshold, PerAgentThresholds)

    def __post_init__(self) -> None:
        check_label_target(self.target)
        if not (isfinite(self.enough) and self.enough >= 1.1):
            raise InputError(
                f"must be a finite number of at least 1.1, got {self.enough!r}", "enough"
            )

    # ---- at the agent

    def summarize(self, cal: Calibration, alpha: float) -> PartSketches:
        del alpha  # a second round at another level reveals nothing new
        parts, gap = self._parts(cal), self._gap
        if parts is None:
            sent = order_statistics(cal.scores, sent_ranks(cal.n, gap))
            return PartSketches((), (), sent, cal.n)
        hidden = joined([scores for scores in parts if len(scores) < HIDDEN])
        ranks = [sent_ranks(len(part), gap) for part in parts]  # none of a hidden part
        pairs = zip(parts, ranks, strict=True)
        return PartSketches(
            counts=tuple(map(len, parts)),
            values=tuple([order_statistics(p, r) if r else () for p, r in pairs]),
            rest=order_statistics(hidden, sent_ranks(len(hidden), gap)),
        )

    def localize(
        self, outcome: Outcome, cal: Calibration | None, position: int | None, alpha: float
    ) -> Floats:
        if self.target != "own":
            return super().localize(outcome, cal, position, alpha)
        scores = own_data(cal, "auto").scores
        n = len(scores)
        threshold = order_statistic(scores, min(conformal_rank(n, alpha), n)) if n else -inf
        offer, most = borrowed_of(outcome, position), scores.max(initial=threshold)
        return raised(threshold, offer, n, alpha, most=most, enough=self.enough, small=self.small)

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        classes = [(c, len(p)) for c, p in enumerate(self._parts(cal) or ()) if len(p) >= HIDDEN]
        gap = self._gap
        disclosures = [Disclosure.of_ranks(n, sent_ranks(n, gap), c) for c, n in classes]
        rest = cal.n - sum(n for _, n in classes)
        return (*disclosures, Disclosure.of_ranks(rest, sent_ranks(rest, gap)))

    @property
    def _gap(self) -> int:
        """One of so many scores is sent at most: a seventh over all groups of a point."""
        return GAP * self.max_groups

    def _parts(self, cal: Calibration) -> list[Scores] | None:
        """Return the scores of each class; None where classes do not count."""
        if not isinstance(self.target, str):
            return cal.by_class("auto towards a distribution of labels")
        if self.target == "mixture" or cal.labels is None or cal.n_classes is None:
            return None
        return cal.by_class("auto")

    # ---- at the server

    def check(self, question: Question, answer: Summary, earlier: Any, terms: Terms) -> Any:
        sent = expect(answer, PartSketches)
        if sent.counts:
            check_classes(sent.counts, terms.n_classes)
        gap = self._gap
        for n, values in sent.parts:
            if len(values) != len(sent_ranks(n, gap)):
                raise InputError("must be the scores at the ranks of each size", field="values")
        return super().check(question, answer, earlier, terms)

    def aggregate(self, summaries: Sequence[PartSketches], alpha: float) -> Outcome:
        gap = self._gap
        agents = [[Cell.of(sent, sent_ranks(n, gap)) for n, sent in s.parts] for s in summaries]
        if self.target == "mixture":
            every = Pool([cell for cells in agents for cell in cells], surely=True)
            N, M = sum(sum(s.sizes()) for s in summaries), len(summaries)
            return SharedThreshold(every.smallest(conformal_rank(N, alpha, extra=M)))
        some = [sum([cell.n for cell in cells]) > 0 for cells in agents]
        pool = Pool([cell for cells in agents for cell in cells])
        pooled = pool.smallest(conformal_rank(pool.n, alpha, extra=sum(some)))
        if not sum([cell.n for cells in agents for cell in cells[:-1]]):
            if not isinstance(self.target, str):
                return PerAgentThresholds((inf,) * len(agents), unknown=(1.0,) * len(agents))
            if sum(some) > 1:
                return Proposal(pooled)
            return Borrowed(tuple(inf if many else pooled for many in some), pooled)
        values, unseen, *rests_on = self._by_class(summaries, agents, pool, sum(some), alpha)
        if not isinstance(self.target, str):
            return PerAgentThresholds(values, unseen, *rests_on)
        alone = sum(some) == 1
        values = tuple([inf if alone and many else v for v, many in zip(values, some, strict=True)])
        return Borrowed(values, pooled, *rests_on)

    def _by_class(
        self,
        summaries: Sequence[PartSketches],
        agents: Sequence[list[Cell]],
        pool: Pool,
        sites: int,
        alpha: float,
    ) -> tuple[tuple[float, ...], ...]:
        """Return each agent's borrowed threshold; of a class that nobody sent all scores count.

        With the share of the target in such classes, and what the threshold rests on.
        """
        C = most_common([len(s.counts) for s in summaries if s.counts])
        empty = Cell.of((), ())
        counts, cells = np.zeros((len(agents), C)), []
        for index, (summary, by_class) in enumerate(zip(summaries, agents, strict=True)):
            if summary.counts and len(summary.counts) != C:
                raise UnfitAnswerError(index, f"must hold {C} classes")
            counts[index, : len(summary.counts)] = summary.counts
            cells.append(by_class[:-1] if summary.counts else [empty] * C)
        pi = shares(counts if self.target == "own" else self.target, counts.shape)
        known = np.array([[cell.n for cell in row] for row in cells], dtype=np.float64)
        _, n0 = shrunk_thresholds(cells, pi, REFERENCE, None)
        grid = grid_of(agents)
        low = float(grid[0])
        F = np.array([[c.about(grid, low) / max(c.n, 1) for c in row] for row in cells])
        shrinkage = Shrinkage(known, n0)
        level = shrinkage.mixed(F, pi)
        unseen = 1 - (pi * known.any(axis=0)).sum(axis=1)
        if self.target == "own":
            level += unseen[:, None] * (pool.count(grid) / (pool.n + sites))
        values = tuple(first_reaching(grid, level, alpha).tolist())
        rests_on = shrinkage.rests_on(pi, unseen if self.target == "own" else 0.0)
        return values, tuple(unseen.clip(0).tolist()), *rests_on

    # ---- what it promises

    @property
    def guarantee(self) -> Guarantee:
        """A floor at each agent; toward another target what `fcp` and `fedls-cp` promise."""
        if self.target == "own":
            return Guarantee("agent-floor", "finite-sample")
        if self.target == "mixture":
            return Guarantee("marginal-mixture", "finite-sample")
        return Guarantee("target-shift", "approximate")

    @property
    def assumption(self) -> str:
        if self.target == "own":
            return EXCHANGEABLE
        if self.target == "mixture":
            return MIXTURE
        return (
            "given the class, an agent's test scores are distributed as its calibration scores, "
            "and as other agents' where it has few; coverage is approximate"
        )

    @property
    def traits(self) -> Traits:
        local = self.target == "own"
        return Traits(
            corrects_shift_of="labels",
            predicts_from_own_data=local,
            proved=self._proved if local else None,
            for_losses=self._for_losses,
        )

    def _for_losses(self) -> Method[LossCurve]:
        from fedwqcp.methods._auto_risk import AutoRisk  # which builds on this file

        if self.target != "own":
            raise InputError("must be 'own' for a risk: over the mixture use fed-crc", "target")
        return AutoRisk(self.enough, self.small, self.max_groups)

    def _proved(self, n: int, alpha: float) -> float:
        """Return the coverage that n points of an agent prove there."""
        whole = n and (self.small == "inf" or conformal_rank(n, alpha) <= n)
        return float(exact_level(alpha)) if whole else n / (n + 1)


class Pool:
    """The scores of all parts together, as far as they are known.

    ``surely`` counts what surely lies below; else of the scores between two that were sent one half
    is taken to lie at the lower one. `smallest` is then `fcp`'s threshold.
    """

    def __init__(self, cells: Sequence[Cell], *, surely: bool = False) -> None:
        values = np.concatenate([np.zeros(0), *[cell.values for cell in cells]])
        weights = np.concatenate([np.zeros(0), *[cell.steps for cell in cells]])
        if not surely:
            half = (weights - 1) / 2
            half[np.cumsum([0, *[len(cell.values) for cell in cells if cell.n]])[:-1]] = 0
            weights -= half
            weights[:-1] += half[1:]
        order = np.argsort(values)
        self.values = values[order]
        self.below = np.cumsum(weights[order])
        self.n = sum([cell.n for cell in cells])

    def count(self, q: Floats) -> Floats:
        """Return how many scores are at most q."""
        known = np.concatenate(([0.0], self.below))
        return np.asarray(known[np.searchsorted(self.values, q, side="right")])

    def smallest(self, rank: int) -> float:
        """Return the first score that was sent with so many at or below it, or +inf."""
        index = int(np.searchsorted(self.below, rank))
        return float(self.values[index]) if index < len(self.values) else inf


@lru_cache(maxsize=4096)
def sent_ranks(n: int, gap: int = GAP) -> tuple[int, ...]:
    """Return which order statistics of n scores are sent, whatever the scores are.

    From the largest down, closer together near it, ``gap`` at least; none of fewer than `HIDDEN`.

    Examples
    --------
    >>> sent_ranks(40), len(sent_ranks(600)), len(sent_ranks(1_000_000))
    ((12, 19, 26, 33, 40), 28, 91)
    """
    ranks, rank = [], n if n >= HIDDEN else 0
    while rank >= gap:
        ranks.append(rank)
        rank -= max(gap, ceil((n - rank) / SPREAD))
    return tuple(reversed(ranks))


@lru_cache(maxsize=256)
def enough_points(alpha: float, times: float) -> int:
    """Return from how many points on an agent's own threshold seldom misses ``times`` alpha.

    The smallest n from which on the 5 % quantile of Beta(r, n + 1 - r) is at least 1 - times alpha.

    Examples
    --------
    >>> [enough_points(alpha, 1.5) for alpha in (0.2, 0.1, 0.05, 0.01)]
    [45, 110, 240, 1211]
    >>> [enough_points(alpha, 2.0) for alpha in (0.2, 0.1, 0.05, 0.01)]
    [10, 30, 61, 313]
    """
    from scipy.special import betainc  # a third of the time that importing the package would take

    share = 1 - exact_level(alpha)

    def _holds(j: int, n: int, level: float) -> bool:
        if times * level >= 1 or n + 1 <= j:
            return times * level >= 1
        return bool(betainc(j, n + 1 - j, times * level) >= 1 - SAFE_ERROR)

    # with n points j = floor((n + 1) alpha) scores lie beyond the threshold; the least n of a j is
    # its worst, here or at a larger alpha: looking there too makes the number fall with alpha
    def _never_fails(j: int) -> bool:
        least = floor(j / share)
        return _holds(j, least - 1, j / least) and _holds(j, ceil(j / share) - 1, float(share))

    last = max((j for j in range(1, _MOST_BEYOND) if not _never_fails(j)), default=0)
    if last == _MOST_BEYOND - 1:
        raise InputError(f"must be larger, such as 1.5, got {times!r}", "enough")
    first, after = (ceil(j / share) - 1 for j in (last, last + 1))
    sizes = (n for n in range(max(first, 1), after) if last and _holds(last, n, float(share)))
    return next(sizes, after)


_MOST_BEYOND = 400
"""Most scores beyond a threshold that `enough_points` looks at."""


def raised(
    local: float, borrowed: float, n: int, alpha: float, *, most: float, enough: float, small: str
) -> Floats:
    """Raise the threshold of an agent's n points to the borrowed one, as far as `Auto` allows."""
    if conformal_rank(n, alpha) > n:
        return np.asarray(inf if small == "inf" else max(local, borrowed))
    if borrowed == inf or n >= enough_points(alpha, enough):
        return np.asarray(local)
    return np.asarray(min(max(local, borrowed), most))


def borrowed_of(outcome: Outcome, position: int | None) -> float:
    """Return what an agent may borrow, whatever a release holds: a number, or +inf for nothing."""
    value: object = inf
    if isinstance(outcome, Proposal):
        value = outcome.value
    elif isinstance(outcome, Borrowed):
        there = position is not None and position < len(outcome.values)
        value = outcome.values[position] if there else outcome.pooled  # type: ignore[index]
    return value if isinstance(value, int | float) and value > -inf else inf
