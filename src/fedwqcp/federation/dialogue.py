"""The dialogues of all tasks of a round, held in step."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from fedwqcp.federation.plan import Plan
from fedwqcp.methods import Each
from fedwqcp.wire.payload import Outcome, Question, Summary


class Dialogue:
    """One generator for each task; each step asks all that have not ended.

    Parameters
    ----------
    plan : Plan
        What the round computes.
    """

    def __init__(self, plan: Plan) -> None:
        self._talks: list[Generator[Question | Each, Sequence[Any], Outcome]] = []
        self._pending: list[Question | Each | None] = []
        self._outcomes: list[Outcome | None] = []
        for task in plan.tasks:
            self._talks.append(plan.method.exchange(task.alpha))
            self._pending.append(None)
            self._outcomes.append(None)
            self._advance(len(self._talks) - 1, None)

    @property
    def ended(self) -> bool:
        """Whether every task has its outcome."""
        return all(outcome is not None for outcome in self._outcomes)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes of all tasks, once the dialogue has ended."""
        return tuple(outcome for outcome in self._outcomes if outcome is not None)

    def questions(self, position: int) -> tuple[Question | None, ...]:
        """Return what one agent is asked now.

        Parameters
        ----------
        position : int
            Place of the agent among those that take part.

        Returns
        -------
        tuple
            One question for each task, None for tasks that have ended.
        """
        return tuple(
            ask.questions[position] if isinstance(ask, Each) else ask for ask in self._pending
        )

    def hear(self, answers: Sequence[tuple[Summary | None, ...]]) -> None:
        """Take the answers of all agents and go one step on.

        Parameters
        ----------
        answers : sequence of tuple
            For each agent, one summary for each task.
        """
        for at, ask in enumerate(self._pending):
            if ask is not None:
                self._advance(at, [answer[at] for answer in answers])

    def _advance(self, at: int, answers: Sequence[Summary | None] | None) -> None:
        """Move one task to its next question or its outcome."""
        try:
            talk = self._talks[at]
            self._pending[at] = next(talk) if answers is None else talk.send(answers)
        except StopIteration as end:
            self._pending[at] = None
            self._outcomes[at] = end.value
