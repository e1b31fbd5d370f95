"""The contract of a method: what it does at an agent and at the server, and what it declares.

An agent answers questions from its `Calibration`; the server holds the dialogue. What others need
to know of a method stands in its `Traits`, so that nothing outside decides by its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.random import Generator as Random

from fedwqcp._validation import CheckedSettings, Floats
from fedwqcp.errors import InputError
from fedwqcp.methods._calibration import Calibration, Disclosure, one_score
from fedwqcp.quantile import Overflow, conformal_quantile
from fedwqcp.wire.messages import (
    TARGETS,
    Begin,
    LocalQuantile,
    Outcome,
    Question,
    SharedThreshold,
    Summary,
    Target,
)
from fedwqcp.wire.release import Guarantee

S = TypeVar("S", bound=Summary)


@dataclass(frozen=True)
class PerAgentQuestions:
    """A question of its own for each agent, in the order of their last answers.

    Parameters
    ----------
    questions : tuple of Question
        One for each agent.
    """

    questions: tuple[Question, ...]


R = TypeVar("R")

Exchange: TypeAlias = Generator[Question | PerAgentQuestions, Sequence[S], R]
"""The server's side of a dialogue: it yields questions, is sent the answers of all agents in one
fixed order, and returns a result."""


MIXTURE = (
    "a test point comes from agent k with probability (n_k + 1) / (N + M) and is then "
    "exchangeable with that agent's points given the points of the other agents"
)
"""What a guarantee over the mixture of agents assumes."""

Schedule: TypeAlias = tuple[tuple[type[Question], int], ...]
"""Kinds of question in their order, and how often each is asked at most."""


@dataclass(frozen=True)
class Terms:
    """The terms of one threshold that answers are checked against.

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


@dataclass(frozen=True)
class Traits:
    """What a round, a site or a report may ask of a method with its settings.

    The defaults are those of a method that sends statistics of its scores and gives thresholds.

    Parameters
    ----------
    needs_labels, needs_features : bool
        Whether an agent cannot answer without them.
    predicts_from_own_data : bool
        Whether an agent needs its calibration data once more to predict.
    per_label : bool
        Whether it gives one threshold for each label, so that only sets of labels can use it.
    controls_risk : bool
        Whether it reads the weights of a calibration, and bounds a mean loss in place of misses.
    for_losses : callable or None
        Gives the method that stands in its place where the score of a round has losses.
    corrects_shift_of : {"labels", "features"} or None
        What the round's target is a distribution of; the method then has a field ``target`` with
        the metadata `TERM`.
    score_range : tuple of float or None
        The only range of scores that it takes; None for any.
    stated_range : tuple of float or None
        The range that the score of a round must state; scores of a caller's own pass.
    most_thresholds : int or None
        How many thresholds a round may have at most.
    spends : float
        The epsilon that one answer spends of a privacy budget; +inf where it is not private.
    size_noise : int
        By how much noise may raise the sample size in an answer.
    dominated_by : str or None
        A method that is never worse with these settings and target; a round of this one is refused.
    maskable : bool
        Whether sums over the agents are all it needs, so that they can be masked (`Summed`).
    averages : {"by size", "equally"} or None
        How it weighs agents whose thresholds it averages.
    proved : callable or None
        The coverage that n points of an agent prove there at a level, whatever a release holds.
    least_agents : callable or None
        How few agents can give a finite threshold at a level; by default their points decide.
    absent : Summary or None
        What stands for an agent that sends nothing; by default it is left out. Its place is behind
        the agents that answered.
    """

    needs_labels: bool = False
    needs_features: bool = False
    predicts_from_own_data: bool = False
    per_label: bool = False
    controls_risk: bool = False
    for_losses: Callable[[], Method[Any]] | None = None
    corrects_shift_of: Literal["labels", "features"] | None = None
    score_range: tuple[float, float] | None = None
    stated_range: tuple[float, float] | None = None
    most_thresholds: int | None = None
    spends: float = inf
    size_noise: int = 0
    dominated_by: str | None = None
    maskable: bool = False
    averages: Literal["by size", "equally"] | None = None
    proved: Callable[[int, float], float] | None = None
    least_agents: Callable[[float], int] | None = None
    absent: Summary | None = None

    @property
    def private(self) -> bool:
        """Whether answers are differentially private."""
        return self.spends < inf

    @property
    def floors(self) -> bool:
        """Whether an agent's own data bound its threshold from below, whatever a release holds."""
        return self.proved is not None


