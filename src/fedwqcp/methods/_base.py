"""The contract of a method: agents answer questions, the server holds the dialogue."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.random import Generator as Random

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.methods._calibration import Calibration
from fedwqcp.quantile import Overflow, conformal_rank
from fedwqcp.wire.guarantee import Guarantee
from fedwqcp.wire.payload import Begin, LocalQuantile, Outcome, Question, Summary, ToAll, ToEach

S = TypeVar("S", bound=Summary)


@dataclass(frozen=True)
class Each:
    """A question of its own for each agent, in the order of their last answers.

    Parameters
    ----------
    questions : tuple of Question
        One for each agent.
    """

    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Disclosure:
    """How much of one sample the answers of a whole round tell at most.

    An order statistic tells one score. A count at a value tells between which two scores the value
    lies, so different counts are counted: with enough values each becomes an order statistic.

    Parameters
    ----------
    size : int
        Scores of the sample.
    scores : int
        How many of them the server can learn.
    part : int or None, optional
        The class or stratum that the sample is of; None for all points of the agent.
    each_level : bool, optional
        Whether every level of the round tells others, so that they add up.
    """

    size: int
    scores: int
    part: int | None = None
    each_level: bool = True


@dataclass(frozen=True)
class Terms:
    """What a round fixes for one threshold, as far as answers are held against it.

    Parameters
    ----------
    alpha : float
        Miscoverage level.
    n_classes : int or None
        Number of classes, where there are any.
    low, high : float
        Range of the finite scores.
    """

    alpha: float
    n_classes: int | None = None
    low: float = -inf
    high: float = inf


class UnfitAnswerError(InputError):
    """An agent's answer does not fit the question, or the answers of the others.

    A dialogue raises it; the server then refuses that agent by name and goes on without it.

    Parameters
    ----------
    position : int
        Place of the agent among the answers.
    reason : str
        What must hold.
    """

    def __init__(self, position: int, reason: str) -> None:
        self.position = position
        super().__init__(reason)


class Method(ABC, Generic[S]):
    """A way to agree on thresholds, in any number of rounds. A frozen dataclass of its settings."""

    summaries: ClassVar[tuple[type[Summary], ...]]
    """The kinds of summary that its agents send."""
    questions: ClassVar[tuple[type[Question], ...]] = (Begin,)
    """The kinds of question that its server asks."""
    outcomes: ClassVar[tuple[type[Outcome], ...]] = (ToAll,)
    """The kinds of outcome that it ends with."""
    needs_labels: ClassVar[bool] = False
    """Whether an agent cannot answer without the class labels of its points."""
    controls_risk: ClassVar[bool] = False
    """Whether it reads the weights of a calibration, and bounds a mean loss in place of misses."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is proved of the thresholds."""

    @property
    @abstractmethod
    def assumption(self) -> str:
        """Under which assumption, in words; for no guarantee, what to know instead."""

    @property
    def spends(self) -> float:
        """The epsilon that one answer spends of a privacy budget; +inf where it is not private."""
        return inf

    @property
    def size_noise(self) -> int:
        """By how much noise may raise the sample size in an answer; 0 where there is none."""
        return 0

    @property
    def hides_absence(self) -> bool:
        """Whether an agent answers for a group of which it has no point, so that nobody learns it.

        Private methods do; otherwise it takes no part in that group.
        """
        return self.spends < inf

    def reveals(
        self, cal: Calibration, alpha: float, *, steps: int, agents: int
    ) -> tuple[Disclosure, ...]:
        """Return how much of an agent's data its answers tell at most, by settings and sizes alone.

        An agent holds it against its own limit before it answers. A method that does not say is
        taken to tell everything.

        Parameters
        ----------
        cal : Calibration
            The agent's data, of which only the number of points (of each class) may matter.
        alpha : float
            Miscoverage level.
        steps : int
            Questions answered so far, this one included; a server may ask more than it needs.
        agents : int
            Agents in the round.

        Returns
        -------
        tuple of Disclosure
            One for each sample that scores are told of.
        """
        del alpha, steps, agents
        return (Disclosure(cal.n, cal.n),)

    @abstractmethod
    def answer(self, cal: Calibration, question: Question, alpha: float, rng: Random) -> S:
        """Answer a question at an agent.

        Parameters
        ----------
        cal : Calibration
            The agent's data, which stay there.
        question : Question
            What the server asks; `Begin` first.
        alpha : float
            Miscoverage level.
        rng : numpy.random.Generator
            Source of noise; the server cannot predict it.

        Returns
        -------
        Summary
            All that leaves the agent.
        """

    @abstractmethod
    def exchange(self, alpha: float) -> Generator[Question | Each, Sequence[S], Outcome]:
        """Hold the server's side of the dialogue.

        Parameters
        ----------
        alpha : float
            Miscoverage level.

        Yields
        ------
        Question or Each
            What to ask next, `Begin` first. The answers of all agents come back in one fixed order;
            where an agent is lost on the way, the dialogue begins again without it.

        Raises
        ------
        UnfitAnswerError
            If an agent's answer does not fit; the dialogue begins again without it.

        Returns
        -------
        Outcome
            The thresholds.
        """

    def check(self, question: Question, answer: Summary, earlier: Any, terms: Terms) -> Any:
        """Hold an answer against its question and against what the agent said before.

        The server calls it when it admits an answer, before any other agent's is looked at. By
        default an agent is bound to the sample sizes of its first answer. A method of several steps
        refuses here whatever no single sample could have answered, so that an agent that does not
        run this program can do no more than one that runs it on scores of its choice.

        Parameters
        ----------
        question : Question
            What this agent was asked.
        answer : Summary
            What it sent; its size and scores are within the round's bounds.
        earlier : object
            What this function returned for the agent's answer before; None for the first one.
            A dialogue that begins again without a lost agent keeps it.
        terms : Terms
            Level, classes and range of the scores.

        Returns
        -------
        object
            What binds the agent's later answers.

        Raises
        ------
        InputError
            ``field: what must hold``; the agent is refused with this reason.
        """
        del question, terms  # sizes are all that every method has
        sizes = answer.sizes()
        if earlier is None:
            return sizes
        if sizes and sizes != earlier:
            raise InputError(
                f"n: must be {_listed(earlier)} as in the first answer, got {_listed(sizes)}"
            )
        return earlier

    def localize(
        self,
        outcome: Outcome,
        cal: Calibration | None,
        position: int | None,
        alpha: float,
        features: Floats | None = None,
    ) -> Floats:
        """Turn the outcome into one agent's threshold.

        Parameters
        ----------
        outcome : Outcome
            What the method ended with.
        cal : Calibration or None
            The agent's data, for methods that need them once more.
        position : int or None
            Place of the agent among those whose answers were used; None if its own was not.
        alpha : float
            Miscoverage level.
        features : Floats, optional
            Features of the test inputs, for thresholds that depend on the input.

        Returns
        -------
        Floats
            Shape () shared, (C,) per label or (n, 1) per input; it broadcasts against the score
            matrix.
        """
        del cal, alpha, features  # the server already did all the work
        value = outcome.threshold(position)
        if value is None:
            raise InputError("the agent has no threshold: its answer was not used in this round")
        return np.asarray(value, dtype=np.float64)


