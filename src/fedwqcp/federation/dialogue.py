"""The dialogues of all tasks of a round, held in step."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import inf
from typing import Any

from fedwqcp.federation.plan import Plan
from fedwqcp.methods import Each, UnfitAnswerError
from fedwqcp.wire.payload import Outcome, Question, Summary, ToAll


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
        self._same: tuple[Question | None, ...] | None = None
        self._grouped = plan.round.by is not None
        self._there: list[dict[int, int] | None] = [None for _ in plan.tasks]  # None: all
        for task in plan.tasks:
            self._talks.append(plan.method.exchange(task.alpha))
            self._pending.append(None)
            self._outcomes.append(None)
            self._advance(len(self._talks) - 1, None)
        self._share()

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
        if self._same is not None:
            return self._same
        return tuple(self._question(at, position) for at in range(len(self._pending)))

    def there(self, at: int) -> frozenset[int] | None:
        """Return who takes part in a task: an agent without a point of its group does not.

        Parameters
        ----------
        at : int
            Which task.

        Returns
        -------
        frozenset of int or None
            Places of the agents; None for all.
        """
        there = self._there[at]
        return None if there is None else frozenset(there)

    def hear(self, answers: Sequence[tuple[Summary | None, ...]]) -> None:
        """Take the answers of all agents and go one step on.

        Parameters
        ----------
        answers : sequence of tuple
            For each agent, one summary for each task; None where it takes no part in it.

        Raises
        ------
        UnfitAnswerError
            Naming the place of an agent whose answer does not fit.
        """
        for at, ask in enumerate(self._pending):
            if ask is not None:
                self._hear(at, [answer[at] for answer in answers])
        self._share()

    def _hear(self, at: int, answers: Sequence[Summary | None]) -> None:
        """Go one step on in one task, with those who take part in it."""
        if not self._grouped or all(answer is not None for answer in answers):
            self._advance(at, answers)
            return
        there = [place for place, answer in enumerate(answers) if answer is not None]
        self._there[at] = {place: at for at, place in enumerate(there)}
        if not there:  # nobody has a point of the group: nothing can be excluded
            self._pending[at], self._outcomes[at] = None, ToAll(inf)
            return
        try:
            self._advance(at, [answers[place] for place in there])
        except UnfitAnswerError as error:
            raise UnfitAnswerError(there[error.position], str(error)) from None

    def _question(self, at: int, position: int) -> Question | None:
        """Return what one agent is asked in one task."""
        ask, there = self._pending[at], self._there[at]
        if there is not None and position not in there:
            return None
        if isinstance(ask, Each):
            return ask.questions[position if there is None else there[position]]
        return ask

    def _share(self) -> None:
        """Keep the questions that all agents are asked alike; there may be a million of them."""
        each = any(isinstance(ask, Each) for ask in self._pending) or any(
            there is not None for there in self._there
        )
        self._same = None if each else tuple(self._pending)  # type: ignore[arg-type]  # no Each

    def _advance(self, at: int, answers: Sequence[Summary | None] | None) -> None:
        """Move one task to its next question or its outcome."""
        try:
            talk = self._talks[at]
            self._pending[at] = next(talk) if answers is None else talk.send(answers)
        except StopIteration as end:
            self._pending[at] = None
            self._outcomes[at] = end.value
