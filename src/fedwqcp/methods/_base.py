"""The contract of a method, and what several methods do with answers and questions.

An agent answers questions from its `Calibration`; the server holds the dialogue. A method declares
what it needs and does (`Method`), so that nothing outside this package decides by its name.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from numpy.random import Generator as Random

from fedwqcp._validation import (
    CheckedSettings,
    Floats,
    Labels,
    Texts,
    as_class_labels,
    as_floats,
    as_groups,
    as_labels,
    as_optional_classes,
    as_scores,
    checked,
    plain,
    real_array,
)
from fedwqcp.errors import FedwqcpError, InputError, UnfitAnswerError
from fedwqcp.quantile import Overflow, conformal_rank
from fedwqcp.registry import settings_of
from fedwqcp.wire.messages import (
    TARGETS,
    Begin,
    LocalQuantile,
    Outcome,
    PerAgentThresholds,
    Question,
    SharedThreshold,
    Summary,
    Target,
)
from fedwqcp.wire.release import Guarantee

SUM_TOLERANCE = 1e-9
"""How far the weights of a point may pass 1 by rounding."""


@dataclass(frozen=True, eq=False, init=False)
class Calibration:
    """Scores of an agent's calibration points, with what else a method or a round needs of them.

    Parameters
    ----------
    scores : array_like, shape (n,) or (n, columns)
        Nonconformity scores, as ``score.of`` gives them.
    labels : array_like, shape (n,), optional
        Class labels, for methods that correct for label shift and for thresholds by label.
    features : array_like, shape (n, d), optional
        Features of the inputs, for methods that correct for covariate shift.
    n_classes : int, optional
        Number of classes; needed where labels are used; `calibrate` finds it
        from the labels of all agents.
    groups : array_like, shape (n,), optional
        Group of each point, text or integers, for thresholds by group.
    weights : array_like, shape (n, m), optional
        For methods that control a risk: a point then has m scores, and its loss at a threshold is
        the weight of those above it. Not negative, at most 1 in each row.
    classes : sequence of str, optional
        Names of the classes, in the order of the columns of the probabilities. A round that names
        classes refuses others and another order; labels may then be names.

    Raises
    ------
    InputError
        If a score is NaN or -inf, or lengths differ.
    """

    scores: Floats
    labels: Labels | None
    features: Floats | None
    n_classes: int | None
    groups: Texts | None
    weights: Floats | None
    classes: tuple[str, ...]

    @checked
    def __init__(
        self,
        scores: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        features: npt.ArrayLike | None = None,
        n_classes: int | None = None,
        *,
        groups: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        values = real_array(scores, "scores")
        if values.ndim == 2 and values.shape[1]:
            values = np.stack([as_scores(column) for column in values.T], axis=1)
        else:
            values = as_scores(values)
        n = len(values)
        names, n_classes = as_optional_classes(classes), plain(n_classes)
        if names and n_classes not in (None, len(names)):
            raise InputError(
                f"must be {len(names)}, as many as classes are named, got {n_classes}",
                field="n_classes",
            )
        n_classes = len(names) or n_classes
        if labels is not None:
            labels = as_class_labels(labels, names)
        fields = {
            "scores": values,
            "labels": None if labels is None else as_labels(labels, n, n_classes),
            "features": None if features is None else as_floats(features, "features", (n, None)),
            "n_classes": n_classes,
            "groups": None if groups is None else as_groups(groups, n),
            "weights": None if weights is None else _as_weights(weights, values.shape),
            "classes": names,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        """Number of calibration points."""
        return len(self.scores)

    @property
    def columns(self) -> int:
        """Number of scores of a point that have a threshold of their own."""
        return 1 if self.scores.ndim == 1 or self.weights is not None else self.scores.shape[1]

    def column(self, index: int) -> Calibration:
        """Return the same points with one column of the scores.

        Parameters
        ----------
        index : int
            Which column.

        Returns
        -------
        Calibration
            Scores of shape (n,); all m scores where they have weights.
        """
        if self.scores.ndim == 1 or self.weights is not None:
            return self
        return self._with(self.scores[:, index], slice(None))

    def take(self, rows: npt.NDArray[Any] | slice) -> Calibration:
        """Return some of the points.

        Parameters
        ----------
        rows : ndarray or slice
            Which: their places, or a truth value for each.

        Returns
        -------
        Calibration
            These points alone.
        """
        return self._with(self.scores[rows], rows)

    def labelled(self, method: str) -> tuple[Labels, int]:
        """Return labels and number of classes, for a method that needs them.

        Parameters
        ----------
        method : str
            Name of the method, for the error.

        Returns
        -------
        tuple
            Labels of shape (n,), and C.

        Raises
        ------
        InputError
            If there are no labels.
        """
        labels = self.labels if self.n else np.zeros(0, dtype=np.int64)
        if labels is None or self.n_classes is None:
            raise InputError(
                f"{method} needs the labels of the calibration points",
                cure=(
                    "pass Calibration(scores, labels=..., n_classes=...)",
                    "it is for scores of classes, and the round's score has none",
                ),
            )
        return labels, self.n_classes

    def featured(self, method: str) -> Floats:
        """Return the features, for a method that needs them.

        Parameters
        ----------
        method : str
            Name of the method, for the error.

        Returns
        -------
        Floats
            Shape (n, d).

        Raises
        ------
        InputError
            If there are no features.
        """
        if self.features is None:
            raise InputError(
                f"{method} needs the features of the calibration points",
                cure=(
                    "pass Calibration(scores, features=...)",
                    "add columns x0, x1, ... to the file (in an .npz file an array features)",
                ),
            )
        return self.features

    def _with(self, scores: Floats, rows: npt.NDArray[Any] | slice) -> Calibration:
        """Return these scores with the other data of some points."""
        return Calibration(
            scores,
            None if self.labels is None else self.labels[rows],
            None if self.features is None else self.features[rows],
            self.n_classes,
            groups=None if self.groups is None else self.groups[rows],
            weights=None if self.weights is None else self.weights[rows],
            classes=self.classes,
        )

    def __repr__(self) -> str:
        parts = [f"n={self.n}"]
        more = ("labels", "features", "groups", "weights")
        parts += [name for name in more if getattr(self, name) is not None]
        return f"Calibration({', '.join(parts)})"


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


Schedule: TypeAlias = tuple[tuple[type[Question], int], ...]
"""Kinds of question in their order, and how often each is asked at most."""


@dataclass(frozen=True)
class Disclosure:
    """How many scores of one sample the answers of a whole round can disclose.

    An order statistic is one score. A count at a value says between which two scores the value
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
        Whether every level of the round discloses other scores, so that they add up.
    ranks : tuple of int, optional
        Which they are, where they are order statistics; the same rank again discloses nothing new.
    """

    size: int
    scores: int
    part: int | None = None
    each_level: bool = True
    ranks: tuple[int, ...] = ()

    @classmethod
    def of_ranks(cls, size: int, ranks: Iterable[int], part: int | None = None) -> Disclosure:
        """Return what order statistics disclose, from their ranks.

        Parameters
        ----------
        size : int
            Scores of the sample.
        ranks : iterable of int
            Their ranks, from 1.
        part : int or None, optional
            The class or stratum that the sample is of.

        Returns
        -------
        Disclosure
            One score for each rank.
        """
        found = tuple(sorted(set(ranks)))
        return cls(size, len(found), part, ranks=found)


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
    per_label: ClassVar[bool] = False
    """Whether it gives one threshold for each label, so that only sets of labels can use it."""
    score_range: ClassVar[tuple[float, float] | None] = None
    """The only range of scores that it takes; None for any."""
    controls_risk: ClassVar[bool] = False
    """Whether it reads the weights of a calibration, and bounds a mean loss in place of misses."""

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
        return tuple((kind, 1) for kind in self.questions)

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
            raise InputError(
                f"must be {_listed(earlier)} as in the first answer, got {_listed(sizes)}",
                field="n",
            )
        return earlier

    def absent(self, question: Question) -> Summary | None:
        """Return what stands for an agent of the roster that sends nothing; None leaves it out.

        Its place is behind the agents that answered.
        """
        del question
        return None

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

    # ---- what it needs and corrects

    @property
    def needs_labels(self) -> bool:
        """Whether an agent cannot answer without the class labels of its points."""
        return False

    @property
    def needs_features(self) -> bool:
        """Whether an agent cannot answer without the features of its points."""
        return False

    @property
    def predicts_from_own_data(self) -> bool:
        """Whether an agent needs its calibration data once more to predict."""
        sent = (SharedThreshold, PerAgentThresholds)
        return not any(issubclass(kind, sent) for kind in self.outcomes)

    @property
    def floors(self) -> bool:
        """Whether an agent's own data bound its threshold from below, whatever a release holds."""
        return False

    def proved(self, n: int, alpha: float) -> float | None:
        """Return the coverage that n points of an agent prove there; None where they prove none.

        Parameters
        ----------
        n : int
            Its calibration points.
        alpha : float
            Miscoverage level.

        Returns
        -------
        float or None
            The level.
        """
        del n, alpha
        return None

    @property
    def maskable(self) -> bool:
        """Whether sums over the agents are all it needs, so that they can be masked (`Summed`)."""
        return False

    @property
    def corrects_shift_of(self) -> Literal["labels", "features", "strata"] | None:
        """What the round's target is a distribution of; None where the method does not use it.

        A method that does has a field ``target`` with the metadata `TERM`.
        """
        return None

    def target_length(self, n_classes: int | None) -> int | None:
        """Return how many numbers a target in numbers has; None where that is not known."""
        return n_classes if self.corrects_shift_of == "labels" else None

    def toward(self, target: Target) -> Self:
        """Return the method with the round's target; itself where it does not use one.

        Parameters
        ----------
        target : str or tuple of float
            Whom each agent will predict.

        Returns
        -------
        Method
            With this target.

        Raises
        ------
        InputError
            If the target is a distribution in numbers, and the method corrects no shift.
        """
        if self.corrects_shift_of is not None:
            return replace(self, target=target)  # type: ignore[type-var]  # all are dataclasses
        if not isinstance(target, str):
            raise InputError(
                "a distribution in numbers is for methods that correct a shift "
                f"({', '.join(_with_target())}): leave target out",
                field="target",
            )
        return self

    @classmethod
    def settings(cls) -> tuple[str, ...]:
        """Return the names of its settings, some of which mean the same in every method."""
        return settings_of(cls)

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

    def check_round(self, low: float, high: float, tasks: int) -> None:
        """Refuse a round by its terms: the range of its scores, and how many thresholds it has.

        Parameters
        ----------
        low, high : float
            The range.
        tasks : int
            How many thresholds.
        """
        del low, high, tasks

    def cells(self, cal: Calibration) -> tuple[int, ...]:
        """Return the sizes of the parts into which the round's settings cut an agent's points.

        Strata of a feature, say; not classes and groups, which are the agent's own. An agent holds
        the number of cuts and the smallest part against its own limit before it answers.

        Parameters
        ----------
        cal : Calibration
            The agent's data.

        Returns
        -------
        tuple of int
            One size for each part, in the order of the cuts; none where nothing is cut.
        """
        del cal
        return ()

    @property
    def cuts(self) -> tuple[float, ...]:
        """Where the round's settings cut a feature; a site answers one set of cuts of its data."""
        return ()

    @property
    def sends_samples(self) -> bool:
        """Whether scores of single people leave an agent, which it must allow."""
        return False

    @property
    def spends(self) -> float:
        """The epsilon that one answer spends of a privacy budget; +inf where it is not private."""
        return inf

    @property
    def private(self) -> bool:
        """Whether answers are differentially private."""
        return self.spends < inf

    @property
    def size_noise(self) -> int:
        """By how much noise may raise the sample size in an answer; 0 where there is none."""
        return 0

    # ---- what advice, warnings and reports read

    @property
    def averages(self) -> Literal["by size", "equally"] | None:
        """How it weighs agents whose thresholds it averages; None where it takes no such mean."""
        return None

    @property
    def overflow_note(self) -> str:
        """What becomes of the threshold of an agent with too few points; may be empty."""
        also = "so is a mean with it" if self.averages else "counts as the largest"
        rule = getattr(self, "overflow", None)
        said = {
            "propagate": f"it is +inf, and {also}",
            "exclude": "it is +inf, and a shared one is made without it",
            "clip": "it is the largest score, which covers too little",
        }
        note = f"{said[rule]} (overflow={rule})" if rule in said else ""
        ask = "; if that is not wanted, ask the server for overflow=exclude or another method"
        return note + ask if rule == "propagate" else note

    def least_agents(self, alpha: float, roster: int | None = None) -> int | None:
        """Return how few agents can give a finite threshold; None where their points decide.

        Of a roster of so many, how few must have points; by default all of them have.
        """
        del alpha, roster
        return None

    def new_agent_promise(self, alpha: float) -> str:
        """Say what is proved for an agent that took no part; empty where nothing is."""
        del alpha
        return ""

    @property
    def ranked_threshold(self) -> bool:
        """Whether a `LocalQuantile` that it receives holds the agent's score of rank r(n, alpha).

        Or, where that passes n, +inf or the largest score; neither one above it nor one with noise.
        """
        return False

    def read_threshold(self, answer: Summary, alpha: float) -> LocalQuantile | None:
        """Return an agent's own conformal threshold, or one above it, from its first answer."""
        del alpha  # already inside a local threshold
        return answer if isinstance(answer, LocalQuantile) else None

    def read_counts(self, answer: Summary) -> tuple[int, ...] | None:
        """Return how many points of each class an agent has, from its first answer."""
        del answer  # most methods do not ask for classes
        return None


