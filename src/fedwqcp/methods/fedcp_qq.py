"""FedCP-QQ: a quantile of local quantiles."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, TypeAlias, get_args

from numpy.random import Generator as Random

from fedwqcp.errors import InputError
from fedwqcp.methods._answers import of_kind
from fedwqcp.methods._base import Disclosure, Each, Method, UnfitAnswerError
from fedwqcp.methods._calibration import Calibration
from fedwqcp.methods._quantile_of_quantiles import choose_k, choose_pair
from fedwqcp.quantile import conformal_rank, exact_level, order_statistic
from fedwqcp.wire.guarantee import Guarantee, GuaranteeKind
from fedwqcp.wire.payload import (
    Begin,
    LocalQuantile,
    Outcome,
    Question,
    Summary,
    check_score,
    check_size,
)

Selection: TypeAlias = Literal["fixed_local", "joint", "truncate_min"]
"""How the local rank and the rank among agents are chosen."""


@dataclass(frozen=True)
class SampleSize(Summary):
    """How many scores an agent has.

    Parameters
    ----------
    n : int
        At least 0.
    """

    n: int

    def __post_init__(self) -> None:
        check_size(self.n, "n")

    def sizes(self) -> tuple[int, ...]:
        return (self.n,)


@dataclass(frozen=True)
class RankOf(Question):
    """What your score of this rank is, among as many of your scores.

    Parameters
    ----------
    rank : int
        l, from 1 to keep.
    keep : int
        How many of its scores an agent keeps, drawn at random where it has more.
    """

    rank: int
    keep: int

    def __post_init__(self) -> None:
        if not 1 <= self.rank <= self.keep:
            raise InputError(f"rank: must be from 1 to {self.keep}, got {self.rank}")


@dataclass(frozen=True)
class QuantileOfQuantiles(Outcome):
    """The threshold, and how it was chosen.

    Parameters
    ----------
    value : float
        The k-th smallest of the agents' local order statistics; +inf where no choice suffices.
    rank : int or None
        The local rank l; None where each agent has its own, or nothing suffices.
    k : int
        The rank among agents; 0 where nothing suffices.
    coverage : float
        The expected coverage M; with delta, the level that coverage given the calibration data
        reaches with probability 1 - delta. 1 for +inf.
    """

    value: float
    rank: int | None
    k: int
    coverage: float

    same_for_all = True

    def __post_init__(self) -> None:
        check_score(self.value, "value")
        check_size(self.k, "k")
        if not 0 <= self.coverage <= 1:
            raise InputError(f"coverage: must be from 0 to 1, got {self.coverage}")

    def threshold(self, position: int | None) -> float:
        del position  # it is the same for all
        return self.value


NOTHING = QuantileOfQuantiles(inf, None, 0, 1.0)
"""Where no choice of ranks reaches the level."""


@dataclass(frozen=True)
class FedCPQQ(Method[Summary]):
    """The k-th smallest of the agents' l-th smallest scores.

    For scores that are i.i.d. across agents, its expected coverage is known exactly:
    M = 1 - integral_0^1 P(at least k successes among Bernoulli(G_j(u))) du, where
    G_j(u) = I_u(l_j, n_j - l_j + 1). The ranks are chosen so that M >= 1 - alpha. An agent without
    scores takes no part.

    Parameters
    ----------
    selection : {"fixed_local", "joint", "truncate_min"}, optional
        ``fixed_local``: agent j takes l_j = min(r(n_j, alpha), n_j), the server the smallest k with
        M >= 1 - alpha. ``joint``: all agents have ``common_n`` scores, and the server takes the
        pair (l, k) with the smallest such M. ``truncate_min``: the same for the smallest sample
        size; agents with more scores draw as many at random.
    common_n : int, optional
        The sample size that all agents have; needed for ``joint``.
    delta : float, optional
        Ask that coverage given the calibration data reaches 1 - alpha with probability 1 - delta,
        rather than in the mean.

    Notes
    -----
    **Guarantee**: P(Y in C(X)) >= M >= 1 - alpha, with equality to M without ties, if scores are
    i.i.d. at and across agents. With ``delta``, coverage given the calibration data is at least 1 -
    alpha with probability at least 1 - delta.

    Under heterogeneity nothing is promised: which agent's quantile is returned is then decided by
    rounding. Neither threshold nor k need be monotone in alpha.

    **Cost**: ``fixed_local`` one round, one float and one integer per agent; the others two rounds,
    the first for the sizes. The outcome tells l, k and M.

    References
    ----------
    Humbert, Le Bars, Bellet, Arlot (2023), arXiv:2302.06322, and (2024), arXiv:2405.12567.

    Examples
    --------
    >>> from fedwqcp import calibrate
    >>> agents = {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.2, 0.5, 0.6, 0.7, 0.8]}
    >>> release = calibrate(agents, method=FedCPQQ(), alpha=0.3)
    >>> release.threshold("a"), release.outcomes[0].k, round(release.outcomes[0].coverage, 4)
    (0.4, 1, 0.7333)
    """

    selection: Selection = "fixed_local"
    common_n: int | None = None
    delta: float | None = None

    summaries = (LocalQuantile, SampleSize)
    questions = (Begin, RankOf)
    outcomes = (QuantileOfQuantiles,)

    def __post_init__(self) -> None:
        if self.selection not in get_args(Selection):
            raise InputError(
                f"selection must be one of {', '.join(get_args(Selection))}, got {self.selection!r}"
            )
        if (self.selection == "joint") != (self.common_n is not None):
            raise InputError(
                "common_n must be given with selection='joint', and only there, "
                f"got {self.common_n!r} with {self.selection!r}"
            )
        if self.common_n is not None and (isinstance(self.common_n, bool) or self.common_n < 1):
            raise InputError(f"common_n must be an integer of at least 1, got {self.common_n!r}")
        if self.delta is not None and not (isinstance(self.delta, float) and 0 < self.delta < 1):
            raise InputError(f"delta must be strictly between 0 and 1, got {self.delta!r}")

    @property
    def guarantee(self) -> Guarantee:
        """In the mean over calibration data or, with delta, given them."""
        kind: GuaranteeKind = "marginal-iid" if self.delta is None else "training-conditional"
        return Guarantee(kind, "finite-sample")

    @property
    def assumption(self) -> str:
        """What the guarantee rests on."""
        iid = "scores are independent and identically distributed, at and across agents"
        if self.delta is None:
            return iid
        return f"{iid}; coverage then reaches 1 - alpha with probability {1 - self.delta:g}"

    def reveals(
        self, cal: Calibration, alpha: float, *, steps: int, agents: int
    ) -> tuple[Disclosure, ...]:
        del alpha, agents
        questions = 1 if self.selection == "fixed_local" else max(1, steps - 1)
        return (Disclosure(cal.n, min(cal.n, questions)),)

    def answer(self, cal: Calibration, question: Question, alpha: float, rng: Random) -> Summary:
        if isinstance(question, RankOf):
            return self._order_statistic(cal, question, rng)
        if self.selection != "fixed_local":
            if self.selection == "joint" and cal.n not in (0, self.common_n):
                raise InputError(
                    f"n must be common_n = {self.common_n} at every agent, got {cal.n}; "
                    "use selection='fixed_local'"
                )
            return SampleSize(cal.n)
        if cal.n == 0:
            return LocalQuantile(inf, 0)
        return LocalQuantile(order_statistic(cal.scores, _local_rank(cal.n, alpha)), cal.n)

    def exchange(self, alpha: float) -> Generator[Question | Each, Sequence[Summary], Outcome]:
        level = float(exact_level(alpha))
        answers = yield Begin()
        claimed = [sum(answer.sizes()) for answer in answers]
        for i, n in enumerate(claimed):
            if self.common_n is not None and n not in (0, self.common_n):
                raise UnfitAnswerError(i, f"n must be common_n = {self.common_n}, got {n}")
        there = [i for i, n in enumerate(claimed) if n]
        sizes = [claimed[i] for i in there]
        if not there:
            return NOTHING
        rank: int | None
        if self.selection == "fixed_local":
            ranks = [_local_rank(n, alpha) for n in sizes]
            chosen = choose_k(ranks, sizes, level, self.delta)
            if chosen is None:
                return NOTHING
            rank, (k, coverage) = None, chosen
        else:
            pair = choose_pair(len(sizes), min(sizes), level, self.delta)
            if pair is None:
                return NOTHING
            rank, k, coverage = pair
            answers = yield RankOf(rank, min(sizes))
        local = of_kind(answers, LocalQuantile)
        value = sorted(local[i].threshold for i in there)[k - 1]
        return QuantileOfQuantiles(value, rank, k, coverage)

    def _order_statistic(self, cal: Calibration, question: RankOf, rng: Random) -> LocalQuantile:
        """Answer with one order statistic of as many scores as all agents keep."""
        if self.selection == "fixed_local" or question.keep != (self.common_n or question.keep):
            raise InputError("the server must ask what this method's settings need")
        if cal.n == 0:
            return LocalQuantile(inf, 0)
        if cal.n < question.keep:
            raise InputError(f"the server must ask for at most n = {cal.n} scores")
        scores = cal.scores
        if cal.n > question.keep:
            scores = rng.permutation(scores)[: question.keep]
        return LocalQuantile(order_statistic(scores, question.rank), cal.n)


def _local_rank(n: int, alpha: float) -> int:
    """The rank that an agent of n scores takes by itself."""
    return min(conformal_rank(n, alpha), n)
