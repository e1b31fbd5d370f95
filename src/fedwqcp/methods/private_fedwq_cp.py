"""FedWQ-CP with differential privacy: each agent's threshold is drawn, not read off its scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from math import ceil, inf
from typing import Any

from numpy.random import Generator as Random

from fedwqcp._validation import is_range
from fedwqcp.errors import InputError
from fedwqcp.methods._answers import expect
from fedwqcp.methods._base import Exchange, Method, Terms, Traits
from fedwqcp.methods._calibration import Calibration, Disclosure
from fedwqcp.methods._masked_sums import SummedMean
from fedwqcp.methods._noise import count_bins, edges_of, mechanism, noised_size, size_margin
from fedwqcp.methods.fedwq_cp import FedWQCP
from fedwqcp.quantile import Overflow
from fedwqcp.wire.limits import BINS, EPSILON
from fedwqcp.wire.messages import (
    Begin,
    LocalQuantile,
    Outcome,
    Question,
    Summary,
)

_LEAST_GAMMA = 1e-6
_MOST_EDGES = 10**6  # each costs a draw a microsecond


class PrivateQuantile(LocalQuantile):
    """One agent's private threshold, its sample size, and what they cost.

    They hide one calibration sample that is replaced, n being public; with ``size_epsilon`` one
    that is added or removed: a replaced one may change two groups.
    """

    epsilon: float  # differential privacy that this summary spends
    size_epsilon: float  # how much of it went into noise on n; 0 where n is public

    def __post_init__(self) -> None:
        LocalQuantile.__post_init__(self)
        EPSILON.number(self.epsilon, "epsilon")
        if self.size_epsilon:
            EPSILON.number(self.size_epsilon, "size_epsilon")
        if not self.size_epsilon < self.epsilon:
            raise InputError("must be above size_epsilon", field="epsilon")

    def sizes(self) -> tuple[int, ...]:
        return (max(0, self.n - _most_noise(self.size_epsilon)),)


@dataclass(frozen=True)
class PrivateFedWQCP(SummedMean, Method[PrivateQuantile]):
    r"""FedWQ-CP on thresholds that are differentially private before they leave.

    Agent k rounds its scores up to m edges and draws edge e with probability proportional to
    exp(-eps max((1 - q) #{s < e}, q #{s > e})), at the raised level q with
    q = (n + 1)(1 - alpha)/(n (1 - gamma alpha)) + log(m/(gamma alpha))/(eps n q). Where q > 1, n is
    too small for eps: see ``overflow``.

    Parameters
    ----------
    epsilon : float, optional
        What one threshold spends; each level and each column of the score spends it anew.
    bins : int, optional
        m, the number of edges.
    gamma : float, optional
        Share of alpha that is kept for bad luck of the noise, at least 1e-6.
    size_epsilon : float, optional
        Spent on top for noise on n_k; 0 sends n_k as it is.
    bounds : tuple of float, optional
        Range of the scores, chosen without looking at them; scores beyond count at its ends, and
        the last edge is then +inf. By default from 0 to 1, which must be the score's own range.
    overflow : {"propagate", "clip", "exclude"}, optional
        What an agent with too few points for epsilon does: +inf for everyone, the upper end of the
        range, or nothing.

    Notes
    -----
    **Idea**: an agent sends a random draw near its threshold. Replacing one calibration sample
    changes no probability of that draw by more than a factor e^epsilon.

    .. math::

        P(e) \propto \exp \left( - \epsilon \max \left(
        (1 - q) \lvert \{ s < e \} \rvert, q \lvert \{ s > e \} \rvert \right) \right)

    **Guarantee**: what an agent sends is epsilon-differentially private (pure) for one calibration
    sample that is replaced, n being public. With ``size_epsilon`` it is (epsilon +
    size_epsilon)-private for one that is added or removed. Each agent's own threshold covers its
    own new points with probability at least 1 - alpha, if these are exchangeable with its
    calibration points. The mean is a heuristic, as in FedWQ-CP.

    alpha may be 1/2 at most. The source raises the level twice as far and draws with another rate,
    eps alpha/(2 q (1 - q)), which passes epsilon near q = 1; its proof needs neither.

    **Cost**: one round; two floats more per agent than FedWQ-CP, and wider sets.

    **Fails**: where points are few for the epsilon (136 or fewer at alpha = 0.1 and epsilon = 1):
    the threshold is then +inf.

    References
    ----------
    Angelopoulos, Bates, Zrnic, Jordan (2022), arXiv:2102.06202.

    Examples
    --------
    >>> import fedwqcp as fw
    >>> scores = [(i % 100) / 100 for i in range(5000)]
    >>> release = fw.calibrate({"a": scores}, method=PrivateFedWQCP(), alpha=0.1, rng=0)
    >>> 0.9 < release.threshold("a") < 0.95
    True
    """

    epsilon: float = 1.0
    bins: int = 1000
    gamma: float = 0.1
    size_epsilon: float = 0.0
    bounds: tuple[float, ...] | None = None
    overflow: Overflow = "propagate"

    summaries = (PrivateQuantile,)
    assumption = (
        "each agent's private threshold covers its own points, but their combination is a heuristic"
    )

    def __post_init__(self) -> None:
        EPSILON.number(self.epsilon, "epsilon")
        if self.size_epsilon:
            EPSILON.number(self.size_epsilon, "size_epsilon")
        BINS.whole(self.bins, "bins")
        if not _LEAST_GAMMA <= self.gamma < 1:
            raise InputError(f"must be from 1e-6 to below 1, got {self.gamma!r}", field="gamma")
        if self.bounds is not None and not is_range(self.bounds):
            raise InputError(f"must be two finite numbers, got {self.bounds!r}", field="bounds")

    def answer(
        self, cal: Calibration, question: Question, alpha: float, rng: Random
    ) -> PrivateQuantile:
        if alpha > 0.5:
            raise InputError(f"alpha must be at most 0.5 for private-fedwq-cp, got {alpha:g}")
        edges = edges_of(self.bins, self.bounds)
        failure = max(self.gamma * alpha, 1e-300)  # no n reaches such a level; 0 has no logarithm
        n = least = cal.n
        if self.size_epsilon:
            failure /= 2  # the size may be overstated with the other half
            n = noised_size(cal.n, self.size_epsilon, rng)
            least = n - size_margin(self.size_epsilon, failure)
        cost = {"epsilon": self.epsilon, "gamma": self.gamma, "failure": failure}
        noisy = mechanism(least, alpha, bins=self.bins, **cost)
        if noisy is not None:
            q_k = float(edges[noisy.draw(count_bins(cal.scores, edges), rng)])
        else:
            top = 1.0 if self.bounds is None else float(self.bounds[1])
            q_k = top if self.overflow == "clip" and n else inf
        return PrivateQuantile(q_k, n, self._spent, self.size_epsilon)

    def exchange(self, alpha: float) -> Exchange[PrivateQuantile, Outcome]:
        answers = yield Begin()
        return FedWQCP(self.overflow).aggregate(answers, alpha)

    def check(self, question: Question, answer: Summary, earlier: Any, terms: Terms) -> Any:
        sent = expect(answer, PrivateQuantile)
        if (sent.epsilon, sent.size_epsilon) != (self._spent, self.size_epsilon):
            raise InputError(f"must be the round's {self._spent:g}", field="epsilon")
        return super().check(question, answer, earlier, terms)

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        # with a large epsilon there is little noise: the edge then stands for one score
        return (Disclosure(cal.n, min(cal.n, 1)),)

    @property
    def traits(self) -> Traits:
        return replace(
            super().traits,
            spends=self._spent,
            size_noise=_most_noise(self.size_epsilon),
            # decided by the terms alone: what an agent refuses because of its data tells of them
            stated_range=(0.0, 1.0) if self.bounds is None else None,
            most_thresholds=_MOST_EDGES // self.bins,
        )

    @property
    def _spent(self) -> float:
        """The epsilon of one answer, on the threshold and on the size."""
        return float(Decimal(str(self.epsilon)) + Decimal(str(self.size_epsilon)))  # 0.1 + 0.2


def _most_noise(size_epsilon: float) -> int:
    """Return what the noise on n exceeds less than once in e^40 draws."""
    return ceil(40 / size_epsilon) if size_epsilon else 0
