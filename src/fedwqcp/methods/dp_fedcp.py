"""DP-FedCP: thresholds per label, corrected for label shift, from federated quantile descent.

There is one quantile problem for each of T targets and C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Random

from fedwqcp._validation import Bools, Floats, Labels, check_least
from fedwqcp.errors import InputError
from fedwqcp.methods._answers import expect, of_kind, stacked
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
from fedwqcp.methods._noise import discrete_gaussian
from fedwqcp.methods._pinball import (
    TAIL,
    Average,
    SmoothedPinball,
    Step,
    check_descent,
    check_step,
    descend,
    federated_quantiles,
)
from fedwqcp.methods._search import (
    LARGEST_ANSWER,
    SumClaims,
    Sums,
    check_probes,
    most_probes,
    most_steps,
    search_sums,
)
from fedwqcp.quantile import LEVEL_TOLERANCE, exact_level
from fedwqcp.registry import TERM
from fedwqcp.wire.limits import NOISE, NUMBER
from fedwqcp.wire.messages import (
    Begin,
    Outcome,
    PerAgentThresholds,
    Question,
    Real,
    SharedThreshold,
    Summary,
    Target,
    check_increasing,
    check_size,
    check_sizes,
)
from fedwqcp.wire.release import Guarantee

SCORES = (0.0, 1.0)
"""The range of the scores."""

BLOCK = 10
"""The first points that a server asks for are counted in blocks of so many."""


class LabelCounts(Summary):
    """How many calibration points of an agent have each label."""

    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        check_sizes(self.counts, "counts")

    def sizes(self) -> tuple[int, ...]:
        return (sum(self.counts),)


class NoisyCounts(Summary):
    """Label counts with discrete Gaussian noise; their sum may pass the agent's size."""

    counts: tuple[int, ...]  # at least 1 each
    noise: float  # its standard deviation

    def __post_init__(self) -> None:
        for count in self.counts:
            check_size(count, "counts")
            if count < 1:
                raise InputError("must be at least 1 each, got 0", field="counts")
        if not 0 < self.noise <= NOISE.most:
            raise InputError(f"must be above 0 and at most {NOISE.most:g}", field="noise")

    def sizes(self) -> tuple[int, ...]:
        """Return the least size that these counts can stand for, but once in e^40 draws a label."""
        return (sum(max(0, count - _count_margin(self.noise)) for count in self.counts),)


class CountFirst(Question):
    """How many of the agent's first ``size`` points have each label."""

    size: int

    def __post_init__(self) -> None:
        check_size(self.size, "size")


class CountsAt(Question):
    """How many points of each label have a score at or below each probe."""

    probes: tuple[Real, ...]  # increasing
    size: int | None  # how many of the agent's points count; None for all

    def __post_init__(self) -> None:
        if self.size is not None:
            check_size(self.size, "size")
        check_increasing(self.probes, "probes")


