"""An agent: it holds the calibration data, and only summaries leave it."""

from __future__ import annotations

import os
from decimal import Decimal
from hashlib import sha256

from numpy.random import PCG64
from numpy.random import Generator as Random

from fedwqcp.errors import InputError, WrongRoundError
from fedwqcp.federation.grouping import part_of
from fedwqcp.federation.plan import Plan, Task
from fedwqcp.federation.privacy import Budget
from fedwqcp.federation.thresholds import localize, thresholds
from fedwqcp.methods import Calibration
from fedwqcp.wire.codec import decode, encode
from fedwqcp.wire.envelope import Answer, Ask
from fedwqcp.wire.payload import Begin, Question, Summary
from fedwqcp.wire.round import Round


class Agent:
    """The side of the dialogue that holds the data.

    Parameters
    ----------
    name : str
        Its name in the roster.
    round : Round or Plan
        The terms, as it received them, or what they come to.
    calibration : Calibration
        Its data; they stay here.
    allow_samples : bool, optional
        Whether a summary may hold scores of single people.
    budget : Budget, optional
        Differential privacy that its data may spend. With it only private methods are answered;
        what they spend is on disk before the answer leaves.
    rng : numpy.random.Generator, optional
        Source of noise; by default from the operating system, so that nobody can predict it.

    Raises
    ------
    InputError
        If the agent is not in the roster, or the data do not fit the round.
    """

    def __init__(
        self,
        name: str,
        round: Round | Plan,
        calibration: Calibration,
        *,
        allow_samples: bool = False,
        budget: Budget | None = None,
        rng: Random | None = None,
    ) -> None:
        self.name = name
        self.plan = round if isinstance(round, Plan) else Plan.of(round)
        if not self.plan.round.expects(name):
            known = ", ".join(self.plan.round.agents)
            raise InputError(f"agent {name!r} is not in the round; its agents: {known}")
        self.plan.check(calibration)
        self._calibration = calibration
        self._allow_samples = allow_samples
        self._budget = budget
        self._rng = rng or _SystemRandom(PCG64())
        self._first: bytes | None = None

    def answer(self, ask: bytes | None = None) -> bytes:
        """Answer one question of the server.

        The first question is answered once: asked again, it gets the same bytes, since a second
        answer with fresh noise would tell more.

        Parameters
        ----------
        ask : bytes, optional
            The encoded question; the first question of a round needs none.

        Returns
        -------
        bytes
            The encoded answer, ready to be read by anyone before it is sent.

        Raises
        ------
        WrongRoundError
            If the question belongs to another round, or is the first one in a later step.
        InputError
            If the method needs data that are not there, or samples that may not leave.
        BudgetError
            If the privacy budget does not allow the answer.
        """
        asked = self._asked(ask)
        if asked.step == 0 and self._first is not None:
            return self._first
        found = self._charged(asked)
        if asked.step == 0:
            self._first = found
        return found

    def _asked(self, ask: bytes | None) -> Ask:
        """Read a question; the terms of the round imply the first one, and no later one is it."""
        id = self.plan.round.id
        first = Ask(id, 0, tuple(Begin() for _ in self.plan.tasks))
        if ask is None:
            return first
        asked = decode(ask, Ask, self.plan.kinds, "server")
        if asked.round != id or len(asked.questions) != len(self.plan.tasks):
            raise WrongRoundError(
                "server", "round", f"the question is of round {asked.round}, not {id}"
            )
        begins = any(isinstance(question, Begin) for question in asked.questions)
        if asked != first and (begins or asked.step < 1):
            raise WrongRoundError("server", "step", "the first question is asked in step 0 alone")
        return asked

    def _charged(self, asked: Ask) -> bytes:
        """Compute an answer, within the privacy budget where there is one."""
        if self._budget is None:
            return self._answer(asked)
        round = self.plan.round
        question = sha256(encode(round) + self.name.encode() + encode(asked)).hexdigest()
        return self._budget.answer(round.id, question, self.spends, lambda: self._answer(asked))

    @property
    def spends(self) -> float:
        """The epsilon of one answer: levels and columns add up, disjoint groups do not."""
        tasks = {(task.alpha, task.column) for task in self.plan.tasks}
        return float(Decimal(str(self.plan.method.spends)) * len(tasks))

    def _answer(self, asked: Ask) -> bytes:
        """Compute an answer."""
        round = self.plan.round
        answers = tuple(
            None if question is None else self._summary(question, task)
            for question, task in zip(asked.questions, self.plan.tasks, strict=True)
        )
        return encode(
            Answer(
                round=round.id,
                terms=self.plan.terms,
                step=asked.step,
                agent=self.name,
                method=round.method.name,
                score=round.score.name,
                alphas=round.alphas,
                answers=answers,
            )
        )

    def _summary(self, question: Question, task: Task) -> Summary | None:
        """Answer one question for one task; nothing where there is no point of its group."""
        round, method = self.plan.round, self.plan.method
        cal = part_of(round, self._calibration.column(task.column), task.group)
        if task.group is not None and not cal.n and not method.hides_absence:
            return None
        summary = method.answer(cal, question, task.alpha, self._rng)
        if not isinstance(summary, Summary):
            raise InputError(f"only a Summary can leave an agent, got {type(summary).__name__}")
        if summary.reveals == "samples" and not self._allow_samples:
            raise InputError(
                f"{round.method.name} with these settings sends scores of single people; "
                "allow it with allow_samples=True (--allow-samples), or choose settings that do not"
            )
        return summary


class _SystemRandom(Random):
    """A generator whose bytes, from which private noise is made, come from the system itself."""

    def bytes(self, length: int) -> bytes:
        """Return bytes that nobody can predict, also from earlier ones."""
        return os.urandom(length)


__all__ = ["Agent", "localize", "thresholds"]
