"""CPhet: thresholds corrected for covariate shift by density ratios.

T is the number of targets: one for each agent, or one that all share.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Random

from fedwqcp._validation import Floats
from fedwqcp.errors import InputError
from fedwqcp.methods._answers import expect, of_kind, stacked, summed
from fedwqcp.methods._base import Exchange, Method, Schedule, Terms, Traits
from fedwqcp.methods._calibration import Calibration, Disclosure, own_data
from fedwqcp.methods._search import (
    ANSWER_SIZE,
    LARGEST_ANSWER,
    ROUNDING,
    SumClaims,
    Sums,
    check_probes,
    most_probes,
    most_steps,
    search_sums,
    sums_at,
)
from fedwqcp.methods.cphet.densities import (
    MIN_POINTS,
    FeatureDensities,
    FittedDensity,
    GaussianMixture,
    check_target,
    clip_weights,
    density_of,
    fit_mixture,
    gather_densities,
    largest_ratios,
    local_ratios,
    pooled_ratios,
)
from fedwqcp.quantile import LEVEL_TOLERANCE, exact_level, weighted_quantile
from fedwqcp.registry import TERM
from fedwqcp.wire.limits import NUMBER
from fedwqcp.wire.messages import (
    Begin,
    Local,
    Outcome,
    PerAgentThresholds,
    Question,
    Real,
    SharedThreshold,
    Summary,
    Target,
    check_increasing,
)
from fedwqcp.wire.release import Guarantee

_WEIGHT_ROUNDING = 1e-6
"""Share by which rounding may raise a weight: of a log density of -1e9 the last bit is 1e-7."""


# An agent keeps nothing from one question to the next, so each repeats the densities of all agents.


class Weigh(Question):
    """How much the agent's points weigh at each target."""

    densities: FeatureDensities


class SumsAt(Question):
    """How much weight lies at or below each probe."""

    probes: tuple[Real, ...]  # increasing
    densities: FeatureDensities

    def __post_init__(self) -> None:
        check_increasing(self.probes, "probes")


class Weighed(Summary):
    """Sums of an agent's weights and of their squares at each target."""

    totals: tuple[float, ...]
    squares: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.totals) != len(self.squares):
            raise InputError("must be as many as totals", field="squares")
        if not all(0 <= value <= NUMBER.most for value in (*self.totals, *self.squares)):
            raise InputError(f"must be from 0 to {NUMBER.most:g}, as squares must", field="totals")


class ReweightedSharedThreshold(SharedThreshold):
    """One threshold for all agents, with its effective sample size, (sum w)^2 / sum w^2."""

    effective: Real


class SharedDensities(Outcome):
    """The feature densities of all agents, with which each reweights its own scores."""

    densities: FeatureDensities


