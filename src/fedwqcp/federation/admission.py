"""What the server holds an answer against before it counts.

An answer that was decoded keeps its own invariants; here it must also belong to the round, and
claim what can be.
"""

from __future__ import annotations

from math import inf

from fedwqcp.errors import (
    ImplausibleValueError,
    MalformedMessageError,
    WrongRoundError,
)
from fedwqcp.federation.plan import Plan
from fedwqcp.wire.envelope import Answer
from fedwqcp.wire.payload import Question, Summary


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
    round = plan.round
    for what, ours, theirs in (
        ("version", round.version, answer.version),
        ("round", round.id, answer.round),
        ("method", round.method.name, answer.method),
        ("score", round.score.name, answer.score),
        ("alpha", round.alphas, answer.alphas),
        ("terms", terms, answer.terms),
        ("step", step, answer.step),
    ):
        if ours != theirs:
            raise WrongRoundError(
                answer.agent,
                what,
                f"this round uses {_shown(ours)}, the message was made for {_shown(theirs)}",
            )


def check_answers(answer: Answer, plan: Plan, questions: tuple[Question | None, ...]) -> None:
    """Refuse answers that do not fit their questions, or claim what cannot be.

    Parameters
    ----------
    answer : Answer
        What an agent sent.
    plan : Plan
        What the round computes.
    questions : tuple
        What this agent was asked.

    Raises
    ------
    MalformedMessageError
        If there is not one summary for each question.
    ImplausibleValueError
        If a sample size or a score lies outside the round's bounds.
    """
    if [a is None for a in answer.answers] != [q is None for q in questions]:
        raise MalformedMessageError(
            answer.agent, "answers", "must hold one summary for each question"
        )
    for summary in answer.answers:
        if summary is not None:
            _check_claims(answer.agent, plan, summary)


def _check_claims(agent: str, plan: Plan, summary: Summary) -> None:
    """Hold claimed sizes and scores against the round's bounds."""
    low, high = plan.bounds
    if any(n > plan.round.max_n for n in summary.sizes()):
        raise ImplausibleValueError(agent, "n", f"must be an integer from 0 to {plan.round.max_n}")
    if not all(low <= score <= high or score == inf for score in summary.scores()):
        raise ImplausibleValueError(
            agent, "threshold", f"must lie between {low:g} and {high:g}, or be +inf"
        )


def _shown(value: object) -> str:
    """Write a term for people."""
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