def _with_target() -> list[str]:
    """Return the names of the methods that correct a shift; a broken plug-in is passed over."""
    from fedwqcp.methods import available, find  # which import this module

    found = []
    for name in available():
        with contextlib.suppress(FedwqcpError):
            if hasattr(find(name), "target"):
                found.append(name)
    return found


def own_data(cal: Calibration | None, method: str) -> Calibration:
    """Return the agent's data, which its threshold is found from, or say how to pass them."""
    if cal is None:
        raise InputError(
            f"{method} needs the agent's calibration data to predict",
            cure=(
                "pass calibration=Outputs(probs, labels, ids) to predict_set",
                "pass --calibration FILE",
            ),
        )
    return cal


class OneShot(Method[S]):
    """A method of one round: each agent sends one summary, the server combines them."""

    @property
    def ranked_threshold(self) -> bool:
        """Where agents send their thresholds."""
        return self.summaries[:1] == (LocalQuantile,)

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


def one_score(
    cal: Calibration, alpha: float, overflow: Overflow = "propagate"
) -> tuple[Disclosure, ...]:
    """Return what a local threshold discloses: one score, or none where it is +inf."""
    rank = conformal_rank(cal.n, alpha)
    finite = cal.n > 0 and (overflow == "clip" or rank <= cal.n)
    return (Disclosure.of_ranks(cal.n, (min(rank, cal.n),) if finite else ()),)