@dataclass(frozen=True)
class CPhet(Method[Summary]):
    r"""The quantile of all agents' scores, weighted by how likely each input is at the target.

    Weights lambda(x) = P*(x) / sum_i (N_i / N) P_i(x), each P_i a mixture of one Gaussian per label
    in feature space, and the weighted (1 - alpha)-quantile of the scores, which a search on sums of
    weights finds exactly.

    Parameters
    ----------
    target : "own", "mixture" or tuple of float, optional
        A term of the round (``calibrate(..., target=...)``), the distribution of the test inputs:
        each agent's own, the agents' mixture, or a density in numbers, as `density_of` fits it.
    scope : {"pooled", "local"}, optional
        Whose scores are used: all agents', or only the agent's own, with weights P*(x) / P_i(x).
    clip_weights : float, optional
        Each agent cuts its weights at this quantile of its own; 1 cuts none.

    Notes
    -----
    **Idea**: scores of other agents count as much as their inputs resemble those of the target.

    .. math::

        \lambda(x) = \frac{P^*(x)}{\sum_i (N_i / N) P_i(x)}, \qquad
        \hat q = \inf \left\{ q : \sum_j \lambda(X_j) \mathbb{1}[V_j \le q]
        \ge (1 - \alpha) \sum_j \lambda(X_j) \right\}

    **Guarantee**: approximate coverage at the target, if the distribution of Y given X is shared
    and the density ratios are right.

    With true ratios the authors prove miscoverage within O(N^(-1/2)) of alpha; the density estimate
    adds its error. There is no finite-sample correction: equal weights give rank
    ceil(N (1 - alpha)). Densities are fitted on the calibration points themselves, where the
    authors use separate ones. An agent with fewer than two points has no density, and no finite
    threshold of its own. Agents refuse questions that the settings do not need; over many rounds,
    sums trace the scores' distribution anyway.

    **Cost**: 1 + d + d (d + 1) / 2 floats per label once; every later question repeats all agents'
    densities. Then about 10 to 20 rounds of some 500 sums (fewer rounds of more sums, where the
    densities are long). Outcomes state the effective sample size
    (sum w)^2 / sum w^2.

    **Fails**: where Y given X differs between agents, or the densities are wrong: here they are
    Gaussian for each class, and the effective sample size is reported.

    References
    ----------
    Plassier et al. (2024), Efficient conformal prediction under data heterogeneity, AISTATS.

    Examples
    --------
    >>> import fedwqcp as fw
    >>> a = fw.Calibration([0.1, 0.2, 0.3], features=[[0.0], [0.1], [0.2]])
    >>> b = fw.Calibration([1.0, 1.1, 1.2], features=[[9.0], [9.1], [9.2]])
    >>> release = fw.calibrate({"a": a, "b": b}, method="cphet", alpha=0.4)
    >>> release.threshold("a"), release.threshold("b")
    (0.2, 1.1)
    """

    target: Target = field(default="own", metadata=TERM)
    scope: Literal["pooled", "local"] = "pooled"
    clip_weights: float = 0.995

    summaries = (FittedDensity, Weighed, Sums)
    questions = (Begin, Weigh, SumsAt)
    outcomes = (ReweightedSharedThreshold, PerAgentThresholds, SharedDensities, Local)
    guarantee = Guarantee("target-shift", "approximate")
    assumption = (
        "the distribution of Y given X, and the score, are shared by all agents, only that of X "
        "differs; coverage is approximate, at the target distribution, as far as the density "
        "ratios are right"
    )

    def __post_init__(self) -> None:
        check_target(self.target)
        if not 0 < self.clip_weights <= 1:
            raise InputError(f"clip_weights must be above 0 and at most 1, got {self.clip_weights}")

    def answer(self, cal: Calibration, question: Question, alpha: float, rng: Random) -> Summary:
        if not isinstance(question, Weigh | SumsAt):
            density = self._density(cal)
            return FittedDensity(cal.n, density.numbers() if density else ())
        w = self._weights(cal, question.densities)
        T = len(w)
        if isinstance(question, SumsAt):
            check_probes(len(question.probes), most_probes(T, T, _answer_size(question.densities)))
            return Sums(tuple(sums_at(question.probes, cal.scores, w).ravel().tolist()))
        return Weighed(tuple(w.sum(axis=1).tolist()), tuple(np.square(w).sum(axis=1).tolist()))

    def exchange(self, alpha: float) -> Exchange[Summary, Outcome]:
        if self.scope == "local" and self.target != "mixture":
            return Local()  # each agent knows all it needs
        densities = gather_densities(of_kind((yield Begin()), FittedDensity))
        if self.scope == "local":
            return SharedDensities(densities)
        T = len(densities.sizes) if self.target == "own" else 1
        sums = of_kind((yield Weigh(densities)), Weighed)
        totals = summed(stacked([answer.totals for answer in sums], T))  # sum_j Lambda_j
        squares = summed(stacked([answer.squares for answer in sums], T))
        level = (float(exact_level(alpha)) - LEVEL_TOLERANCE) * totals
        q = yield from search_sums(
            lambda probes: SumsAt(probes, densities),
            lambda sums: sums >= level,
            T,
            T,
            answer_size=_answer_size(densities),
        )
        values = np.where(totals > 0, q, inf).tolist()  # without weight a threshold is +inf
        effective = (np.square(totals) / np.where(squares > 0, squares, 1.0)).tolist()
        if self.target == "own":
            return PerAgentThresholds(tuple(values), effective=tuple(effective))
        return ReweightedSharedThreshold(values[0], effective[0])

    def localize(
        self, outcome: Outcome, cal: Calibration | None, position: int | None, alpha: float
    ) -> Floats:
        if self.scope == "pooled":
            return super().localize(outcome, cal, position, alpha)
        cal = own_data(cal, "cphet with scope='local'")
        densities = outcome.densities if isinstance(outcome, SharedDensities) else None
        (weights,) = self._weights(cal, densities)
        return np.asarray(weighted_quantile(cal.scores, weights, alpha))

    def check(self, question: Question, answer: Summary, earlier: Any, terms: Terms) -> Any:
        if isinstance(question, Weigh):
            n = earlier[0]
            uniform = self._uniform
            largest = np.ones(1) if uniform else largest_ratios(self.target, question.densities)
            totals = _check_weights(expect(answer, Weighed), n, largest, exact=uniform)
            return n, SumClaims.of(totals, low=terms.low, slack=ROUNDING)
        if isinstance(question, SumsAt):
            n, claims = earlier
            return n, claims.extended(question.probes, expect(answer, Sums).values)
        fitted = expect(answer, FittedDensity)
        if fitted.n < MIN_POINTS and fitted.density:
            raise InputError(f"must be empty with fewer than {MIN_POINTS} points", field="density")
        return fitted.n, None

    def schedule(self, agents: int, n_classes: int | None) -> Schedule:
        if self.scope == "local":
            return ((Begin, 1),) if self.target == "mixture" else ()
        targets = agents if self.target == "own" else 1
        return ((Begin, 1), (Weigh, 1), (SumsAt, most_steps(targets, targets)))

    @property
    def traits(self) -> Traits:
        return Traits(
            corrects_shift_of="features",
            needs_features=not self._uniform,
            predicts_from_own_data=self.scope == "local",
        )

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        if self.scope == "local" and self.target != "mixture":
            return ()
        # a covariance with a feature that one person alone has tells all features of that person
        sizes = [cal.n] if cal.labels is None else np.bincount(cal.labels).tolist()
        return tuple(Disclosure(n, n, part) for part, n in enumerate(sizes))

    @property
    def _uniform(self) -> bool:
        """Whether the target is where the scores come from: all weights are 1."""
        return self.target == ("own" if self.scope == "local" else "mixture")

    def _density(self, cal: Calibration) -> GaussianMixture | None:
        """Fit an agent's features; None where no density is needed, or there are too few points."""
        if self._uniform or cal.n == 0:
            return None
        return fit_mixture(cal.featured("cphet"), cal.labels)

    def _weights(self, cal: Calibration, densities: FeatureDensities | None) -> Floats:
        """Return the weights of an agent's points, cut at its own quantile, shape (T, n)."""
        if self._uniform or cal.n == 0:
            T = len(densities.sizes) if densities and self.target == "own" else 1
            return np.ones((T, cal.n))
        x = cal.featured("cphet")
        if self.scope == "local" or densities is None:
            ratios = local_ratios(self.target, self._density(cal), densities, x)
        else:
            ratios = pooled_ratios(self.target, densities, x)
        return clip_weights(ratios, self.clip_weights)


