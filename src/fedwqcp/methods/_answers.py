"""What several agents answered, turned into arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
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
    InputError
        If one is of another kind.
    """
    found = [answer for answer in answers if isinstance(answer, kind)]
    if len(found) != len(answers):
        other = next(answer for answer in answers if not isinstance(answer, kind))
        raise InputError(f"answers: must be of kind {kind.kind!r}, got {other.kind!r}")
    return found


def stacked(rows: Sequence[tuple[float, ...]], columns: int) -> Floats:
    """Return one row of numbers for each agent.

    Parameters
    ----------
    rows : sequence of tuple
        What each agent sent.
    columns : int
        How many numbers each must have.

    Returns
    -------
    Floats, shape (M, columns)
        The numbers.

    Raises
    ------
    InputError
        If an agent sent more or fewer.
    """
    for row in rows:
        if len(row) != columns:
            raise InputError(f"answers: must hold {columns} numbers each, got {len(row)}")
    return np.array(rows, dtype=np.float64).reshape(len(rows), columns)


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
