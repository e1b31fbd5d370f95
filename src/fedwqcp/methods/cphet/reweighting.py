"""Scores reweighted towards a target: messages, an agent's weights, and the server's quantiles.

T is the number of targets: one for each agent, or one that all share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

import numpy as np

from fedwqcp._validation import Bools, Floats
from fedwqcp.errors import InputError, UnfitAnswerError
from fedwqcp.methods._base import Calibration, Exchange, check_probes, stacked, summed
from fedwqcp.methods._search import ANSWER_SIZE, LARGEST_ANSWER, most_probes, search
from fedwqcp.methods.cphet.densities import (
    FeatureDensities,
    GaussianMixture,
    clip_weights,
    fit_mixture,
    local_ratios,
    pooled_ratios,
    quantiles_at,
)
from fedwqcp.quantile import LEVEL_TOLERANCE, exact_level, weighted_quantile
from fedwqcp.wire.limits import NUMBER
from fedwqcp.wire.messages import (
    Number,
    Outcome,
    PerAgentThresholds,
    Question,
    SharedThreshold,
    Summary,
    Target,
    check_increasing,
    check_score,
    check_scores,
)

LARGEST_QUANTILE = NUMBER.most / 10
"""Descent starts at a mean of quantiles: rounding must not take it past what a question holds."""


@dataclass(frozen=True)
class Weigh(Question):
    """How much the agent's points weigh at each target.

    Parameters
    ----------
    densities : FeatureDensities
        Feature densities of all agents.
    """

    densities: FeatureDensities


@dataclass(frozen=True)
class SumsAt(Question):
    """How much weight lies at or below each probe.

    Parameters
    ----------
    probes : tuple of float
        In increasing order.
    densities : FeatureDensities
        Feature densities of all agents; an agent keeps nothing from one question to the next.
    """

    probes: tuple[float, ...]
    densities: FeatureDensities

    def __post_init__(self) -> None:
        check_increasing(self.probes, "probes")


@dataclass(frozen=True)
class DescendToward(Question):
    """Where an agent gets to from q by its local steps.

    Parameters
    ----------
    q : tuple of float
        For each target, where the server stands.
    densities : FeatureDensities
        Feature densities of all agents; an agent keeps nothing from one question to the next.
    """

    q: tuple[float, ...]
    densities: FeatureDensities

    def __post_init__(self) -> None:
        if not all(abs(q) <= NUMBER.most for q in self.q):
            raise InputError(f"must hold numbers of at most {NUMBER.most:g}", field="q")


@dataclass(frozen=True)
class Weighed(Summary):
    """Sums of an agent's weights at each target.

    Parameters
    ----------
    totals, squares : tuple of float
        Lambda_i, and the sum of squared weights.
    quantiles : tuple of float
        The agent's own weighted quantiles, where the descent starts from them.
    """

    totals: tuple[float, ...]
    squares: tuple[float, ...]
    quantiles: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.totals) != len(self.squares):
            raise InputError("must be as many as totals", field="squares")
        if not all(0 <= value <= NUMBER.most for value in (*self.totals, *self.squares)):
            raise InputError(f"must be from 0 to {NUMBER.most:g}, as squares must", field="totals")
        for quantile in self.quantiles:
            check_score(quantile, "quantiles")
            if quantile < inf and abs(quantile) > LARGEST_QUANTILE:
                raise InputError(
                    f"must be +inf or numbers of at most {LARGEST_QUANTILE:g}", field="quantiles"
                )

    def scores(self) -> tuple[float, ...]:
        return self.quantiles


@dataclass(frozen=True)
class WeightedScores(Summary):
    """All scores of an agent, with their weights at each target.

    Parameters
    ----------
    values : tuple of float
        The scores.
    weights : tuple of tuple of float
        For each target, one weight for each score.
    """

    reveals: ClassVar[Literal["statistic", "samples"]] = "samples"

    values: tuple[float, ...]
    weights: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        check_scores(self.values, "values")
        for row in self.weights:
            if len(row) != len(self.values) or not all(0 <= w <= NUMBER.most for w in row):
                raise InputError(
                    f"must be one number from 0 to {NUMBER.most:g} for each score", field="weights"
                )

    def sizes(self) -> tuple[int, ...]:
        return (len(self.values),)

    def scores(self) -> tuple[float, ...]:
        return self.values


@dataclass(frozen=True)
class ReweightedSharedThreshold(SharedThreshold):
    """One threshold for all agents, with the effective sample size behind it.

    Parameters
    ----------
    value : float
        The threshold.
    effective : float
        (sum w)^2 / sum w^2.
    """

    effective: float


@dataclass(frozen=True)
class ReweightedPerAgentThresholds(PerAgentThresholds):
    """A threshold for each agent, with the effective sample sizes behind them.

    Parameters
    ----------
    values : tuple of float
        The thresholds.
    effective : tuple of float
        (sum w)^2 / sum w^2 of each.
    """

    effective: tuple[float, ...]


@dataclass(frozen=True)
class SharedDensities(Outcome):
    """The feature densities that each agent reweights its own scores with.

    Parameters
    ----------
    densities : FeatureDensities
        Feature densities of all agents.
    """

    densities: FeatureDensities


@dataclass(frozen=True)
class PooledWeights(Outcome):
    """All that a threshold for each test input needs.

    Parameters
    ----------
    values : tuple of float
        Scores of all agents.
    weights : tuple of tuple of float
        For each target, one weight for each score.
    densities : FeatureDensities
        Feature densities of all agents, for the weight of a test input.
    largest : tuple of float
        For each target, the threshold of an input of the largest weight; no input has more.
    effective : tuple of float
        For each target, (sum w)^2 / sum w^2.
    shared : bool
        Whether there is one target for all agents.
    """

    values: tuple[float, ...]
    weights: tuple[tuple[float, ...], ...]
    densities: FeatureDensities
    largest: tuple[float, ...]
    effective: tuple[float, ...]
    shared: bool

    def row(self, position: int | None) -> int | None:
        """Return which target is the agent's; None where it has none."""
        return 0 if self.shared else position

    def threshold(self, position: int | None) -> Number | None:
        at = self.row(position)
        return None if at is None else self.largest[at]