class Method(CheckedSettings, ABC, Generic[S]):
    """A way to agree on thresholds, in any number of rounds. A frozen dataclass of its settings.

    A method states `summaries`, `guarantee` and `assumption` and writes `answer` and `exchange`, or
    `summarize` and `aggregate` of a `OneShot`. All else has a default.
    """

    summaries: ClassVar[tuple[type[Summary], ...]]
    """The kinds of summary that its agents send."""
    questions: ClassVar[tuple[type[Question], ...]] = (Begin,)
    """The kinds of question that its server asks."""
    outcomes: ClassVar[tuple[type[Outcome], ...]] = (SharedThreshold,)
    """The kinds of outcome that it ends with."""

    @property
    def traits(self) -> Traits:
        """What others may ask of it: a class attribute, or a property where settings decide."""
        return Traits()

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is proved of the thresholds."""

    @property
    @abstractmethod
    def assumption(self) -> str:
        """What the guarantee assumes, in words; where nothing is proved, what to know instead."""

    # ---- the dialogue, from the first question to an agent's threshold

    @abstractmethod
    def answer(self, cal: Calibration, question: Question, alpha: float, rng: Random) -> S:
        """Answer a question at an agent, which has checked it against `schedule`.

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
    def exchange(self, alpha: float) -> Exchange[S, Outcome]:
        """Run the server's side of the dialogue.

        Parameters
        ----------
        alpha : float
            Miscoverage level.

        Yields
        ------
        Question or PerAgentQuestions
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

    def schedule(self, agents: int, n_classes: int | None) -> Schedule:
        """Return the kinds of question of its dialogue in order, and how often each is asked.

        An agent answers nothing else. By default every kind is asked once.

        Parameters
        ----------
        agents : int
            How many agents the roster names.
        n_classes : int or None
            Number of classes, where there are any.

        Returns
        -------
        tuple
            Kinds and the largest number of questions of each, `Begin` once and first.
        """
        del agents, n_classes
        return tuple([(kind, 1) for kind in self.questions])

    def check(self, question: Question, answer: Summary, earlier: Any, terms: Terms) -> Any:
        """Check an answer against its question and the agent's earlier answers.

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
            raise InputError(f"must be as in the first answer, {earlier}, got {sizes}", field="n")
        return earlier

    def localize(
        self, outcome: Outcome, cal: Calibration | None, position: int | None, alpha: float
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

        Returns
        -------
        Floats
            Shape () shared or (C,) per label; it broadcasts against the score matrix.
        """
        del cal, alpha  # the server already did all the work
        value = outcome.threshold(position)
        if value is None:
            raise InputError("the agent has no threshold: its answer was not used in this round")
        return np.asarray(value, dtype=np.float64)

    # ---- what it discloses, which an agent checks against its own limits

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        """Return how many scores its answers can disclose, from settings and sizes alone.

        An agent holds it against its own limit before it answers. A method that does not say is
        taken to disclose everything.

        Parameters
        ----------
        cal : Calibration
            The agent's data, of which only the number of points (of each class) may matter.
        alpha : float
            Miscoverage level.
        steps : int
            Questions answered so far, this one included; a server may ask more than it needs.

        Returns
        -------
        tuple of Disclosure
            One for each sample of which scores are disclosed.
        """
        del alpha, steps
        return (Disclosure(cal.n, cal.n),)


def check_label_target(target: Target, n_classes: int | None = None) -> None:
    """Refuse a target that is neither a known word nor a distribution of labels."""
    if isinstance(target, str):
        if target not in TARGETS:
            raise InputError(f"target must be one of {', '.join(TARGETS)}, got {target!r}")
    elif not all(x >= 0 for x in target) or not 0 < sum(target) < inf:
        raise InputError("target must hold finite numbers of at least 0, not all 0")
    elif n_classes not in (None, len(target)):
        raise InputError(f"target must hold {n_classes} numbers, one per class, got {len(target)}")


class OneShot(Method[S]):
    """A method of one round: each agent sends one summary, the server combines them."""

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        if self.summaries != (LocalQuantile,):
            return super().reveals(cal, alpha, steps=steps)
        return one_score(cal, alpha, getattr(self, "overflow", "clip"))

    def answer(self, cal: Calibration, question: Question, alpha: float, rng: Random) -> S:
        del question, rng  # there is one question, and nothing is random
        return self.summarize(cal, alpha)

    def exchange(self, alpha: float) -> Exchange[S, Outcome]:
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


class LocalThresholds(OneShot[LocalQuantile]):
    """A method of one round whose agents each send their own conformal threshold.

    A setting ``overflow`` says what an agent with too few points sends; without it +inf.
    """

    summaries = (LocalQuantile,)

    def summarize(self, cal: Calibration, alpha: float) -> LocalQuantile:
        overflow: Overflow = getattr(self, "overflow", "propagate")
        return LocalQuantile(conformal_quantile(cal.scores, alpha, overflow), cal.n)
