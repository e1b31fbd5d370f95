"""Methods whose server needs only sums over the agents, so that masks can hide every single number.

An agent's answer becomes whole words (`Summed.words`); the server hears totals of words and nothing
else (`Summed.from_sums`). Whatever is not a sum (a median, an order statistic of the agents'
thresholds, a clamp to the extreme ones) cannot be had this way.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, ClassVar, Literal

from fedwqcp.errors import InputError
from fedwqcp.wire.messages import (
    MODULUS,
    Begin,
    FixedPoint,
    LocalQuantile,
    Outcome,
    Question,
    SharedThresholdWithin,
    Summary,
)


@dataclass(frozen=True)
class Total:
    """What the server hears of one question.

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

    @property
    def maskable(self) -> bool:
        """Whether sums over the agents are all it needs with these settings."""
        return True

    @abstractmethod
    def width(self, question: Question) -> int:
        """Return how many words answer a question.

        Parameters
        ----------
        question : Question
            What the server asks.

        Returns
        -------
        int
            The same for every agent.
        """

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
            As many as `width` says.
        """

    @abstractmethod
    def from_sums(self, alpha: float, scale: FixedPoint) -> Generator[Question, Total, Outcome]:
        """Hold the server's side of the dialogue on sums.

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

    if TYPE_CHECKING:
        overflow: str

    @property
    def averages(self) -> Literal["by size", "equally"] | None:
        """How it weighs agents."""
        return "by size" if self.weighted else "equally"

    @property
    def maskable(self) -> bool:
        """Whether nobody is left out of the sums for its numbers."""
        return self.overflow != "exclude"

    def width(self, question: Question) -> int:
        del question  # there is only one
        return 3

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
        del question  # there is only one
        return *random_words(2), 1

    def from_sums(self, alpha: float, scale: FixedPoint) -> Generator[Question, Total, Outcome]:
        del alpha  # already inside every local threshold
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
