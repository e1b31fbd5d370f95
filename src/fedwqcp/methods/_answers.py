"""What several agents answered, turned into arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.methods._base import UnfitAnswerError
from fedwqcp.wire.payload import Summary

K = TypeVar("K", bound=Summary)


def of_kind(answers: Sequence[Summary], kind: type[K]) -> list[K]:
    """Return the answers, all of the kind that the question asked for.

    Parameters
    ----------
    answers : sequence of Summary
        What the agents sent.
    kind : type
        What they were asked for.

    Returns
    -------
    list of Summary
        The same answers.

    Raises
    ------
    UnfitAnswerError
        If one is of another kind.
    """
    found = [answer for answer in answers if isinstance(answer, kind)]
    if len(found) != len(answers):
        position = next(i for i, answer in enumerate(answers) if not isinstance(answer, kind))
        other = answers[position].kind
        raise UnfitAnswerError(position, f"must be of kind {kind.kind!r}, got {other!r}")
    return found


def expect(answer: Summary, kind: type[K]) -> K:
    """Return one agent's answer, if it is of the kind that its question asked for."""
    if not isinstance(answer, kind):
        raise InputError(f"kind: must be {kind.kind!r}, got {answer.kind!r}")
    return answer


def stacked(rows: Sequence[tuple[float, ...]], columns: int | None = None) -> Floats:
    """Return one row of numbers for each agent.

    Parameters
    ----------
    rows : sequence of tuple
        What each agent sent.
    columns : int, optional
        How many numbers each must have; by default as many as most of them have.

    Returns
    -------
    Floats, shape (M, columns)
        The numbers.

    Raises
    ------
    UnfitAnswerError
        If an agent sent more or fewer.
    """
    if columns is None:
        columns = usual(len(row) for row in rows)
    for position, row in enumerate(rows):
        if len(row) != columns:
            raise UnfitAnswerError(position, f"must hold {columns} numbers, got {len(row)}")
    return np.array(rows, dtype=np.float64).reshape(len(rows), columns)


def usual(values: Iterable[int]) -> int:
    """Return the value that most agents have; of equally frequent ones the largest.

    Parameters
    ----------
    values : iterable of int
        One for each agent.

    Returns
    -------
    int
        The value.
    """
    counts = Counter(values)
    return max(counts, key=lambda value: (counts[value], value))


def summed(values: Floats) -> Floats:
    """Return the sum over agents, the same to the last bit in whatever order they stand.

    Parameters
    ----------
    values : Floats, shape (M, ...)
        One entry for each agent.

    Returns
    -------
    Floats, shape (...)
        The sum.
    """
    return np.asarray(np.sort(values, axis=0).sum(axis=0))