WEIGHT_ROUNDING = 1e-6
"""Share by which rounding may raise a weight: of a log density of -1e9 the last bit is 1e-7."""


@dataclass(frozen=True)
class Reweighting:
    """How scores are weighted: towards which target, whose, and where weights are cut."""

    target: Target
    local: bool  # an agent's own scores are weighted, not those of all
    clip: float  # quantile of an agent's weights at which they are cut; 1 cuts none

    @property
    def uniform(self) -> bool:
        """Whether the target is where the scores come from: all weights are 1."""
        return self.target == ("own" if self.local else "mixture")

    def density(self, cal: Calibration) -> GaussianMixture | None:
        """Fit an agent's features; None where no density is needed, or there are too few points."""
        if self.uniform or cal.n == 0:
            return None
        return fit_mixture(cal.featured("cphet"), cal.labels)

    def ratios(
        self, x: Floats, densities: FeatureDensities | None, own: GaussianMixture | None
    ) -> Floats:
        """Return density ratios, uncut.

        Shapes: x (n, d) -> (T, n).
        """
        if self.uniform:
            return np.ones((1, len(x)))
        if self.local or densities is None:
            return local_ratios(self.target, own, densities, x)
        return pooled_ratios(self.target, densities, x)

    def weights(self, cal: Calibration, densities: FeatureDensities | None) -> Floats:
        """Return the weights of an agent's points, cut at its own quantile, shape (T, n)."""
        if self.uniform or cal.n == 0:
            rows = len(densities.sizes) if densities and self.target == "own" else 1
            return np.ones((rows, cal.n))
        own = self.density(cal) if self.local else None
        return clip_weights(self.ratios(cal.featured("cphet"), densities, own), self.clip)

    def own_thresholds(
        self,
        cal: Calibration,
        densities: FeatureDensities | None,
        alpha: float,
        x: Floats | None,
        *,
        oracle: bool,
    ) -> Floats:
        """Return the threshold from an agent's own scores; of an oracle, one for each input x."""
        weights = self.weights(cal, densities)[0]
        if not oracle:
            return quantiles_at(cal.scores, weights, alpha, np.array(0.0))
        ratios = None if x is None else self.ratios(x, densities, self.density(cal))[0]
        return self.thresholds(cal.scores, weights, alpha, ratios)

    def thresholds(
        self, scores: Floats, weights: Floats, alpha: float, ratios: Floats | None
    ) -> Floats:
        """Return thresholds with the test input's mass at +inf; without ratios, the largest.

        Shapes: scores, weights (n,), ratios (m,) -> (m, 1).
        """
        uncut = self.clip == 1 and not self.uniform
        largest = inf if uncut else float(weights.max(initial=0.0))
        if ratios is None:
            return quantiles_at(scores, weights, alpha, np.array(largest))
        return quantiles_at(scores, weights, alpha, np.minimum(ratios, largest))[:, None]


