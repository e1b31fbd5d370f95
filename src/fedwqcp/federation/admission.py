"""What the server holds an answer against before it counts.

An answer that was decoded keeps its own invariants; here it must also belong to the round, and
claim what can be.
"""

from __future__ import annotations

from math import inf
from typing import Any

from fedwqcp.errors import (
    ImplausibleValueError,
    InputError,
    MalformedMessageError,
    WrongRoundError,
)
from fedwqcp.federation.plan import Plan
from fedwqcp.methods import Terms
from fedwqcp.wire.envelope import Answer
from fedwqcp.wire.payload import Question, Summary

_TERMS = ("version", "round", "method", "score", "alpha", "terms", "step")


def check_terms(answer: Answer, plan: Plan, terms: str, step: int) -> None:
    """Refuse an answer that was made for other terms or another step.

    Parameters
    ----------
    answer : Answer
        What an agent sent.
    plan : Plan
        What the round computes.
    terms : str
        Digest of the round.
    step : int
        The current step.

    Raises
    ------
    WrongRoundError
        Naming the first thing that differs.
    """
    a, r = answer, plan.round
    made_for = (a.version, a.round, a.method, a.score, a.alphas, a.terms, a.step)
    uses = (r.version, r.id, r.method.name, r.score.name, r.alphas, terms, step)
    if made_for == uses:
        return
    for what, ours, theirs in zip(_TERMS, uses, made_for, strict=True):
        if ours != theirs:
            raise WrongRoundError(
                answer.agent,
                what,
                f"this round uses {_shown(ours)}, the message was made for {_shown(theirs)}",
            )


def check_answers(
    answer: Answer,
    plan: Plan,
    questions: tuple[Question | None, ...],
    earlier: tuple[Any, ...] = (),
) -> tuple[Any, ...]:
    """Refuse answers that do not fit their questions, or claim what cannot be.

    Parameters
    ----------
    answer : Answer
        What an agent sent.
    plan : Plan
        What the round computes.
    questions : tuple
        What this agent was asked.
    earlier : tuple, optional
        For each task, what binds the agent since its last answer (`Method.check`); empty at first.

    Returns
    -------
    tuple
        For each task, what binds its later answers.

    Raises
    ------
    MalformedMessageError
        If there is not one summary for each question.
    ImplausibleValueError
        If a sample size or a score lies outside the round's bounds, or an answer does not fit its
        question or what the agent said before.
    """
    answers = answer.answers
    fits = len(answers) == len(questions)
    for summary, question in zip(answers, questions, strict=False):
        fits = fits and (summary is None) is (question is None)
    if not fits and not (answer.step == 0 and _leaves_groups_out(answers, plan)):
        raise MalformedMessageError(
            answer.agent, "answers", "must hold one summary for each question"
        )
    bound = list(earlier or (None,) * len(plan.tasks))
    for at, (summary, question) in enumerate(zip(answers, questions, strict=True)):
        if summary is None or question is None:
            continue
        _check_claims(answer.agent, plan, summary)
        terms = Terms(plan.tasks[at].alpha, plan.round.n_classes, *plan.bounds)
        try:
            bound[at] = plan.method.check(question, summary, bound[at], terms)
        except InputError as error:
            field, colon, reason = str(error).partition(": ")
            raise ImplausibleValueError(
                answer.agent, *((field, reason) if colon else ("answers", str(error)))
            ) from None
    return tuple(bound)


def _leaves_groups_out(answers: tuple[Summary | None, ...], plan: Plan) -> bool:
    """Tell whether only groups as a whole have no answer: the agent has no point of them."""
    if plan.round.by is None or len(answers) != len(plan.tasks):
        return False
    left_out = {
        (task.group, answer is None) for task, answer in zip(plan.tasks, answers, strict=True)
    }
    return len(left_out) == len(plan.round.group_names)


def _check_claims(agent: str, plan: Plan, summary: Summary) -> None:
    """Hold claimed sizes and scores against the round's bounds."""
    low, high = plan.bounds
    most = plan.round.max_n
    for n in summary.sizes():
        if n > most:
            raise ImplausibleValueError(agent, "n", f"must be an integer from 0 to {most}")
    for score in summary.scores():
        if not (low <= score <= high or score == inf):
            raise ImplausibleValueError(
                agent, "threshold", f"must lie between {low:g} and {high:g}, or be +inf"
            )


def _shown(value: object) -> str:
    """Write a term for people."""
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