class DescendFrom(Question):
    """Where an agent gets to from q by its local steps."""

    q: tuple[float, ...]  # for each target and label, where the server stands
    weights: tuple[float, ...]  # for each target and label, w_y
    share: float  # N_i / N, this agent's share of the mass at 1
    size: int | None  # how many of the agent's points count; None for all

    def __post_init__(self) -> None:
        if self.size is not None:
            check_size(self.size, "size")
        if len(self.q) != len(self.weights) or not all(abs(q) <= NUMBER.most for q in self.q):
            raise InputError(
                f"must be one number of at most {NUMBER.most:g} for each weight", field="q"
            )
        if not all(0 <= w <= NUMBER.most for w in (*self.weights, self.share)):
            raise InputError(f"must be from 0 to {NUMBER.most:g}, as share must", field="weights")


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
    noise : float, optional
        sigma_g, standard deviation of the normal noise on each local gradient.
    count_noise : float, optional
        Standard deviation of the discrete Gaussian noise on label counts, which are then floored at
        1; weights, sizes and shares all follow from the noisy counts.
    start : float, optional
        q_0; 1 - alpha by default. Averages are dragged towards it: from 0, the mean over all rounds
        ends near 0.86 where the quantile is 1.
    average : {"last", "half", "all"}, optional
        What is returned: q_T, the mean over the last half of the rounds, or over all as published.
    subsample : bool, optional
        Use the first min(N_i, Nbar_i) points of agent i, (Nbar_i) multinomial with floor(N/2)
        draws, as the theorem asks, rounded down to a multiple of ten; all points where fewer than
        ten would be left over. The server names the number, and no two numbers then differ by the
        labels of a few points. Weights still come from all counts.
    seed : int, optional
        Seed of the server's multinomial draw.

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

    By the authors' theorem, which nothing here checks, with ``noise`` one label's threshold is
    (eps, delta)-private for sigma_g >= 2 sqrt((K max_i lambda_i / eps)(1 + 24 sqrt(T) log(1/d) /
    eps)), d = 1 - ((1 - delta)/(1 + sqrt(eps)))^(1/T); labels, targets, levels and counts compose.
    Agents refuse questions that the settings do not need; over many rounds, the counts of ``exact``
    trace the scores' distribution anyway, and each repeated question wears noise down.

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
    noise: float = 0.0
    count_noise: float = 0.0
    start: float | None = None
    average: Average = "half"
    subsample: bool = False
    seed: int = 0

    summaries = (LabelCounts, NoisyCounts, Sums, Step)
    questions = (Begin, CountFirst, CountsAt, DescendFrom)
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
        if self.solver == "exact" and (self.noise or self.count_noise):
            raise InputError("solver 'exact' asks for exact counts: noise needs solver='rounds'")
        if self.start is not None and not 0 <= self.start <= 1:
            raise InputError(f"start must lie between 0 and 1, got {self.start!r}")
        check_descent(self.rounds, self.local_steps, self.step_size, self.smoothing)
        NOISE.number(self.noise, "noise")
        NOISE.number(self.count_noise, "count_noise")
        check_least(self.seed, 0, "seed")

    def answer(self, cal: Calibration, question: Question, alpha: float, rng: Random) -> Summary:
        if cal.n and not (cal.scores.min() >= 0 and cal.scores.max() <= 1):
            raise InputError("dp-fedcp needs scores between 0 and 1, such as those of LAC or APS")
        labels, C = cal.labelled("dp-fedcp")
        _check_label_question(question, C, subsample=self.subsample, shared=self.target != "own")
        size: int | None = getattr(question, "size", None)  # `Begin` is about all points
        first = _first_points(size, cal.n)
        scores, labels = cal.scores[:first], labels[:first]
        if isinstance(question, CountsAt):
            return Sums(tuple(_counts_by_label(question.probes, scores, labels, C)))
        if isinstance(question, DescendFrom):
            w = np.array(question.weights)
            of_points, atoms = w.reshape(-1, C)[:, labels], question.share * w
            loss = SmoothedPinball(scores, of_points, atoms, alpha=alpha, gamma=self.smoothing)
            q, K, eta = np.array(question.q), self.local_steps, self.step_size
            return descend(loss, q, rng, steps=K, step_size=eta, noise=self.noise)
        return count_labels(labels, C, self.count_noise, rng)

    def exchange(self, alpha: float) -> Exchange[Summary, Outcome]:
        counts = used = self._counts((yield Begin()))  # item 1 of the specification
        sizes: tuple[int | None, ...] = (None,) * len(counts)
        if self.subsample:  # item 3
            drawn = sizes = _draw_sizes(counts, self.seed)
            used = self._counts(
                (yield PerAgentQuestions(tuple(CountFirst(size) for size in drawn)))
            )
        shift = LabelShift(self._weights(counts), counts, used)  # items 2 and 4
        solve = self._exact if self.solver == "exact" else self._rounds
        q = yield from solve(shift, sizes, alpha)
        table = np.where(shift.totals > 0, np.clip(q.reshape(shift.totals.shape), 0, 1), np.inf)
        rows = tuple(tuple(row) for row in table.tolist())
        return PerAgentThresholds(rows) if self.target == "own" else SharedThreshold(rows[0])

    def check(self, question: Question, answer: Summary, earlier: Any, terms: Terms) -> Any:
        if isinstance(question, CountsAt):
            counts, claims = earlier
            return counts, claims.extended(question.probes, expect(answer, Sums))
        if isinstance(question, DescendFrom):
            step, K, eta = expect(answer, Step), self.local_steps, self.step_size
            check_step(step, question.q, terms.alpha, steps=K, step_size=eta, noise=self.noise)
            return earlier
        sent = expect(answer, self._kind)
        first = earlier[0] if isinstance(question, CountFirst) else None
        size = question.size if isinstance(question, CountFirst) else None
        check_labels(sent, first, size, noise=self.count_noise, n_classes=terms.n_classes)
        claims = SumClaims(np.array(sent.counts, dtype=np.float64), slack=0.0)
        return first or sent, claims

    def schedule(self, agents: int, n_classes: int | None) -> Schedule:
        first = ((Begin, 1), (CountFirst, 1)) if self.subsample else ((Begin, 1),)
        if self.solver == "rounds":
            return (*first, (DescendFrom, self.rounds))
        C, targets = n_classes or 1, agents if self.target == "own" else 1
        return (*first, (CountsAt, most_steps(targets * C, C, SCORES)))

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        labels, C = cal.labelled("dp-fedcp")
        sizes = np.bincount(labels, minlength=C).tolist()
        # The server chooses the weights, so every number can be about one class alone. It also says
        # how many targets there are, and `exact` counts at some hundred values a question.
        disclosed = max(sizes)
        if self.solver == "rounds" and self.target != "own":
            # The server sets the noise, so none of it counts.
            disclosed = 2 * C * max(self.rounds, steps - 1)
        return tuple(Disclosure(n, min(n, disclosed), part) for part, n in enumerate(sizes))

    def cells(self, cal: Calibration) -> tuple[int, ...]:
        blocks = cal.n // BLOCK if self.subsample else 0
        return () if blocks < 2 else (BLOCK,) * (blocks - 1) + (cal.n - BLOCK * (blocks - 1),)

    @property
    def _kind(self) -> type[LabelCounts | NoisyCounts]:
        """What agents answer when labels are counted."""
        return NoisyCounts if self.count_noise else LabelCounts

    def _counts(self, answers: Sequence[Summary]) -> Floats:
        """Return the label counts of all agents, shape (M, C)."""
        return stacked([answer.counts for answer in of_kind(answers, self._kind)])

    def _weights(self, counts: Floats) -> Floats:
        """Return the weights of all targets, shape (T, C)."""
        C = counts.shape[1]
        if self.target == "mixture":
            return np.ones((1, C))
        if isinstance(self.target, str):
            return label_weights(counts, counts)
        if len(self.target) != C:
            raise InputError(f"target must hold {C} numbers, one per label, got {len(self.target)}")
        return label_weights(counts, np.array([self.target], dtype=np.float64))

    def _exact(
        self, shift: LabelShift, sizes: tuple[int | None, ...], alpha: float
    ) -> Exchange[Summary, Floats]:
        """Search for the quantiles on label-wise counts."""
        level = (float(exact_level(alpha)) - LEVEL_TOLERANCE) * shift.totals

        def ask(probes: tuple[float, ...]) -> PerAgentQuestions:
            return PerAgentQuestions(tuple(CountsAt(probes, size) for size in sizes))

        def reached(counts: Floats) -> Bools:
            below = (counts @ shift.weights.T)[:, :, None]
            return np.asarray((below >= level).reshape(len(counts), -1))

        T, C = shift.weights.shape
        return (yield from search_sums(ask, reached, T * C, C, bounds=SCORES))

    def _rounds(
        self, shift: LabelShift, sizes: tuple[int | None, ...], alpha: float
    ) -> Exchange[Summary, Floats]:
        """Descend in rounds (item 6)."""
        weights = tuple(shift.weights.ravel().tolist())
        agents = tuple(zip(shift.parts.tolist(), sizes, strict=True))

        def ask(q: Floats) -> PerAgentQuestions:
            values = tuple(q.tolist())
            return PerAgentQuestions(
                tuple(DescendFrom(values, weights, part, n) for part, n in agents)
            )

        start = np.full(len(weights), 1 - alpha if self.start is None else self.start)
        return (yield from federated_quantiles(ask, start, shift.shares, self.rounds, self.average))


