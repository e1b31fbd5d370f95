"""An agent: it holds the calibration data, and only summaries leave it."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator as Random

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError, WrongRoundError
from fedwqcp.federation.plan import Plan, Task
from fedwqcp.methods import Calibration
from fedwqcp.wire.codec import decode, encode
from fedwqcp.wire.envelope import Answer, Ask
from fedwqcp.wire.payload import Begin, Question, Summary
from fedwqcp.wire.release import Release
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
        rng: Random | None = None,
    ) -> None:
        self.name = name
        self.plan = round if isinstance(round, Plan) else Plan.of(round)
        if name not in self.plan.names:
            known = ", ".join(self.plan.round.agents)
            raise InputError(f"agent {name!r} is not in the round; its agents: {known}")
        self.plan.check(calibration)
        self._calibration = calibration
        self._allow_samples = allow_samples
        self._rng = rng or np.random.default_rng()

    def answer(self, ask: bytes | None = None) -> bytes:
        """Answer one question of the server.

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
            If the question belongs to another round.
        InputError
            If the method needs data that are not there, or samples that may not leave.
        """
        round = self.plan.round
        if ask is None:
            questions: tuple[Question | None, ...] = tuple(Begin() for _ in self.plan.tasks)
            step = 0
        else:
            asked = decode(ask, Ask, self.plan.kinds, "server")
            if asked.round != round.id or len(asked.questions) != len(self.plan.tasks):
                raise WrongRoundError(
                    "server", "round", f"the question is of round {asked.round}, not {round.id}"
                )
            questions, step = asked.questions, asked.step
        answers = tuple(
            None if question is None else self._summary(question, task)
            for question, task in zip(questions, self.plan.tasks, strict=True)
        )
        return encode(
            Answer(
                round=round.id,
                terms=self.plan.terms,
                step=step,
                agent=self.name,
                method=round.method.name,
                score=round.score.name,
                alphas=round.alphas,
                answers=answers,
            )
        )

    def _summary(self, question: Question, task: Task) -> Summary:
        """Answer one question for one task."""
        cal = self._calibration.column(task.column)
        summary = self.plan.method.answer(cal, question, task.alpha, self._rng)
        if not isinstance(summary, Summary):
            raise InputError(f"only a Summary can leave an agent, got {type(summary).__name__}")
        if summary.reveals == "samples" and not self._allow_samples:
            raise InputError(
                f"{self.plan.round.method.name} with these settings sends scores of single people; "
                "allow it with allow_samples=True (--allow-samples), or choose settings that do not"
            )
        return summary


def thresholds(
    release: Release,
    agent: str,
    alpha: float | None = None,
    calibration: Calibration | None = None,
    features: Floats | None = None,
) -> float | Floats:
    """Return the threshold that an agent predicts with.

    Parameters
    ----------
    release : Release
        What the round ended with.
    agent : str
        Name of the agent.
    alpha : float, optional
        Which level, where the round has several.
    calibration : Calibration, optional
        The agent's data, for methods that need them once more.
    features : Floats, optional
        Features of the test inputs, for thresholds that depend on the input.

    Returns
    -------
    float or Floats
        Shape () shared, (C,) per label, (n, 1) per input, (2,) per column of the score.

    Raises
    ------
    InputError
        If the agent or level is not part of the round, or data are missing.
    """
    plan = Plan.of(release.round)
    low, high = plan.bounds
    if calibration is None and features is None:
        value = release.threshold(agent, alpha)
        q = np.asarray(value)
        if not (((low <= q) & (q <= high)) | (q == np.inf)).all():
            raise InputError(
                f"the release's threshold must lie between {low:g} and {high:g} for "
                f"{release.round.score.name}, or be +inf: it was changed or is of another score"
            )
        return value
    if calibration is not None:
        plan.check(calibration)
    found = [
        localize(plan, release, agent, at, calibration, features=features)
        for at in release.tasks_of(alpha)
    ]
    if len(found) > 1:
        return np.stack(found, axis=-1)
    return found[0] if found[0].ndim else float(found[0])


def localize(
    plan: Plan,
    release: Release,
    agent: str,
    task: int,
    calibration: Calibration | None,
    *,
    features: Floats | None = None,
) -> Floats:
    """Return an agent's threshold for one task of the round.

    Parameters
    ----------
    plan : Plan
        What the round computes.
    release : Release
        What it ended with.
    agent : str
        Name of the agent.
    task : int
        Which task.
    calibration : Calibration or None
        The agent's data, for methods that need them once more.
    features : Floats, optional
        Features of the test inputs.

    Returns
    -------
    Floats
        Shape () shared, (C,) per label, (n, 1) per input.
    """
    own = None if calibration is None else calibration.column(plan.tasks[task].column)
    outcome, alpha = release.outcomes[task], plan.tasks[task].alpha
    return plan.method.localize(outcome, own, release.position(agent), alpha, features)