class OneShot(Method[S]):
    """A method of one round: each agent sends one summary, the server combines them."""

    def reveals(
        self, cal: Calibration, alpha: float, *, steps: int, agents: int
    ) -> tuple[Disclosure, ...]:
        if self.summaries != (LocalQuantile,):
            return super().reveals(cal, alpha, steps=steps, agents=agents)
        return one_score(cal, alpha, getattr(self, "overflow", "clip"))

    def answer(self, cal: Calibration, question: Question, alpha: float, rng: Random) -> S:
        del question, rng  # there is one question, and nothing is random
        return self.summarize(cal, alpha)

    def exchange(self, alpha: float) -> Generator[Question | Each, Sequence[S], Outcome]:
        summaries = yield Begin()
        return self.aggregate(summaries, alpha)

    @abstractmethod
    def summarize(self, cal: Calibration, alpha: float) -> S:
        """Return what one agent sends.

        Parameters
        ----------
        cal : Calibration
            The agent's data.
        alpha : float
            Miscoverage level.

        Returns
        -------
        Summary
            The summary.
        """

    @abstractmethod
    def aggregate(self, summaries: Sequence[S], alpha: float) -> Outcome:
        """Return the thresholds.

        Parameters
        ----------
        summaries : sequence of Summary
            One for each agent.
        alpha : float
            Miscoverage level.

        Returns
        -------
        Outcome
            The thresholds.
        """


def _listed(sizes: Sequence[int]) -> str:
    """Write sizes for people."""
    return ", ".join(map(str, sizes)) or "none"


def one_score(
    cal: Calibration, alpha: float, overflow: Overflow = "propagate"
) -> tuple[Disclosure, ...]:
    """Return what a local threshold tells: one score, or none where it is +inf."""
    finite = cal.n > 0 and (overflow == "clip" or conformal_rank(cal.n, alpha) <= cal.n)
    return (Disclosure(cal.n, int(finite)),)


__all__ = [
    "Calibration",
    "Disclosure",
    "Each",
    "Method",
    "OneShot",
    "Terms",
    "ToAll",
    "ToEach",
    "UnfitAnswerError",
]