def _first_points(size: int | None, n: int) -> int:
    """Return how many of n points count where the first ``size`` are asked for; None for all.

    Whatever sizes are asked for, two answers differ by at least ten points or by none.

    Examples
    --------
    >>> [_first_points(size, n=35) for size in (0, 9, 10, 19, 25, 26, 99)]
    [0, 0, 10, 10, 20, 20, 35]
    """
    rounded = n if size is None else size - size % BLOCK
    return rounded if n - rounded >= BLOCK else n


def _count_margin(noise: float) -> int:
    """Return what discrete Gaussian noise passes less than once in e^40 draws."""
    return ceil(TAIL * noise)  # its tail is no heavier than the normal one


def check_labels(
    sent: LabelCounts | NoisyCounts,
    first: LabelCounts | NoisyCounts | None,
    size: int | None,
    *,
    noise: float,
    n_classes: int | None,
) -> None:
    """Refuse label counts of other classes or noise, or that the agent's first ones rule out.

    ``first`` and ``size`` are given where only the agent's first points were asked for.
    """
    C = n_classes if first is None else len(first.counts)
    if C is not None and len(sent.counts) != C:
        raise InputError(f"must be {C}, one for each class, got {len(sent.counts)}", field="counts")
    if isinstance(sent, NoisyCounts) and sent.noise != noise:
        raise InputError(f"must be the round's {noise:g}", field="noise")
    if first is None or size is None:
        return
    margin = 2 * _count_margin(noise) if noise else 0  # two draws
    if any(
        later > before + margin for later, before in zip(sent.counts, first.counts, strict=True)
    ):
        raise InputError("must not pass those of all points, as given before", field="counts")
    most = size + BLOCK - 1 if noise else _first_points(size, sum(first.counts))
    if sent.sizes()[0] > most or (not noise and sum(sent.counts) < most):
        raise InputError(f"must be of the first {size} points", field="counts")


