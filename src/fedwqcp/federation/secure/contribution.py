"""What an agent adds to a masked sum, and which rounds can be held on sums alone."""

from __future__ import annotations

from math import isfinite

from fedwqcp import methods
from fedwqcp.errors import InputError, WrongRoundError
from fedwqcp.federation.plan import Plan
from fedwqcp.methods import Summed
from fedwqcp.wire.codec import decode, encode
from fedwqcp.wire.envelope import Answer, Ask
from fedwqcp.wire.masked import FEWEST, FixedPoint
from fedwqcp.wire.payload import Begin


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


def scale_of(plan: Plan, secure: bool | tuple[float, float] = True) -> FixedPoint:
    """Return how the numbers of a round become words.

    Parameters
    ----------
    plan : Plan
        What the round computes.
    secure : bool or tuple of float, optional
        Lower and upper bound of the thresholds; True takes the score's own range.

    Returns
    -------
    FixedPoint
        With as many bits as the roster allows.

    Raises
    ------
    InputError
        If the method needs more than sums, there are too few agents, or the range is not finite
        or no range.
    """
    summed_method(plan)
    if plan.round.quorum < FEWEST:
        raise InputError(
            f"quorum: a secure round needs at least {FEWEST} agents, got {plan.round.quorum}: with "
            "two, each would know the other's number"
        )
    low, high = plan.bounds
    if not isinstance(secure, bool):
        if not _is_range(secure):
            raise InputError(f"secure must be True, or two numbers (low, high), got {secure!r}")
        low, high = max(low, secure[0]), min(high, secure[1])
    if not (isfinite(low) and isfinite(high)):
        raise InputError(
            f"{plan.round.score.name} has no finite range, and masked sums need one: state bounds "
            "that every agent's threshold keeps, such as secure=(-50, 50)"
        )
    return FixedPoint(float(low), float(high), plan.round.max_n, len(plan.round.agents))


def inner_ask(plan: Plan, ask: bytes) -> bytes | None:
    """Return the question without the scale, as an agent of a plain round would get it.

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
    InputError
        If the question belongs to another round or scale, or the method needs more than sums.
    """
    asked, _ = read_sum(plan, ask)
    first = all(isinstance(question, Begin) for question in asked.questions)
    return None if first else encode(asked)


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
    InputError
        If the agent's sample size or threshold lies outside the round's bounds.
    """
    method = summed_method(plan)
    asked, scale = read_sum(plan, ask)
    answers = decode(answer, Answer, plan.kinds, "own").answers
    return tuple(
        word
        for summary, question in zip(answers, asked.questions, strict=True)
        if summary is not None and question is not None
        for word in method.words(summary, question, scale)
    )


def read_sum(plan: Plan, ask: bytes) -> tuple[Ask, FixedPoint]:
    """Return the questions of a sum and its scale.

    Parameters
    ----------
    plan : Plan
        What the round computes.
    ask : bytes
        What `SumServer.ask` gave.

    Returns
    -------
    tuple of Ask and FixedPoint
        The questions without the scale, and the scale.

    Raises
    ------
    WrongRoundError
        If the question belongs to another round.
    InputError
        If the scale is not that of the round, or the method needs more than sums.
    """
    asked = decode(ask, Ask, (*plan.kinds, FixedPoint), "server")
    scale, questions = asked.questions[0], asked.questions[1:]
    if asked.round != plan.round.id or len(questions) != len(plan.tasks):
        raise WrongRoundError("server", "round", f"the question is not of round {plan.round.id}")
    if not isinstance(scale, FixedPoint) or scale != scale_of(plan, (scale.low, scale.high)):
        raise InputError("scale: must be that of the round's max_n, roster and score")
    return Ask(asked.round, asked.step, questions), scale


def _is_range(secure: object) -> bool:
    """Tell whether something is two numbers; whether they are a range is told by the scale."""
    return (
        isinstance(secure, tuple | list)
        and len(secure) == 2
        and all(isinstance(end, int | float) and not isinstance(end, bool) for end in secure)
    )
