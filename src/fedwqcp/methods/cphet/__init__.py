"""CPhet: thresholds corrected for covariate shift by density ratios."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Random

from fedwqcp._validation import Floats, as_floats
from fedwqcp.errors import InputError
from fedwqcp.methods._base import (
    Calibration,
    Disclosure,
    Exchange,
    Method,
    Schedule,
    Terms,
    check_asked,
    expect,
    of_kind,
    own_data,
    stacked,
    summed,
)
from fedwqcp.methods._pinball import (
    Average,
    SmoothedPinball,
    Step,
    check_descent,
    check_step,
    descend,
    federated_quantiles,
)
from fedwqcp.methods._search import ROUNDING, SumClaims, Sums, most_steps, sums_at
from fedwqcp.methods.cphet.densities import (
    MIN_POINTS,
    FittedDensity,
    check_target,
    density_of,
    gather_densities,
    largest_ratios,
)
from fedwqcp.methods.cphet.reweighting import (
    DescendToward,
    PooledWeights,
    ReweightedPerAgentThresholds,
    ReweightedSharedThreshold,
    Reweighting,
    SharedDensities,
    SumsAt,
    Weigh,
    Weighed,
    WeightedScores,
    check_target_question,
    check_weights,
    first_guess,
    oracle,
    pooled_quantiles,
    pooled_weights,
    reweighted,
    search_sums,
    weighed,
)
from fedwqcp.registry import TERM
from fedwqcp.wire.messages import Begin, Local, Outcome, Question, Summary, Target
from fedwqcp.wire.release import Guarantee


@dataclass(frozen=True)
class CPhet(Method[Summary]):
    r"""The quantile of all agents' scores, weighted by how likely each input is at the target.

    Weights lambda(x) = P*(x) / sum_i (N_i / N) P_i(x), each P_i a mixture of one Gaussian per label
    in feature space, and the weighted (1 - alpha)-quantile of the scores. ``form="oracle"`` adds
    the mass lambda(x) of the test input at +inf: each input has a threshold of its own.

    Parameters
    ----------
    target : "own", "mixture" or tuple of float, optional
        A term of the round (``calibrate(..., target=...)``), the distribution of the test inputs:
        each agent's own, the agents' mixture, or a density in numbers, as `density_of` fits it.
    scope : {"pooled", "local"}, optional
        Whose scores are used: all agents', or only the agent's own, with weights P*(x) / P_i(x).
    form : {"threshold", "oracle"}, optional
        One threshold per target, or one per test input (from ``localize`` with features; without
        features, the largest that any input can get). A pooled oracle sends scores to everyone.
    solver : {"sums", "rounds", "exact"}, optional
        A search on sums of weights, which ends at the exact quantile; federated averaging on the
        smoothed pinball loss; or one upload of all scores and weights.
    rounds, local_steps : int, optional
        T and K of the solver ``rounds``.
    step_size, smoothing : float, optional
        Eta and gamma, in units of the score.
    start : float, optional
        q_0; by default the weighted mean of the agents' own weighted quantiles.
    average : {"last", "half", "all"}, optional
        What is returned: q_T, the mean over the last half of the rounds, or over all.
    clip_weights : float, optional
        Each agent cuts its weights at this quantile of its own; 1 cuts none. An oracle cuts the
        weight of a test input at the largest weight in use.

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
    adds its error. The form ``threshold`` has no finite-sample correction: equal weights give rank
    ceil(N (1 - alpha)). Densities are fitted on the calibration points themselves, where the
    authors use separate ones. An agent with fewer than two points has no density, and no finite
    threshold of its own. Agents refuse questions that the settings do not need; over many rounds,
    sums trace the scores' distribution anyway.

    **Cost**: 1 + d + d (d + 1) / 2 floats per label once; every later question repeats all agents'
    densities. Then about 10 to 20 rounds of some 500 sums (fewer rounds of more sums, where the
    densities are long), or 2 floats per target and round. Outcomes state the effective sample size
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
    form: Literal["threshold", "oracle"] = "threshold"
    solver: Literal["sums", "rounds", "exact"] = "sums"
    rounds: int = 200
    local_steps: int = 20
    step_size: float = 1e-3
    smoothing: float = 1e-6
    start: float | None = None
    average: Average = "half"
    clip_weights: float = 0.995

    summaries = (FittedDensity, Weighed, WeightedScores, Sums, Step)
    questions = (Begin, Weigh, SumsAt, DescendToward)
    outcomes = (
        ReweightedSharedThreshold,
        ReweightedPerAgentThresholds,
        PooledWeights,
        SharedDensities,
        Local,
    )
    corrects_shift_of = "features"
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
        if self.start is not None and not -inf < self.start < inf:
            raise InputError(f"start must be a finite number, got {self.start!r}")
        check_descent(self.rounds, self.local_steps, self.step_size, self.smoothing)

    @property
    def needs_features(self) -> bool:
        """Unless scores come from the target already."""
        return not self._reweighting.uniform

    @property
    def sends_samples(self) -> bool:
        """Where the quantile of each input, or of one upload, is found from all agents' scores."""
        return self.scope == "pooled" and self._sends_scores

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        del alpha, steps
        if self.scope == "local" and self.target != "mixture":
            return ()
        sizes = [cal.n] if cal.labels is None else np.bincount(cal.labels).tolist()
        # mean and covariance of a class are of its points, as one of its scores would be; a class
        # of one point has none of its own, but they follow from those of all points
        some = cal.n >= MIN_POINTS
        densities = [Disclosure(n, int(n > 0 and some), part) for part, n in enumerate(sizes)]
        if self.scope == "local":
            return tuple(densities)
        # some hundred sums a question, or numbers for as many targets as the server says
        return (*densities, Disclosure(cal.n, cal.n))

    def schedule(self, agents: int, n_classes: int | None) -> Schedule:
        del n_classes
        if self.scope == "local":
            return ((Begin, 1),) if self.target == "mixture" else ()
        if self._sends_scores:
            return ((Begin, 1), (Weigh, 1))
        targets = agents if self.target == "own" else 1
        later = (SumsAt, most_steps(targets, targets))
        rounds = (DescendToward, self.rounds)
        return ((Begin, 1), (Weigh, 1), rounds if self.solver == "rounds" else later)

    def answer(self, cal: Calibration, question: Question, alpha: float, rng: Random) -> Summary:
        check_asked(question, tuple(kind for kind, _ in self.schedule(1, None)))
        if not isinstance(question, Weigh | SumsAt | DescendToward):
            density = self._reweighting.density(cal)
            return FittedDensity(cal.n, density.numbers() if density else ())
        w = self._reweighting.weights(cal, question.densities)
        check_target_question(question, len(w))
        if isinstance(question, SumsAt):
            return Sums(tuple(sums_at(question.probes, cal.scores, w).ravel().tolist()))
        if isinstance(question, DescendToward):
            no_atoms = np.zeros(len(w))
            loss = SmoothedPinball(cal.scores, w, no_atoms, alpha=alpha, gamma=self.smoothing)
            q = np.array(question.q)
            return descend(loss, q, self.local_steps, self.step_size, (0.0, rng))
        if self._sends_scores:
            return WeightedScores(tuple(cal.scores.tolist()), tuple(map(tuple, w.tolist())))
        starts = self.solver == "rounds" and self.start is None
        return weighed(cal.scores, w, alpha, quantiles=starts)

    def check(self, question: Question, answer: Summary, earlier: Any, terms: Terms) -> Any:
        if isinstance(question, Weigh):
            n = earlier[0]
            largest = (
                np.ones(1)
                if self._reweighting.uniform
                else largest_ratios(self.target, question.densities)
            )
            sent = expect(answer, WeightedScores) if self._sends_scores else expect(answer, Weighed)
            totals = check_weights(sent, n, largest, exact=self._reweighting.uniform)
            return n, SumClaims.of(totals, low=terms.low, slack=ROUNDING)
        if isinstance(question, SumsAt):
            n, claims = earlier
            return n, claims.extended(question.probes, expect(answer, Sums))
        if isinstance(question, DescendToward):
            step, K, eta = expect(answer, Step), self.local_steps, self.step_size
            check_step(step, question.q, terms.alpha, steps=K, step_size=eta, noise=0.0)
            return earlier
        fitted = expect(answer, FittedDensity)
        if fitted.n < MIN_POINTS and fitted.density:
            raise InputError(f"must be empty with fewer than {MIN_POINTS} points", field="density")
        return fitted.n, None

    def exchange(self, alpha: float) -> Exchange[Summary, Outcome]:
        if self.scope == "local" and self.target != "mixture":
            return Local()  # each agent knows all it needs
        densities = gather_densities(of_kind((yield Begin()), FittedDensity))
        if self.scope == "local":
            return SharedDensities(densities)
        shared = self.target != "own"
        T = 1 if shared else len(densities.sizes)
        answers = yield Weigh(densities)
        if self._sends_scores:
            v, w = pooled_weights(of_kind(answers, WeightedScores), T)
            if self.form == "oracle":
                return oracle(v, w, alpha, self._reweighting, densities)
            return pooled_quantiles(v, w, alpha, shared=shared)
        sums = of_kind(answers, Weighed)
        local = stacked([answer.totals for answer in sums], T)
        totals = summed(local)  # sum_j Lambda_j
        if self.solver == "rounds":
            shares = local / np.where(totals > 0, totals, 1.0)
            q = yield from federated_quantiles(
                lambda q: DescendToward(tuple(q.tolist()), densities),
                first_guess(sums, shares, self.start),
                shares,
                self.rounds,
                self.average,
            )
        else:
            q = yield from search_sums(totals, densities, alpha)
        squares = summed(stacked([answer.squares for answer in sums], T))
        return reweighted(q, totals, squares, shared=shared)

    def localize(
        self,
        outcome: Outcome,
        cal: Calibration | None,
        position: int | None,
        alpha: float,
        features: Floats | None = None,
    ) -> Floats:
        x = None if features is None else as_floats(features, "features", (None, None))
        if self.scope == "local":
            cal = own_data(cal, "cphet with scope='local'")
            densities = outcome.densities if isinstance(outcome, SharedDensities) else None
            return self._reweighting.own_thresholds(
                cal, densities, alpha, x, oracle=self.form == "oracle"
            )
        at = outcome.row(position) if isinstance(outcome, PooledWeights) else None
        if not isinstance(outcome, PooledWeights) or x is None or at is None:
            return super().localize(outcome, cal, position, alpha)
        ratios = self._reweighting.ratios(x, outcome.densities, None)[at]
        weights = np.array(outcome.weights[at])
        return self._reweighting.thresholds(np.array(outcome.values), weights, alpha, ratios)

    @property
    def _reweighting(self) -> Reweighting:
        """What weights are computed from."""
        return Reweighting(self.target, self.scope == "local", self.clip_weights)

    @property
    def _sends_scores(self) -> bool:
        """Whether scores of single people leave the agents."""
        return self.form == "oracle" or self.solver == "exact"


__all__ = ["CPhet", "density_of"]