def check_weights(
    sent: Weighed | WeightedScores, n: int, largest: Floats, *, exact: bool
) -> Floats:
    """Refuse weights that n points cannot have; return their totals.

    A weight is at most the largest of its target. Towards all agents' own densities, moreover,
    sum_t (N_t / N) lambda_t(x) = 1 at every x, so that the weights of a point, each in units of the
    largest, sum to at most 1: what an agent adds towards one target it lacks towards the others.
    ``exact`` says that every point weighs the largest: 1, where the target is the mixture.
    """
    T = len(largest)
    units = np.divide(1.0, largest, out=np.zeros(T), where=largest > 0)
    most = 1 + WEIGHT_ROUNDING
    if isinstance(sent, WeightedScores):
        if len(sent.values) != n:
            raise InputError(f"must be {n} scores as in the first answer", field="values")
        if len(sent.weights) != T:
            raise InputError(f"must be {T} rows, one per target", field="weights")
        rows = np.array(sent.weights, dtype=np.float64).reshape(T, n)
        totals, squares = rows.sum(axis=1), np.square(rows).sum(axis=1)
        if (rows > largest[:, None] * most).any() or (units @ rows > most).any():
            raise InputError(
                "must not pass the largest that the round's densities allow", field="weights"
            )
    else:
        if len(sent.totals) != T or len(sent.quantiles) not in (0, T):
            raise InputError(
                f"must be {T}, one per target, as quantiles where asked for", field="totals"
            )
        totals, squares = np.array(sent.totals), np.array(sent.squares)
    if (totals > n * largest * most).any() or (exact and (totals != n * largest).any()):
        raise InputError(f"must not pass n = {n} times the largest weight", field="totals")
    if units @ totals > n * most:
        raise InputError(f"must not pass n = {n} points over all targets together", field="totals")
    low, high = np.square(totals) / max(1, n), totals * largest
    if (squares * most < low).any() or (squares > high * most).any():
        raise InputError("must be those of n weights with these totals", field="squares")
    return np.asarray(totals)


def weighed(scores: Floats, weights: Floats, alpha: float, *, quantiles: bool) -> Weighed:
    """Return the sums of an agent's weights.

    Shapes: scores (n,), weights (T, n).
    """
    return Weighed(
        totals=tuple(weights.sum(axis=1).tolist()),
        squares=tuple(np.square(weights).sum(axis=1).tolist()),
        quantiles=tuple(weighted_quantile(scores, row, alpha) for row in weights if quantiles),
    )


