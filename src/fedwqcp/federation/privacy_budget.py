"""An agent's privacy budget, kept on disk and spent before an answer leaves.

A folder with one numbered file for each answer: what it spent, and the answer itself. A file is
written whole, and a number only once, also where two processes write at the same time; so neither a
crash nor a race gives budget back, and the same question gets the same answer again, free of cost.
``count.json`` says how many there are, so that one that is lost is missed, the last one too.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from fedwqcp._io import (
    exists,
    from_json,
    in_folder,
    locked,
    make_folder,
    read,
    sync_folder,
    to_json,
    write_atomic,
)
from fedwqcp.errors import BudgetError, InputError, RecordError

LEAST_EPSILON = 0.01
"""What an answer spends at the least, however little a round asks for."""

_COUNT = "count.json"
"""How many answers were ever given."""


class _Spending(msgspec.Struct, frozen=True):
    """One answer that left: what it spent of which budget, and what was sent."""

    round: str
    epsilon: Decimal
    total: Decimal
    question: str  # digest of the round's terms, the agent and the question
    answer: str

    @property
    def sound(self) -> bool:
        """Whether the numbers can be what an answer spent."""
        both = (self.epsilon, self.total)
        return all(each.is_finite() and 0 < float(each) < inf for each in both)


class _Count(msgspec.Struct):
    answers: Annotated[int, Meta(ge=0)]


class Budget:
    """The epsilon that one agent's calibration data may spend, over all rounds.

    Parameters
    ----------
    folder : Path
        Where it is kept; one for each set of calibration data, beside them.
    total : float
        The budget; the agent's own decision, never a term of a round. Once something was spent it
        can be lowered, not raised.

    Raises
    ------
    InputError
        If the total is not a positive number.
    """

    def __init__(self, folder: Path, total: float) -> None:
        if not 0 < total < inf:
            raise InputError(f"the privacy budget must be a positive number, got {total!r}")
        self.folder = folder
        self.total = Decimal(str(total))

    @property
    def left(self) -> float:
        """What is left; below 0 if the budget was lowered after it was spent."""
        before = self._read()
        return float(min((self.total, *(each.total for each in before))) - _spent(before))

    def answer(
        self, round: str, question: str, epsilon: float, compute: Callable[[], bytes]
    ) -> bytes:
        """Answer a question once, and write down what it spends before the answer leaves.

        ``question`` is the digest of the round's terms, the agent and the question. ``epsilon``,
        what an answer spends, is +inf where it is not private. ``compute`` gives the encoded answer
        where the budget allows it; later calls return the answer of the first time. After any error
        nothing may leave: the budget is spent, or its folder is damaged or cannot be written.
        """
        answer: bytes | None = None
        while True:
            before = self._read()
            known = next((each.answer for each in before if each.question == question), None)
            if known is not None:
                self._count_up(len(before))  # a crash may have come before it was counted
                return known.encode()
            self._check(round, epsilon, before)
            if answer is None:
                answer = compute()
                make_folder(self.folder)
            path = self.folder / f"{len(before) + 1:06d}.json"
            spent = Decimal(str(epsilon))
            entry = _Spending(round, spent, self.total, question, answer.decode())
            if not before:
                write_atomic(self.folder / _COUNT, to_json(_Count(0)), replace=False)
            if write_atomic(path, to_json(entry, indent=1), replace=False):
                self._count_up(len(before) + 1)
                sync_folder(self.folder)
                return answer  # else another process took this number: look again

    def _count_up(self, answers: int) -> None:
        """Keep how many answers there are; it never falls."""
        with locked(self.folder):
            if _count(self.folder / _COUNT) < answers:
                write_atomic(self.folder / _COUNT, to_json(_Count(answers)))

    def _check(self, round: str, epsilon: float, before: list[_Spending]) -> None:
        """Refuse an answer that would spend more than is left."""
        left = max(self.total - _spent(before), Decimal(0))
        first = min((each.total for each in before), default=self.total)
        if self.total > first:
            raise BudgetError(
                f"the privacy budget of these data was {first:f}: it can be lowered, not raised to "
                f"{self.total:f}; name the former, or calibrate on new data"
            )
        if epsilon == inf:
            raise BudgetError(
                f"this agent has a privacy budget, and the method of round {round!r} is not "
                "differentially private: ask the server for private-fedwq-cp, or answer without a "
                "budget"
            )
        if Decimal(str(epsilon)) > left:
            raise BudgetError(
                f"the privacy budget does not allow round {round!r}: it asks for epsilon = "
                f"{epsilon:g}, and {left:f} of {self.total:f} is left; ask the server for a "
                "smaller epsilon or fewer levels, or calibrate on new data"
            )

    def _read(self) -> list[_Spending]:
        """Return everything that was spent, in order; a gap or a damaged file is refused.

        The count is read first: another process writes its answer before it counts it.
        """
        count = _count(self.folder / _COUNT) if exists(self.folder / _COUNT) else None
        paths = in_folder(self.folder, "[0-9]*.json")
        for at, path in enumerate(paths, 1):
            if path.name != f"{at:06d}.json":
                raise _missing(self.folder, f"{at:06d}.json")
        found = [_spending(path) for path in paths]
        if count is None and paths and not exists(self.folder / _COUNT):
            raise _missing(self.folder, _COUNT)
        if count is not None and count > len(paths):
            raise _missing(self.folder, f"{len(paths) + 1:06d}.json")
        return found


def _missing(folder: Path, name: str) -> RecordError:
    return RecordError(f"{folder} is damaged: {name} is missing; restore it")


def _count(path: Path) -> int:
    found = from_json(read(path), _Count)
    if found is None:
        raise RecordError(f"{path} is damaged: it must say how many answers left; restore it")
    return found.answers


def _spending(path: Path) -> _Spending:
    found = from_json(read(path), _Spending)
    if found is None or not found.sound:
        raise RecordError(f"{path} is damaged: it must say what an answer spent; restore it")
    return found


def _spent(spendings: list[_Spending]) -> Decimal:
    """Add up what was spent: answers about the same people add."""
    return sum((spending.epsilon for spending in spendings), Decimal(0))
