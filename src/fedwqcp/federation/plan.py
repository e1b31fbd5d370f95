"""A round's terms turned into objects: its method, its score and its tasks."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np

from fedwqcp import methods, scores
from fedwqcp.arrays import Floats, as_alpha
from fedwqcp.errors import InputError, OutOfRangeError
from fedwqcp.federation.grouping import check_choices, check_points, told_by_group
from fedwqcp.methods import Calibration, Method
from fedwqcp.scores import Score
from fedwqcp.wire.codec import encode, terms
from fedwqcp.wire.limits import TASKS
from fedwqcp.wire.payload import Payload, ToAll
from fedwqcp.wire.round import Choice, Round, choice_of


@dataclass(frozen=True)
class Task:
    """One threshold to find: a level, a column of the scores and a group of points.

    Parameters
    ----------
    alpha : float
        Level of this column: the round's, divided by the number of columns.
    column : int
        Which column of the scores.
    group : int or None, optional
        Which group of the points, by its place in the round; None for all.
    """

    alpha: float
    column: int
    group: int | None = None


@dataclass(frozen=True)
class Plan:
    """What a round computes.

    Parameters
    ----------
    round : Round
        The terms.
    method : Method
        Its method.
    score : Score
        Its score.
    tasks : tuple of Task
        Its levels times its groups times the score's columns.
    """

    round: Round
    method: Method[Any]
    score: Score
    tasks: tuple[Task, ...]

    @classmethod
    def of(cls, round: Round) -> Plan:
        """Look up the objects that the terms name.

        Parameters
        ----------
        round : Round
            The terms.

        Returns
        -------
        Plan
            The plan.

        Raises
        ------
        InputError
            If the method, the score, a setting or the rule is unknown here.
        """
        score = scores.get(round.score.name, **round.score.settings)  # type: ignore[arg-type]  # checked there
        method = methods.get(round.method.name, **round.method.settings)
        check_choices(round, method, score)
        groups = len(round.group_names) or 1
        TASKS.whole(
            len(round.alphas) * groups * score.columns, "tasks: levels times groups times columns"
        )
        tasks = tuple(
            Task(alpha / score.columns, column, group)
            for alpha in round.alphas
            for group in range(len(round.group_names)) or (None,)
            for column in range(score.columns)
        )
        return cls(round, method, score, tasks)

    @cached_property
    def kinds(self) -> tuple[type[Payload], ...]:
        """Every kind of payload that occurs in the round."""
        return kinds_of(self.method)

    @property
    def assumption(self) -> str:
        """What the method's guarantee rests on, in each group where there are groups."""
        return told_by_group(self.round, self.method.assumption)

    @cached_property
    def terms(self) -> str:
        """The digest of the round's terms."""
        return terms(self.round)

    @cached_property
    def digest(self) -> bytes:
        """The whole digest of the round's terms, which signatures cover."""
        return sha256(encode(self.round.brief())).digest()

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """The range of the score."""
        return self.score.bounds(self.round.n_classes)

    def check(self, cal: Calibration) -> None:
        """Refuse calibration data that do not fit the round.

        Parameters
        ----------
        cal : Calibration
            An agent's data.

        Raises
        ------
        InputError
            If columns, classes or groups do not fit.
        OutOfRangeError
            If the size or the range of the scores does not fit.
        """
        check_points(self.round, self.method, cal)
        if cal.columns != self.score.columns:
            raise InputError(
                f"the score has {self.score.columns} column(s), the calibration {cal.columns}"
            )
        if cal.n > self.round.max_n:
            raise OutOfRangeError(
                f"n must be at most the round's max_n = {self.round.max_n}, got {cal.n}; "
                "ask the server for a round with a larger max_n"
            )
        low, high = self.bounds
        finite = cal.scores[cal.scores < float("inf")]
        if finite.size and not (low <= finite.min() and finite.max() <= high):
            raise OutOfRangeError(
                f"scores must lie between {low:g} and {high:g} for {self.round.score.name}; "
                "are they from another score?"
            )


def kinds_of(method: Method[Any] | type[Method[Any]]) -> tuple[type[Payload], ...]:
    """Return every kind of payload that a method's messages hold.

    Parameters
    ----------
    method : Method or type
        The method, or its class.

    Returns
    -------
    tuple of type
        Summaries, questions and outcomes; `ToAll` too, since a group without points has +inf.
    """
    return tuple(dict.fromkeys((*method.summaries, *method.questions, *method.outcomes, ToAll)))


def choose_method(method: str | Method[Any]) -> Choice:
    """Return a method as a round names it.

    Parameters
    ----------
    method : str or Method
        Name, or an object with settings.

    Returns
    -------
    Choice
        Name and all settings.
    """
    found = methods.get(method) if isinstance(method, str) else method
    return choice_of(methods.name_of(found), _settings(found))


def choose_score(score: str | Score) -> Choice:
    """Return a score as a round names it.

    Parameters
    ----------
    score : str or Score
        Name, or an object with settings.

    Returns
    -------
    Choice
        Name and all settings.
    """
    found = scores.get(score) if isinstance(score, str) else score
    return choice_of(scores.name_of(found), _settings(found))


def as_alphas(alpha: float | Sequence[float] | Floats) -> tuple[float, ...]:
    """Return one or several levels as a tuple.

    Parameters
    ----------
    alpha : float, sequence or array of float
        The levels.

    Returns
    -------
    tuple of float
        The same.
    """
    if isinstance(alpha, Sequence | np.ndarray) and not isinstance(alpha, str | bytes):
        return tuple(map(as_alpha, alpha))
    return (as_alpha(alpha),)


def new_id() -> str:
    """Return a random id for a round.

    Returns
    -------
    str
        Sixteen hexadecimal digits.
    """
    return secrets.token_hex(8)


def _settings(thing: Any) -> dict[str, object]:
    """Return the settings of a method or score."""
    return {f.name: getattr(thing, f.name) for f in dataclasses.fields(thing)}