def reweighted(
    q: Floats, totals: Floats, squares: Floats, *, shared: bool
) -> ReweightedSharedThreshold | ReweightedPerAgentThresholds:
    """Return thresholds with their effective sample sizes; without weight a threshold is +inf.

    Shapes: q (T,), totals, squares (T,).
    """
    values = np.where(totals > 0, q, inf).tolist()
    effective = effective_sizes(totals, squares)
    if shared:
        return ReweightedSharedThreshold(values[0], effective[0])
    return ReweightedPerAgentThresholds(tuple(values), effective)


def effective_sizes(totals: Floats, squares: Floats) -> tuple[float, ...]:
    """Return (sum w)^2 / sum w^2 for each target; 0 without weight."""
    return tuple((np.square(totals) / np.where(squares > 0, squares, 1.0)).tolist())


def pooled_weights(answers: Sequence[WeightedScores], rows: int) -> tuple[Floats, Floats]:
    """Return all agents' scores, shape (N,), and weights, shape (T, N)."""
    for position, answer in enumerate(answers):
        if len(answer.weights) != rows:
            raise UnfitAnswerError(position, f"must hold {rows} rows of weights, one per target")
    scores = np.array([value for answer in answers for value in answer.values], dtype=np.float64)
    return scores, np.hstack([stacked(a.weights, len(a.values)) for a in answers])


def oracle(
    scores: Floats,
    weights: Floats,
    alpha: float,
    reweighting: Reweighting,
    densities: FeatureDensities,
) -> PooledWeights:
    """Return all that thresholds of single inputs need.

    Shapes: scores (N,), weights (T, N).
    """
    return PooledWeights(
        values=tuple(scores.tolist()),
        weights=tuple(tuple(row) for row in weights.tolist()),
        densities=densities,
        largest=tuple(float(reweighting.thresholds(scores, row, alpha, None)) for row in weights),
        effective=effective_sizes(weights.sum(axis=1), np.square(weights).sum(axis=1)),
        shared=reweighting.target != "own",
    )


def pooled_quantiles(
    scores: Floats, weights: Floats, alpha: float, *, shared: bool
) -> ReweightedSharedThreshold | ReweightedPerAgentThresholds:
    """Return the weighted quantile for each target.

    Shapes: scores (N,), weights (T, N).
    """
    q = np.array([weighted_quantile(scores, row, alpha) for row in weights])
    return reweighted(q, weights.sum(axis=1), np.square(weights).sum(axis=1), shared=shared)


def first_guess(answers: Sequence[Weighed], shares: Floats, start: float | None) -> Floats:
    """Return where the descent starts: by default the weighted mean of the agents' own quantiles.

    An infinite quantile counts as 0. Shapes: shares (M, T) -> (T,).
    """
    if start is not None:
        return np.full(shares.shape[1], start)
    local = stacked([answer.quantiles for answer in answers], shares.shape[1])
    return summed(shares * np.where(np.isfinite(local), local, 0.0))


def search_sums(
    totals: Floats, densities: FeatureDensities, alpha: float
) -> Exchange[Summary, Floats]:
    """Search for the weighted quantiles on sums of weights.

    Shapes: totals (T,) -> (T,).
    """
    level = (float(exact_level(alpha)) - LEVEL_TOLERANCE) * totals
    T = len(totals)

    def ask(probes: tuple[float, ...]) -> Question:
        return SumsAt(probes, densities)

    def reached(sums: Floats) -> Bools:
        return sums >= level

    return (yield from search(ask, reached, T, T, answer_size=_answer_size(densities)))


def check_target_question(question: Question, targets: int) -> None:
    """Refuse a question with more probes or problems than there can be for these targets."""
    if isinstance(question, SumsAt):
        most = most_probes(targets, max(1, targets), _answer_size(question.densities))
        check_probes(len(question.probes), most)
    if isinstance(question, DescendToward) and len(question.q) != targets:
        raise InputError(f"the server must ask from {targets} numbers, one for each target")


def _answer_size(densities: FeatureDensities) -> int:
    """About how many sums to ask for: more, in fewer questions, where densities are long."""
    return min(LARGEST_ANSWER, max(ANSWER_SIZE, densities.numbers // 4))