K = TypeVar("K", bound=Summary)


def of_kind(answers: Sequence[Summary], kind: type[K]) -> list[K]:
    """Return the answers, all of the kind that the question asked for."""
    found = [answer for answer in answers if isinstance(answer, kind)]
    if len(found) != len(answers):
        position = next(i for i, answer in enumerate(answers) if not isinstance(answer, kind))
        other = answers[position].kind
        raise UnfitAnswerError(position, f"must be of kind {kind.kind!r}, got {other!r}")
    return found


def expect(answer: Summary, kind: type[K]) -> K:
    """Return one agent's answer, if it is of the kind that its question asked for."""
    if not isinstance(answer, kind):
        raise InputError(f"must be {kind.kind!r}, got {answer.kind!r}", field="kind")
    return answer


def stacked(rows: Sequence[tuple[float, ...]], columns: int | None = None) -> Floats:
    """Return one row of numbers for each agent.

    By default as many numbers as most agents sent; who sent more or fewer is named as unfit.
    """
    if columns is None:
        columns = most_common(len(row) for row in rows)
    for position, row in enumerate(rows):
        if len(row) != columns:
            raise UnfitAnswerError(position, f"must hold {columns} numbers, got {len(row)}")
    return np.array(rows, dtype=np.float64).reshape(len(rows), columns)


