"""What several methods do with answers: check their kind, stack them, add them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np

from fedwqcp._validation import Floats
from fedwqcp.errors import InputError, UnfitAnswerError
from fedwqcp.wire.messages import Summary

K = TypeVar("K", bound=Summary)


def of_kind(answers: Sequence[Summary], kind: type[K]) -> list[K]:
    """Return the answers, all of the kind that the question asked for."""
    fitting = [answer for answer in answers if isinstance(answer, kind)]
    if len(fitting) != len(answers):
        position = next(i for i, answer in enumerate(answers) if not isinstance(answer, kind))
        other = answers[position].kind
        raise UnfitAnswerError(position, f"must be of kind {kind.kind!r}, got {other!r}")
    return fitting


def expect(answer: Summary, kind: type[K]) -> K:
    """Return one agent's answer, if it is of the kind that its question asked for."""
    if not isinstance(answer, kind):
        raise InputError(f"must be {kind.kind!r}, got {answer.kind!r}", field="kind")
    return answer


def check_classes(counts: tuple[int, ...], n_classes: int | None) -> None:
    """Refuse counts that are not one for each class, where the round says how many there are."""
    if n_classes not in (None, len(counts)):
        raise InputError(f"must be {n_classes}, one for each class", field="counts")


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
