"""DP-FedCP: thresholds per label, corrected for label shift, from federated quantile descent.

There is one quantile problem for each of T targets and C labels. The pinball loss
S_v(q) = (1 - alpha)(v - q)^+ + alpha (q - v)^+ has its minimum over q, summed over weighted scores
v, at their (1 - alpha)-quantile. Its Moreau envelope with parameter gamma is smooth, and its
minimum lies within gamma of that quantile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Random

from fedwqcp._validation import Bools, Floats, Labels
from fedwqcp.errors import InputError
from fedwqcp.methods._answers import check_classes, expect, of_kind, stacked, summed
from fedwqcp.methods._base import (
    Exchange,
    Method,
    PerAgentQuestions,
    Schedule,
    Terms,
    Traits,
    check_label_target,
)
from fedwqcp.methods._calibration import Calibration, Disclosure
from fedwqcp.methods._search import (
    LARGEST_ANSWER,
    CountAt,
    SumClaims,
    Sums,
    check_probes,
    most_probes,
    most_steps,
    search_sums,
)
from fedwqcp.quantile import LEVEL_TOLERANCE, exact_level
from fedwqcp.registry import TERM
from fedwqcp.wire.limits import LOCAL_STEPS, NUMBER, ROUNDS
from fedwqcp.wire.messages import (
    Begin,
    Outcome,
    PerAgentThresholds,
    Question,
    SharedThreshold,
    Summary,
    Target,
    check_sizes,
)
from fedwqcp.wire.release import Guarantee

SCORES = (0.0, 1.0)
"""The range of the scores."""


class LabelCounts(Summary):
    """How many calibration points of an agent have each label."""

    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        check_sizes(self.counts, "counts")

    def sizes(self) -> tuple[int, ...]:
        return (sum(self.counts),)


class DescendFrom(Question):
    """Where an agent gets to from q by its local steps."""

    q: tuple[float, ...]  # for each target and label, where the server stands
    weights: tuple[float, ...]  # for each target and label, w_y
    share: float  # N_i / N, this agent's share of the mass at 1

    def __post_init__(self) -> None:
        if len(self.q) != len(self.weights) or not all(abs(q) <= NUMBER.most for q in self.q):
            raise InputError("must be one number for each weight, at most 1e100", field="q")
        if not all(0 <= w <= NUMBER.most for w in (*self.weights, self.share)):
            raise InputError(f"must be from 0 to {NUMBER.most:g}, as share must", field="weights")


class Step(Summary):
    """How far an agent moved, and where it was on the way."""

    shift: tuple[float, ...]  # for each problem, the last local iterate less the first
    mean: tuple[float, ...]  # for each problem, the mean of the local iterates before the last

    def __post_init__(self) -> None:
        if len(self.shift) != len(self.mean):
            raise InputError("must hold one number for each problem, as shift does", field="mean")
        if not all(abs(value) <= NUMBER.most for value in (*self.shift, *self.mean)):
            raise InputError("must hold numbers of at most 1e100, as mean", field="shift")


@dataclass(frozen=True)
class DPFedCP(Method[Summary]):
    r"""One threshold for each label, corrected for label shift towards a target.

    For candidate label y the threshold is the (1 - alpha)-quantile of
    (w_y delta_1 + sum_k w_{Y_k} delta_{V_k}) / D_y over all agents' points, with
    w_y = c c*_y / (c* c_y) from label counts and D_y = w_y + sum_k w_{Y_k}. The test point's mass
    lies at 1, the top of the scores, so thresholds stay finite; only D_y = 0 gives +inf.

    Parameters
    ----------
    target : "own", "mixture" or tuple of float, optional
        A term of the round (``calibrate(..., target=...)``), the label distribution of the test
        data: each agent's own, the pooled one (all weights 1), or one that the caller names, one
        number of at least 0 for each label.
    solver : {"rounds", "exact"}, optional
        Federated averaging on the smoothed pinball loss, or a search on label-wise counts that ends
        at the exact quantile; neither sends scores.
    rounds, local_steps : int, optional
        T and K.
    step_size, smoothing : float, optional
        Eta and gamma.
    start : float, optional
        q_0; 1 - alpha by default. Averages are dragged towards it: from 0, the mean over all rounds
        ends near 0.86 where the quantile is 1.
    average : {"last", "half", "all"}, optional
        What is returned: q_T, the mean over the last half of the rounds, or over all as published.

    Notes
    -----
    **Idea**: re-weight the classes until they are as frequent as at the target.

    .. math::

        w_y = \frac{\pi^*_y}{\pi_y}, \qquad
        D_y = w_y + \sum_j w_{Y_j}, \qquad
        \hat q_y = \inf \left\{ q : w_y \mathbb{1}[1 \le q] + \sum_j w_{Y_j} \mathbb{1}[V_j \le q]
        \ge (1 - \alpha) D_y \right\}

    **Guarantee**: approximate coverage at the target, if the distribution of X given Y is shared.

    The authors prove it within O(log N / N) plus the error of the weights and of the optimisation.
    The solver ``rounds`` gets near the quantile where scores are dense there, within about
    step_size * local_steps; where they are sparse the loss is almost flat, and it may stop far from
    it: prefer ``exact`` without noise.

    The published method may add noise to gradients and counts, for differential privacy, and draws
    a part of the points. Neither is here: no budget counted that noise (`private-fedwq-cp` has
    one). Agents refuse questions that the settings do not need; over many rounds, the counts of
    ``exact`` trace the scores' distribution anyway.

    **Cost**: C integers; then 2 floats up, and 2 down, per target, label and round (with ``exact``
    about 15 to 60 rounds of integer counts). A target of one's own makes as many targets as agents.

    **Fails**: where the inputs of a class differ between agents, and for regression, which has no
    classes.

    References
    ----------
    Plassier, Makni, Rubashevskii, Moulines, Panov (2023), arXiv:2306.05131.

    Examples
    --------
    >>> import fedwqcp as fw
    >>> a = fw.Calibration([0.1, 0.2, 0.3, 0.4], labels=[0, 0, 0, 1])
    >>> b = fw.Calibration([0.5, 0.6, 0.7, 0.8], labels=[0, 1, 1, 1])
    >>> method = DPFedCP(solver="exact")
    >>> release = fw.calibrate({"a": a, "b": b}, method=method, target=(3.0, 1.0), alpha=0.4)
    >>> release.threshold("a")
    array([0.5, 0.5])
    """

    target: Target = field(default="own", metadata=TERM)
    solver: Literal["rounds", "exact"] = "rounds"
    rounds: int = 200
    local_steps: int = 20
    step_size: float = 1e-3
    smoothing: float = 1e-6
    start: float | None = None
    average: Literal["last", "half", "all"] = "half"

    summaries = (LabelCounts, Sums, Step)
    questions = (Begin, CountAt, DescendFrom)
    outcomes = (SharedThreshold, PerAgentThresholds)
    traits = Traits(
        needs_labels=True, per_label=True, corrects_shift_of="labels", score_range=SCORES
    )
    guarantee = Guarantee("target-shift", "approximate")
    assumption = (
        "class-conditional distributions of the inputs are shared by all agents, only label "
        "distributions differ; coverage is approximate, at the target label distribution"
    )

    def __post_init__(self) -> None:
        check_label_target(self.target)
        if self.start is not None and not 0 <= self.start <= 1:
            raise InputError(f"start must lie between 0 and 1, got {self.start!r}")
        ROUNDS.whole(self.rounds, "rounds")
        LOCAL_STEPS.whole(self.local_steps, "local_steps")
        if not (0 < self.step_size < inf and 0 < self.smoothing < inf):
            raise InputError("step_size and smoothing must be positive numbers")

    def answer(self, cal: Calibration, question: Question, alpha: float, rng: Random) -> Summary:
        # only a caller's own: what a round can choose between is refused by its terms alone
        if cal.n and not (cal.scores.min() >= 0 and cal.scores.max() <= 1.01):
            raise InputError("dp-fedcp needs scores between 0 and 1, such as those of LAC or APS")
        labels, C = cal.labelled("dp-fedcp")
        shared = self.target != "own"
        if isinstance(question, CountAt):
            check_probes(len(question.values), most_probes(C if shared else LARGEST_ANSWER, C))
            return Sums(tuple(_counts_by_label(question.values, cal.scores, labels, C)))
        if isinstance(question, DescendFrom):
            if len(question.q) % C or not question.q or (shared and len(question.q) > C):
                raise InputError("the server must ask from one number per target and label")
            w = np.array(question.weights)
            of_points, atoms = w.reshape(-1, C)[:, labels], question.share * w
            loss = SmoothedPinball(cal.scores, of_points, atoms, alpha=alpha, gamma=self.smoothing)
            q, K, eta = np.array(question.q), self.local_steps, self.step_size
            return descend(loss, q, steps=K, step_size=eta)
        return LabelCounts(tuple(np.bincount(labels, minlength=C).tolist()))

    def exchange(self, alpha: float) -> Exchange[Summary, Outcome]:
        sent = of_kind((yield Begin()), LabelCounts)
        counts = stacked([answer.counts for answer in sent])  # item 1 of the specification
        shift = LabelShift(self._weights(counts), counts)  # items 2 and 4
        solve = self._exact if self.solver == "exact" else self._rounds
        q = yield from solve(shift, alpha)
        table = np.where(shift.totals > 0, np.clip(q.reshape(shift.totals.shape), 0, 1), np.inf)
        rows = tuple(tuple(row) for row in table.tolist())
        return PerAgentThresholds(rows) if self.target == "own" else SharedThreshold(rows[0])

    def check(self, question: Question, answer: Summary, earlier: Any, terms: Terms) -> Any:
        if isinstance(question, CountAt):
            counts, claims = earlier
            return counts, claims.extended(question.values, expect(answer, Sums).values)
        if isinstance(question, DescendFrom):
            step, K, eta = expect(answer, Step), self.local_steps, self.step_size
            check_step(step, question.q, terms.alpha, steps=K, step_size=eta)
            return earlier
        sent = expect(answer, LabelCounts)
        check_classes(sent.counts, terms.n_classes)
        return sent, SumClaims(np.array(sent.counts, dtype=np.float64), slack=0.0)

    def schedule(self, agents: int, n_classes: int | None) -> Schedule:
        if self.solver == "rounds":
            return ((Begin, 1), (DescendFrom, self.rounds))
        C, targets = n_classes or 1, agents if self.target == "own" else 1
        return ((Begin, 1), (CountAt, most_steps(targets * C, C, SCORES)))

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        labels, C = cal.labelled("dp-fedcp")
        # weights and smoothing are the server's choice: one real number may tell several scores
        sizes = np.bincount(labels, minlength=C).tolist()
        return tuple(Disclosure(n, n, part) for part, n in enumerate(sizes))

    def _weights(self, counts: Floats) -> Floats:
        """Return the weights of all targets, shape (T, C)."""
        C = counts.shape[1]
        if self.target == "mixture":
            return np.ones((1, C))
        if isinstance(self.target, str):
            return label_weights(counts, counts)
        check_label_target(self.target, C)
        return label_weights(counts, np.array([self.target], dtype=np.float64))

    def _exact(self, shift: LabelShift, alpha: float) -> Exchange[Summary, Floats]:
        """Search for the quantiles on label-wise counts."""
        level = (float(exact_level(alpha)) - LEVEL_TOLERANCE) * shift.totals

        def reached(counts: Floats) -> Bools:
            below = (counts @ shift.weights.T)[:, :, None]
            return np.asarray((below >= level).reshape(len(counts), -1))

        T, C = shift.weights.shape
        return (yield from search_sums(CountAt, reached, T * C, C, bounds=SCORES))

    def _rounds(self, shift: LabelShift, alpha: float) -> Exchange[Summary, Floats]:
        """Descend in rounds, every agent in each (item 6): q <- q + sum_i lambda_i shift_i."""
        weights = tuple(shift.weights.ravel().tolist())
        q = np.full(len(weights), 1 - alpha if self.start is None else self.start)
        means = []
        for _ in range(self.rounds):
            start = tuple(q.tolist())
            parts = [DescendFrom(start, weights, part) for part in shift.parts.tolist()]
            steps = of_kind((yield PerAgentQuestions(tuple(parts))), Step)
            q = q + summed(shift.shares * stacked([step.shift for step in steps], len(q)))
            means.append(summed(shift.shares * stacked([step.mean for step in steps], len(q))))
        if self.average == "last":
            return q
        first = self.rounds // 2 if self.average == "half" else 0
        return np.asarray(np.mean(means[first:], axis=0))


def label_weights(counts: Floats, targets: Floats) -> Floats:
    """Return w_y = (c c*_y) / (c* c_y), how much rarer or commoner a label is at the target.

    Shapes: counts (M, C), targets (T, C) -> (T, C).

    Examples
    --------
    >>> label_weights(np.array([[2.0, 6.0], [2.0, 0.0]]), np.array([[1.0, 1.0]]))
    array([[1.25      , 0.83333333]])
    """
    c_y = counts.sum(axis=0)
    top = c_y.sum() * targets
    bottom = targets.sum(axis=1, keepdims=True) * c_y
    w: Floats = np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
    return w


def _counts_by_label(
    probes: Sequence[float], scores: Floats, labels: Labels, n_classes: int
) -> list[int]:
    """Count, for each probe and label, the points of that label with a score at or below.

    Examples
    --------
    >>> _counts_by_label([0.2, 0.4], np.array([0.4, 0.1, 0.2]), np.array([0, 1, 1]), 2)
    [0, 2, 1, 2]
    """
    first = np.searchsorted(np.asarray(probes), scores)  # the first probe that is not below
    cells = np.bincount(first * n_classes + labels, minlength=(len(probes) + 1) * n_classes)
    table = np.cumsum(cells.reshape(-1, n_classes), axis=0)[:-1]
    return [int(count) for count in table.ravel()]


class LabelShift:
    """Denominators and agents' shares for T targets and C labels.

    Shapes: weights (T, C), counts (M, C).
    """

    def __init__(self, weights: Floats, counts: Floats) -> None:
        n, N = counts.sum(axis=1), counts.sum()
        self.weights = weights  # w_y
        self.parts = np.asarray(n / N if N else np.full(len(n), 1 / len(n)))  # N_i / N
        self.totals = weights + (weights @ counts.sum(axis=0))[:, None]  # D_y = w_y + sum_k w_{Y_k}
        # lambda_i = (N_i / N) w_y / D_y + sum_k w_{Y_k^i} / D_y, shape (M, T C): they sum to 1
        mass = self.parts[:, None, None] * weights + (counts @ weights.T)[:, :, None]
        shares = np.divide(mass, self.totals, out=np.zeros_like(mass), where=self.totals > 0)
        self.shares = shares.reshape(len(counts), -1)


def check_step(
    step: Step, start: Sequence[float], alpha: float, *, steps: int, step_size: float
) -> None:
    """Refuse a step that no local descent makes.

    A gradient lies within [-(1 - alpha), alpha], so K steps lead from q to no further than
    [q - K eta alpha, q + K eta (1 - alpha)], each local iterate included.
    """
    if len(step.shift) != len(start):
        raise InputError(f"must be {len(start)}, got {len(step.shift)}", field="shift")
    q = np.array(start, dtype=np.float64)
    rounding = 1e-9 * (1 + np.abs(q))
    down, up = steps * step_size * alpha + rounding, steps * step_size * (1 - alpha) + rounding
    for name, moved in (("shift", np.array(step.shift)), ("mean", np.array(step.mean) - q)):
        if not ((-down <= moved) & (moved <= up)).all():
            raise InputError("must be within local_steps * step_size of the start", field=name)


def moreau_gradient(q: Floats, v: Floats | float, alpha: float, gamma: float) -> Floats:
    """Return the gradient of the Moreau envelope of the pinball loss.

    -(1 - alpha) below v - gamma (1 - alpha), alpha above v + gamma alpha, (q - v)/gamma between.

    Examples
    --------
    >>> moreau_gradient(np.array([0.0, 0.5, 1.0]), 0.5, alpha=0.25, gamma=0.1)
    array([-0.75,  0.  ,  0.25])
    """
    return np.clip((q - v) / gamma, -(1 - alpha), alpha)


class SmoothedPinball:
    """One agent's smoothed loss for P problems that share the agent's scores.

    Sorted scores and running sums make a gradient cost O(P log n). Shapes: scores (n,), weights
    (T, n), of which problem p uses row ``p // (P / T)``, and atoms (P,), further mass at 1.
    """

    def __init__(
        self, scores: Floats, weights: Floats, atoms: Floats, *, alpha: float, gamma: float
    ) -> None:
        order = np.argsort(scores, kind="stable")
        sums = weights.sum(axis=1)
        sorted_weights = weights[:, order] / np.where(sums > 0, sums, 1.0)[:, None]
        self._rows = np.repeat(np.arange(len(sums)), len(atoms) // max(1, len(sums)))
        self._scores = scores[order]
        finite = np.where(np.isfinite(self._scores), self._scores, 0.0)  # no window reaches +inf
        start = np.zeros((len(sums), 1))
        self._mass = np.hstack([start, np.cumsum(sorted_weights, axis=1)])
        self._moment = np.hstack([start, np.cumsum(sorted_weights * finite, axis=1)])
        total = sums[self._rows] + atoms
        self._atoms = np.divide(atoms, total, out=np.zeros_like(total), where=total > 0)
        self._rest = (total > 0) - self._atoms
        self._alpha, self._gamma = alpha, gamma

    def gradient(self, q: Floats) -> Floats:
        """Return the gradient of each problem's loss at q (P,), its weights normalised to 1."""
        alpha, gamma, rows = self._alpha, self._gamma, self._rows
        low = np.searchsorted(self._scores, q - gamma * alpha, side="left")
        high = np.searchsorted(self._scores, q + gamma * (1 - alpha), side="right")
        below, upto = self._mass[rows, low], self._mass[rows, high]
        window = q * (upto - below) - (self._moment[rows, high] - self._moment[rows, low])
        of_points = alpha * below - (1 - alpha) * (self._mass[rows, -1] - upto) + window / gamma
        atom = moreau_gradient(q, 1.0, alpha, gamma)
        both: Floats = self._rest * np.clip(of_points, -(1 - alpha), alpha) + self._atoms * atom
        return both


def descend(loss: SmoothedPinball, start: Floats, *, steps: int, step_size: float) -> Step:
    """Make an agent's local steps q <- q - eta gradient."""
    q, visited = start, np.zeros_like(start)
    for _ in range(steps):
        visited = visited + q
        q = q - step_size * loss.gradient(q)
    return Step(tuple((q - start).tolist()), tuple((visited / steps).tolist()))
