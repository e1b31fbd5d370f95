"""What agents and server of CPhet say to each other once the laws are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from fedwqcp.errors import InputError
from fedwqcp.methods._laws import Laws
from fedwqcp.wire.limits import NUMBER
from fedwqcp.wire.payload import Number, Outcome, Question, Summary, ToAll, ToEach, check_score


@dataclass(frozen=True)
class Weigh(Question):
    """How much the agent's points weigh at each target.

    Parameters
    ----------
    laws : Laws
        Laws of all agents.
    """

    laws: Laws


@dataclass(frozen=True)
class SumsAt(Question):
    """How much weight lies at or below each probe.

    Parameters
    ----------
    probes : tuple of float
        In increasing order.
    laws : Laws
        Laws of all agents; an agent keeps nothing from one question to the next.
    """

    probes: tuple[float, ...]
    laws: Laws

    def __post_init__(self) -> None:
        if any(a >= b for a, b in zip(self.probes, self.probes[1:], strict=False)):
            raise InputError("probes: must be strictly increasing")


@dataclass(frozen=True)
class DescendToward(Question):
    """Where an agent gets to from q by its local steps.

    Parameters
    ----------
    q : tuple of float
        For each target, where the server stands.
    laws : Laws
        Laws of all agents; an agent keeps nothing from one question to the next.
    """

    q: tuple[float, ...]
    laws: Laws

    def __post_init__(self) -> None:
        if not all(abs(q) <= NUMBER.most for q in self.q):
            raise InputError(f"q: must hold numbers of at most {NUMBER.most:g}")


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
            raise InputError("squares: must be as many as totals")
        if not all(0 <= value <= NUMBER.most for value in (*self.totals, *self.squares)):
            raise InputError(f"totals: must be from 0 to {NUMBER.most:g}, as squares must")
        for quantile in self.quantiles:
            check_score(quantile, "quantiles")

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
        for value in self.values:
            check_score(value, "values")
        for row in self.weights:
            if len(row) != len(self.values) or not all(0 <= w <= NUMBER.most for w in row):
                raise InputError(
                    f"weights: must be one number from 0 to {NUMBER.most:g} for each score"
                )

    def sizes(self) -> tuple[int, ...]:
        return (len(self.values),)

    def scores(self) -> tuple[float, ...]:
        return self.values


@dataclass(frozen=True)
class ReweightedToAll(ToAll):
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
class ReweightedToEach(ToEach):
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
class TowardLaws(Outcome):
    """The laws that each agent re-weights its own scores with.

    Parameters
    ----------
    laws : Laws
        Laws of all agents.
    """

    laws: Laws


@dataclass(frozen=True)
class PooledScores(Outcome):
    """All that a threshold for each test input needs.

    Parameters
    ----------
    values : tuple of float
        Scores of all agents.
    weights : tuple of tuple of float
        For each target, one weight for each score.
    laws : Laws
        Laws of all agents, for the weight of a test input.
    largest : tuple of float
        For each target, the threshold of an input of the largest weight; no input has more.
    effective : tuple of float
        For each target, (sum w)^2 / sum w^2.
    shared : bool
        Whether there is one target for all agents.
    """

    values: tuple[float, ...]
    weights: tuple[tuple[float, ...], ...]
    laws: Laws
    largest: tuple[float, ...]
    effective: tuple[float, ...]
    shared: bool

    def row(self, position: int | None) -> int | None:
        """Return which target an agent aims at.

        Parameters
        ----------
        position : int or None
            Place of the agent among those whose answers were used.

        Returns
        -------
        int or None
            None where the agent has no target here.
        """
        return 0 if self.shared else position

    def threshold(self, position: int | None) -> Number | None:
        at = self.row(position)
        return None if at is None else self.largest[at]
