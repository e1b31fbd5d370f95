"""What messages carry: summaries of agents, questions and outcomes of the server.

A payload is a frozen dataclass of numbers, text, tuples and other payloads. It states its
invariants in ``__post_init__``; one that breaks them cannot be built, whatever carried it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import ClassVar, Literal, TypeAlias

from fedwqcp.errors import InputError
from fedwqcp.wire.limits import SIZE

Number: TypeAlias = float | tuple[float, ...]
"""One threshold, or one for each label."""


OPTIONAL = {"optional": True}
"""Metadata of a field, text or object, that is left out of a message where it is empty."""
MOST_TAIL = 16
"""Most order statistics that an agent sends beside its threshold."""


class Payload:
    """Base of all payloads; on the wire a payload is told by its ``kind``."""

    __slots__ = ()
    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" not in cls.__dict__:
            cls.kind = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()


class Summary(Payload):
    """What an agent answers. The only thing that can leave it."""

    __slots__ = ()
    reveals: ClassVar[Literal["statistic", "samples"]] = "statistic"
    """Whether it holds a few statistics, or scores of single people."""

    def sizes(self) -> tuple[int, ...]:
        """Return the sample sizes it claims; each is checked against the round's ``max_n``.

        Returns
        -------
        tuple of int
            The sizes.
        """
        return ()

    def scores(self) -> tuple[float, ...]:
        """Return the scores it claims; each must lie within the score's bounds, or be +inf.

        Returns
        -------
        tuple of float
            The scores.
        """
        return ()


class Question(Payload):
    """What the server asks of every agent."""


class Outcome(Payload):
    """What a method ends with: the thresholds, or what an agent needs to find its own."""

    same_for_all: ClassVar[bool] = False
    """Whether it tells every agent the same, so that no agent needs its place among them."""

    def threshold(self, position: int | None) -> Number | None:
        """Return the threshold of one agent.

        Parameters
        ----------
        position : int or None
            Place of the agent among those whose answers were used; None if its own was not.

        Returns
        -------
        float or tuple of float or None
            None where the agent has none, or computes it from its own data.
        """
        del position  # only some outcomes tell agents apart
        return None


@dataclass(frozen=True)
class Begin(Question):
    """The first question of every exchange: what the round's terms alone let an agent answer."""


@dataclass(frozen=True, slots=True)  # a server may hold a million
class LocalQuantile(Summary):
    """One agent's conformal threshold and sample size: all that FedWQ-CP sends.

    Parameters
    ----------
    threshold : float
        q_k; +inf where the rank passes the sample.
    n : int
        n_k, at least 0.
    """

    threshold: float
    n: int

    def __post_init__(self) -> None:
        check_size(self.n, "n")
        check_score(self.threshold, "threshold")
        if self.n == 0 and self.threshold != inf:
            raise InputError("must be +inf where n is 0", field="threshold")

    def sizes(self) -> tuple[int, ...]:
        return (self.n,)

    def scores(self) -> tuple[float, ...]:
        return (self.threshold,)


@dataclass(frozen=True)
class QuantileAndTail(LocalQuantile):
    """One agent's threshold and size with a few more order statistics of its scores.

    Parameters
    ----------
    ranks : tuple of int
        Their ranks, counted from 1, strictly increasing, at most 16.
    values : tuple of float
        The order statistics.
    """

    ranks: tuple[int, ...] = ()
    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        LocalQuantile.__post_init__(self)
        if len(self.ranks) != len(self.values) or len(self.ranks) > MOST_TAIL:
            raise InputError(f"must be as many as values, {MOST_TAIL} at most", field="ranks")
        for rank in self.ranks:
            check_size(rank, "ranks")
        for value in self.values:
            check_score(value, "values")
        if any(after <= before for before, after in pairwise((0, *self.ranks, self.n + 1))):
            raise InputError("must be strictly increasing, from 1 to n", field="ranks")
        if any(after < before for before, after in pairwise(self.values)):
            raise InputError("must never decrease", field="values")

    def check(self, rank: int) -> None:
        """Refuse order statistics that contradict the threshold, which is the one of this rank."""
        for r, value in zip(self.ranks, self.values, strict=True):
            if (r <= rank and value > self.threshold) or (r >= rank and value < self.threshold):
                raise InputError(
                    "must be in one order with the threshold and its rank", field="values"
                )

    def scores(self) -> tuple[float, ...]:
        return (self.threshold, *self.values)


@dataclass(frozen=True)
class ToAll(Outcome):
    """One threshold for every agent.

    Parameters
    ----------
    value : float or tuple of float
        The threshold, or one for each label.
    """

    value: Number

    same_for_all = True

    def __post_init__(self) -> None:
        _check_number(self.value)

    def threshold(self, position: int | None) -> Number:
        del position  # it is the same for all
        return self.value


@dataclass(frozen=True)
class ToEach(Outcome):
    """One threshold for each agent, in the order of their answers.

    Parameters
    ----------
    values : tuple
        The thresholds.
    """

    values: tuple[Number, ...]

    def __post_init__(self) -> None:
        for value in self.values:
            _check_number(value)

    def threshold(self, position: int | None) -> Number | None:
        if position is None or position >= len(self.values):
            return None
        return self.values[position]


@dataclass(frozen=True)
class Local(Outcome):
    """Nothing is sent: each agent uses its own threshold."""

    same_for_all = True


def check_size(n: object, what: str) -> None:
    """Refuse what is not a sample size.

    Parameters
    ----------
    n : int
        The claimed size.
    what : str
        Its name in the error.

    Raises
    ------
    InputError
        If it is not an integer from 0 to `limits.SIZE`.
    """
    if type(n) is not int or not 0 <= n <= SIZE.most:  # True is an int
        SIZE.whole(n, what)


def check_score(score: object, what: str) -> None:
    """Refuse what is not a score.

    Parameters
    ----------
    score : float
        The claimed score.
    what : str
        Its name in the error.

    Raises
    ------
    InputError
        If it is not a number or +inf.
    """
    if type(score) is not float and (isinstance(score, bool) or not isinstance(score, int | float)):
        raise InputError(f"must be a number, got {type(score).__name__}", field=what)
    if not score > -inf:  # NaN is not
        raise InputError(f"must be a number or +inf, got {score}", field=what)


def _check_number(value: Number) -> None:
    """Refuse what is not a threshold."""
    for q in value if isinstance(value, tuple) else (value,):
        check_score(q, "threshold")
