"""Methods whose server needs only sums over the agents, so that masks can hide every single number.

An agent's answer becomes whole words (`Summed.words`); the server learns totals of words alone
(`Summed.from_sums`). Whatever is not a sum (a median, an order statistic of the agents'
thresholds, a clamp to the extreme ones) cannot be had this way.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf, isfinite, nextafter
from typing import TYPE_CHECKING, ClassVar

from fedwqcp.errors import InputError, OutOfRangeError
from fedwqcp.methods._base import Traits
from fedwqcp.wire.messages import (
    Begin,
    LocalQuantile,
    Outcome,
    Question,
    SharedThreshold,
    SharedThresholdWithin,
    Summary,
)
from fedwqcp.wire.release import NO_GUARANTEE

MODULUS = 2**32
"""Masked words are whole numbers modulo this."""


@dataclass(frozen=True)
class FixedPoint:
    """How numbers become whole words that can be summed under masks.

    The terms of a round imply it. A word of one agent is below 2^bits, with the largest bits such
    that agents * 2^bits <= 2^32.

    Parameters
    ----------
    low, high : float
        Range of the thresholds.
    max_n : int
        Largest sample size of an agent.
    agents : int
        Most agents that one sum can hold.

    Examples
    --------
    >>> scale = FixedPoint(low=-1.0, high=1.0, max_n=1000, agents=6)
    >>> scale.bits, scale.word(10, 0.5)
    (29, 4026532)
    >>> margin = scale.margin(agents=1, weight=10)
    >>> 0.5 <= scale.mean(scale.word(10, 0.5), 10) <= 0.5 + margin < 0.5000004
    True
    """

    low: float
    high: float
    max_n: int
    agents: int

    def __post_init__(self) -> None:
        if not (isfinite(self.low) and isfinite(self.high) and self.low < self.high):
            bounds = f"got {self.low:g} to {self.high:g}"
            raise InputError(f"must be finite, the lower end first, {bounds}", field="range")
        if not 1 <= self.max_n < 2**self.bits:
            raise InputError(
                f"must be below 2^{self.bits} for {self.agents} agents, got {self.max_n}; "
                "open the round with a smaller max_n",
                field="max_n",
            )

    @property
    def bits(self) -> int:
        """Bits of one agent's word."""
        return (MODULUS // self.agents).bit_length() - 1

    def word(self, weight: int, value: float) -> int:
        """Return weight * (value - low) in units of this scale, rounded up.

        Parameters
        ----------
        weight : int
            From 0 to ``max_n``.
        value : float
            A number within the range.

        Returns
        -------
        int
            From 0 to 2^bits - 1.

        Raises
        ------
        OutOfRangeError
            If weight or value lies outside, since a mask would hide it from everyone.
        """
        self.check_n(weight)
        if not self.low <= value <= self.high:
            bounds = f"{self.low:g} to {self.high:g}"
            raise OutOfRangeError(f"must lie within the round's {bounds}", field="threshold")
        return ceil(weight * (Fraction(value) - Fraction(self.low)) / self._unit)

    def check_n(self, n: int) -> None:
        """Refuse a sample size that a masked sum cannot hold."""
        if not 0 <= n <= self.max_n:
            raise OutOfRangeError(f"must be from 0 to the round's max_n = {self.max_n}", field="n")

    def mean(self, total: int, weight: int) -> float:
        """Return the weighted mean that a total of words stands for, rounded up.

        Parameters
        ----------
        total : int
            Sum of the agents' words.
        weight : int
            Sum of their weights, at least 1.

        Returns
        -------
        float
            At least the mean of the values, at most `margin` above it, and never above ``high``.
        """
        exact = Fraction(self.low) + total * self._unit / weight
        return min(_rounded_up(exact), self.high)

    def margin(self, agents: int, weight: int) -> float:
        """Return how far `mean` can lie above the mean of the values.

        Parameters
        ----------
        agents : int
            How many words were summed.
        weight : int
            Sum of the weights.

        Returns
        -------
        float
            One unit for each agent, over the weight; rounding to a float is left out.
        """
        return _rounded_up(agents * self._unit / weight)

    @property
    def _unit(self) -> Fraction:
        """What one unit of a word stands for."""
        width = Fraction(self.high) - Fraction(self.low)
        return width * Fraction(self.max_n, 2**self.bits - 1)


@dataclass(frozen=True)
class Total:
    """What the server learns from one question.

    Parameters
    ----------
    words : tuple of int
        The sums, each over the same agents.
    agents : int
        How many agents were summed.
    """

    words: tuple[int, ...]
    agents: int


class Summed(ABC):
    """A method that works with sums over agents alone."""

    @abstractmethod
    def words(self, answer: Summary, question: Question, scale: FixedPoint) -> tuple[int, ...]:
        """Turn what an agent would have sent into words that will be masked.

        Parameters
        ----------
        answer : Summary
            The agent's answer, which stays there.
        question : Question
            What the server asked; `Begin` first.
        scale : FixedPoint
            How numbers become words.

        Returns
        -------
        tuple of int
            Each from 0 to 2^bits - 1, or `random_words` where the sum is to say +inf.

        Raises
        ------
        OutOfRangeError
            If a number lies outside the scale.
        """

    @abstractmethod
    def out_of_range(self, question: Question) -> tuple[int, ...]:
        """Return the words of an agent whose numbers lie outside the scale.

        They say so under the mask, and make the threshold +inf: a refusal could be read, and would
        tell the server on which side of its bounds the agent's numbers lie. All but the counter
        are `random_words`, so that the totals then tell nothing of the other agents either.

        Parameters
        ----------
        question : Question
            What the server asked.

        Returns
        -------
        tuple of int
            As many as every agent answers to this question.
        """

    @abstractmethod
    def from_sums(self, alpha: float, scale: FixedPoint) -> Generator[Question, Total, Outcome]:
        """Run the server's side of the dialogue on sums.

        Parameters
        ----------
        alpha : float
            Miscoverage level.
        scale : FixedPoint
            How numbers became words.

        Yields
        ------
        Question
            What to ask next, `Begin` first; the total over all agents comes back.

        Returns
        -------
        Outcome
            The thresholds.
        """


def random_words(count: int) -> tuple[int, ...]:
    """Return words that make a total modulo 2^32 uniform, whatever the other agents add.

    Without them, a server whose terms fit one agent alone would read that agent's numbers in the
    totals. They come from the operating system: a seed that others know would take them away again.
    """
    return tuple(secrets.randbelow(MODULUS) for _ in range(count))


class SummedMean(Summed):
    """The weighted mean of local thresholds: sums of n_k (q_k - low), of n_k, and of overflows.

    Goes with a method that answers with a `LocalQuantile`, with or without noise, and has a setting
    ``overflow``. An agent that overflows or is out of range adds 1 to the third sum, which makes
    the threshold +inf, and random words to the others. Not with ``exclude``: a level that all
    agents but one have too few points for would leave that one alone in the sums.
    """

    weighted: ClassVar[bool] = True
    """Whether an agent counts by its sample size, or once."""
    outcomes: ClassVar[tuple[type[Outcome], ...]] = (SharedThreshold, SharedThresholdWithin)
    guarantee = NO_GUARANTEE
    assumption = (
        "the mean of local thresholds is a heuristic; it lies between the extreme local thresholds"
    )

    if TYPE_CHECKING:
        overflow: str

    @property
    def traits(self) -> Traits:
        """Averages; masked where nobody is left out of the sums for its numbers."""
        return Traits(
            averages="by size" if self.weighted else "equally",
            maskable=self.overflow != "exclude",
        )

    def words(self, answer: Summary, question: Question, scale: FixedPoint) -> tuple[int, ...]:
        if not isinstance(answer, LocalQuantile):
            raise InputError(f"only thresholds and sizes can be averaged, got {answer.kind!r}")
        q_k, n_k = answer.threshold, answer.n
        if n_k == 0:
            return 0, 0, 0
        if q_k == inf:
            return self.out_of_range(question)
        weight = n_k if self.weighted else 1
        return self._scaled(scale).word(weight, q_k), weight, 0

    def out_of_range(self, question: Question) -> tuple[int, ...]:
        return *random_words(2), 1

    def from_sums(self, alpha: float, scale: FixedPoint) -> Generator[Question, Total, Outcome]:
        # alpha is inside every local threshold already
        total = yield Begin()
        thresholds, weight, overflows = total.words
        if overflows or not weight:
            return SharedThresholdWithin(inf, 0.0)
        scaled = self._scaled(scale)
        margin = scaled.margin(total.agents, weight)
        return SharedThresholdWithin(scaled.mean(thresholds, weight), margin)

    def _scaled(self, scale: FixedPoint) -> FixedPoint:
        """Return the scale for the weights that occur: finer where every agent counts once."""
        if self.weighted:
            return scale
        return FixedPoint(scale.low, scale.high, 1, scale.agents)


def _rounded_up(exact: Fraction) -> float:
    """Return the smallest float that is not below a number."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else nextafter(nearest, inf)