def count_labels(
    labels: Labels, n_classes: int, noise: float, rng: Random
) -> LabelCounts | NoisyCounts:
    """Count labels, with noise where it is asked for; noisy counts are floored at 1."""
    counts = np.bincount(labels, minlength=n_classes)
    if not noise:
        return LabelCounts(tuple(counts.tolist()))
    noisy = counts + discrete_gaussian(noise, n_classes, rng)
    return NoisyCounts(tuple(np.maximum(1, noisy).tolist()), noise)


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


def _check_label_question(
    question: Question, n_classes: int, *, subsample: bool, shared: bool
) -> None:
    """Refuse a question about other points, or more probes or problems, than the settings need."""
    if not isinstance(question, CountFirst | CountsAt | DescendFrom):
        return
    if (question.size is None) == subsample:
        raise InputError("the server must ask about the first points with subsample, and only then")
    if isinstance(question, CountsAt):
        problems = n_classes if shared else LARGEST_ANSWER
        check_probes(len(question.probes), most_probes(problems, n_classes))
    if isinstance(question, DescendFrom):
        targets, rest = divmod(len(question.q), n_classes)
        if rest or targets < 1 or (shared and targets > 1):
            of_each = "label" if shared else "target and label"
            raise InputError(f"the server must ask from one number for each {of_each}")


class LabelShift:
    """Denominators and agents' shares for T targets and C labels.

    Shapes: weights (T, C); counts and used (M, C), label counts of all points and of those in use.
    """

    def __init__(self, weights: Floats, counts: Floats, used: Floats) -> None:
        self.weights = weights  # w_y
        self.parts = _agent_parts(counts)  # N_i / N
        self.totals = weights + (weights @ used.sum(axis=0))[:, None]  # D_y = w_y + sum_k w_{Y_k}
        # lambda_i = (N_i / N) w_y / D_y + sum_k w_{Y_k^i} / D_y, shape (M, T C): they sum to 1
        mass = self.parts[:, None, None] * weights + (used @ weights.T)[:, :, None]
        shares = np.divide(mass, self.totals, out=np.zeros_like(mass), where=self.totals > 0)
        self.shares = shares.reshape(len(counts), -1)


def _agent_parts(counts: Floats) -> Floats:
    """Return N_i / N, the same for all agents without points; counts have shape (M, C)."""
    n, N = counts.sum(axis=1), counts.sum()
    return np.asarray(n / N if N else np.full(len(n), 1 / len(n)))


def _draw_sizes(counts: Floats, seed: int) -> tuple[int, ...]:
    """Draw how many points of each agent are used: min(N_i, Nbar_i), Nbar multinomial.

    Shapes: counts (M, C).
    """
    n = counts.sum(axis=1)
    drawn = np.random.default_rng(seed).multinomial(int(n.sum()) // 2, _agent_parts(counts))
    return tuple(int(size) for size in np.minimum(n, drawn))