def _check_weights(sent: Weighed, n: int, largest: Floats, *, exact: bool) -> Floats:
    """Refuse weights that n points cannot have; return their totals.

    A weight is at most the largest of its target. Towards all agents' own densities, moreover,
    sum_t (N_t / N) lambda_t(x) = 1 at every x, so that the weights of a point, each in units of the
    largest, sum to at most 1: what an agent adds towards one target it lacks towards the others.
    ``exact`` says that every point weighs the largest: 1, where the target is the mixture.
    """
    T = len(largest)
    units = np.divide(1.0, largest, out=np.zeros(T), where=largest > 0)
    most = 1 + _WEIGHT_ROUNDING
    if len(sent.totals) != T:
        raise InputError(f"must be {T}, one per target", field="totals")
    totals, squares = np.array(sent.totals), np.array(sent.squares)
    if (totals > n * largest * most).any() or (exact and (totals != n * largest).any()):
        raise InputError(f"must not pass n = {n} times the largest weight", field="totals")
    if units @ totals > n * most:
        raise InputError(f"must not pass n = {n} points over all targets together", field="totals")
    low, high = np.square(totals) / max(1, n), totals * largest
    if (squares * most < low).any() or (squares > high * most).any():
        raise InputError("must be those of n weights with these totals", field="squares")
    return np.asarray(totals)


def _answer_size(densities: FeatureDensities) -> int:
    """About how many sums to ask for: more, in fewer questions, where densities are long."""
    return min(LARGEST_ANSWER, max(ANSWER_SIZE, densities.numbers // 4))


__all__ = ["CPhet", "density_of"]