def most_common(values: Iterable[int]) -> int:
    """Return the value that most agents have; of equally frequent ones the largest."""
    counts = Counter(values)
    return max(counts, key=lambda value: (counts[value], value))


def summed(values: Floats) -> Floats:
    """Return the sum over agents, the same to the last bit in whatever order they stand.

    Shapes: values (M, ...) -> (...).
    """
    return np.asarray(np.sort(values, axis=0).sum(axis=0))


def check_label_target(target: Target) -> None:
    """Refuse a target that is neither a known word nor a distribution of labels."""
    if isinstance(target, str):
        if target not in TARGETS:
            raise InputError(
                f"target must be 'own', 'mixture' or one number per class, got {target!r}"
            )
    elif not all(x >= 0 for x in target) or not 0 < sum(target) < inf:
        raise InputError("target must hold finite numbers of at least 0, not all 0")


def check_probes(asked: int, most: int) -> None:
    """Refuse a question with more probes than the search asks at a time."""
    if asked > most:
        raise InputError(f"the server must ask at most {most} probes at a time, got {asked}")


def _as_weights(weights: npt.ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Check the weights of scores."""
    if len(shape) != 2:
        raise InputError("weights need scores of shape (n, m), one for each weight")
    found = as_floats(weights, "weights", shape)
    if found.size and not (found.min() >= 0 and found.sum(axis=1).max() <= 1 + SUM_TOLERANCE):
        raise InputError("weights must not be negative, and at most 1 in each row")
    return found


def _listed(sizes: Sequence[int]) -> str:
    """Write sizes as text for an error."""
    return ", ".join(map(str, sizes)) or "none"
