"""What an agent adds to a masked sum, and which rounds can be held on sums alone."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

from fedwqcp import methods
from fedwqcp.errors import InputError, WrongRoundError
from fedwqcp.federation.plan import Plan
from fedwqcp.methods import Summed
from fedwqcp.wire.codec import decode
from fedwqcp.wire.envelope import Answer, Ask
from fedwqcp.wire.masked import FEWEST, FixedPoint
from fedwqcp.wire.payload import Begin
from fedwqcp.wire.round import Round


def summed_method(plan: Plan) -> Summed:
    """Return the method of a round, if sums are all that its server needs.

    Parameters
    ----------
    plan : Plan
        What the round computes.

    Returns
    -------
    Summed
        The method.

    Raises
    ------
    InputError
        Naming the methods that work, if this one does not.
    """
    method, name = plan.method, plan.round.method.name
    if plan.round.by is not None:
        raise InputError("a secure round has one threshold for all groups: leave `by` out")
    if plan.round.signed:
        raise InputError(
            "a secure round cannot require signatures: an agent's numbers leave it under masks, "
            "and no signature of theirs can be checked; leave the keys out"
        )
    if isinstance(method, Summed) and method.summable:
        return method
    fit = [known for known in methods.available() if issubclass(methods.find(known), Summed)]
    what = f"{name} with these settings" if isinstance(method, Summed) else name
    raise InputError(
        f"{what} cannot be secure: masks hide every single value, and it does more than add them "
        f"up. Methods that can: {', '.join(fit)} (fcp with sketch='bisection' and no floor)"
    )


def secure_round(round: Round, secure: bool | tuple[float, float] = True) -> Round:
    """Return the terms of a round on masked sums.

    Parameters
    ----------
    round : Round
        The terms of a plain one.
    secure : bool or tuple of float, optional
        Lower and upper bound of the thresholds; True takes the score's own range.

    Returns
    -------
    Round
        The same with the range, which is one of the terms: agents answer for no other.

    Raises
    ------
    InputError
        If the method needs more than sums, there are too few agents, or the range is not finite
        or no range.
    """
    plan = Plan.of(round)
    low, high = plan.bounds
    if not isinstance(secure, bool):
        if not _is_range(secure):
            raise InputError(f"secure must be True, or two numbers (low, high), got {secure!r}")
        low, high = max(low, secure[0]), min(high, secure[1])
    summed_method(plan)
    if not (isfinite(low) and isfinite(high)):
        raise InputError(
            f"{round.score.name} has no finite range, and masked sums need one: state bounds "
            "that every agent's threshold keeps, such as secure=(-50, 50)"
        )
    found = replace(round, secure=(float(low), float(high)))
    scale_of(Plan.of(found))
    return found


def scale_of(plan: Plan) -> FixedPoint:
    """Return how the numbers of a round become words, as its terms imply.

    Parameters
    ----------
    plan : Plan
        What the round computes.

    Returns
    -------
    FixedPoint
        With as many bits as the roster allows.

    Raises
    ------
    InputError
        If the terms are not those of a secure round, or there are too few agents.
    """
    summed_method(plan)
    round = plan.round
    if round.quorum < FEWEST:
        raise InputError(
            f"quorum: a secure round needs at least {FEWEST} agents, got {round.quorum}: with "
            "two, each would know the other's number"
        )
    if round.secure is None:
        raise InputError("secure: the terms of a secure round state the range of its thresholds")
    low, high = round.secure
    return FixedPoint(low, high, round.max_n, len(round.agents))


def inner_ask(plan: Plan, ask: bytes) -> bytes | None:
    """Return the question of a sum as an agent of a plain round would get it.

    Parameters
    ----------
    plan : Plan
        What the round computes.
    ask : bytes
        What `SumServer.ask` gave.

    Returns
    -------
    bytes or None
        None for the first question, which the terms imply.

    Raises
    ------
    WrongRoundError
        If the question belongs to another round.
    """
    asked = _asked(plan, ask)
    first = all(isinstance(question, Begin) for question in asked.questions)
    return None if first else ask


def words_of(plan: Plan, ask: bytes, answer: bytes) -> tuple[int, ...]:
    """Return the words that an agent adds to a sum.

    Parameters
    ----------
    plan : Plan
        What the round computes.
    ask : bytes
        What `SumServer.ask` gave.
    answer : bytes
        The agent's own answer to `inner_ask`, which stays there.

    Returns
    -------
    tuple of int
        The words of all tasks; they must be masked before they leave.

    Raises
    ------
    OutOfRangeError
        If the agent's sample size or threshold lies outside the round's range.
    """
    method, scale = summed_method(plan), scale_of(plan)
    answers = decode(answer, Answer, plan.kinds, "own").answers
    return tuple(
        word
        for summary, question in zip(answers, _asked(plan, ask).questions, strict=True)
        if summary is not None and question is not None
        for word in method.words(summary, question, scale)
    )


def words_out_of_range(plan: Plan, ask: bytes) -> tuple[int, ...]:
    """Return the words of an agent whose numbers lie outside the round's range.

    Parameters
    ----------
    plan : Plan
        What the round computes.
    ask : bytes
        What `SumServer.ask` gave.

    Returns
    -------
    tuple of int
        They must be masked like any others: nobody else learns which agent added them.
    """
    method = summed_method(plan)
    questions = _asked(plan, ask).questions
    return tuple(
        word for question in questions if question for word in method.out_of_range(question)
    )


def _asked(plan: Plan, ask: bytes) -> Ask:
    """Read the questions of a sum."""
    asked = decode(ask, Ask, plan.kinds, "server")
    if asked.round != plan.round.id or len(asked.questions) != len(plan.tasks):
        raise WrongRoundError("server", "round", f"the question is not of round {plan.round.id}")
    return asked


def _is_range(secure: object) -> bool:
    """Tell whether something is two numbers; whether they are a range is told by the scale."""
    return (
        isinstance(secure, tuple | list)
        and len(secure) == 2
        and all(isinstance(end, int | float) and not isinstance(end, bool) for end in secure)
    )
