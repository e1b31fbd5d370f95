"""An agent's privacy budget, kept on disk and spent before an answer leaves.

An entry of its `SpendingLog` holds the answer too, so that the same question gets it again for
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import inf
from pathlib import Path

import msgspec

from fedwqcp.errors import BudgetError, InputError
from fedwqcp.federation.spending_log import SpendingLog

LEAST_EPSILON = 0.01
"""What an answer spends at the least, however little a round asks for."""


class _Spending(msgspec.Struct, frozen=True):
    """One answer that left: what it spent of which budget, and what was sent."""

    round: str
    epsilon: Decimal
    total: Decimal
    question: str  # digest of the round's terms, the agent and the question
    answer: str

    def __post_init__(self) -> None:
        both = (self.epsilon, self.total)
        if not all(number.is_finite() and 0 < float(number) < inf for number in both):
            raise ValueError("no epsilon")


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
        self._log = SpendingLog(folder, _Spending)
        self.total = Decimal(str(total))

    @property
    def left(self) -> float:
        """What is left; below 0 if the budget was lowered after it was spent."""
        before = self._log.read()
        return float(min((self.total, *(spending.total for spending in before))) - _spent(before))

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

        def _charge(before: list[_Spending]) -> _Spending | None:
            nonlocal answer
            known = next((entry.answer for entry in before if entry.question == question), None)
            if known is not None:
                answer = known.encode()
                return None
            self._check(round, epsilon, before)
            answer = compute() if answer is None else answer
            return _Spending(round, Decimal(str(epsilon)), self.total, question, answer.decode())

        self._log.append(_charge)
        assert answer is not None
        return answer

    def _check(self, round: str, epsilon: float, before: list[_Spending]) -> None:
        """Refuse an answer that would spend more than is left."""
        left = max(self.total - _spent(before), Decimal(0))
        first = min((spending.total for spending in before), default=self.total)
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


def _spent(spendings: list[_Spending]) -> Decimal:
    """Add up what was spent: answers about the same people add."""
    return sum((spending.epsilon for spending in spendings), Decimal(0))
