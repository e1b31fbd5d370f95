"""What the record of a round tells an advice: its agents' thresholds and class counts."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import cast

import numpy as np

from fedwqcp import methods
from fedwqcp.errors import InputError, MessageError, RecordError
from fedwqcp.federation.admission import check_answers
from fedwqcp.federation.plan import Plan
from fedwqcp.methods._class_cdf import read_cells
from fedwqcp.methods._class_sketch import ClassSketches, SketchesAndThreshold
from fedwqcp.methods._label_counts import LabelCounts
from fedwqcp.methods.fedls_cp import FedLSCP
from fedwqcp.quantile import conformal_rank
from fedwqcp.wire.envelope import Answer
from fedwqcp.wire.masked import ToAllWithin
from fedwqcp.wire.payload import Begin, LocalQuantile, Summary
from fedwqcp.wire.release import Release

NEEDED = (
    "advice needs the record of a round whose agents sent thresholds or class sketches, such as "
    "fedwq-cp or fedls-cp: give the server's record, not the release"
)
"""What is said of a record that tells nothing."""


def check_look(look: Release) -> None:
    """Refuse a record that nothing can be advised on.

    Parameters
    ----------
    look : Release
        The server's record of a round.

    Raises
    ------
    InputError
        If the round was private or masked, has groups, or a score of several columns, or nothing
        was sent.
    RecordError
        If its answers are not those that the server could have admitted.
    """
    plan = Plan.of(look.round)
    if plan.method.spends < inf:
        raise InputError(
            f"advice needs thresholds as they are: those of {look.round.method.name} carry noise, "
            "and every method that could be advised would send numbers that are not private. Stay "
            "with it; where one agent may be wrong, set combine=weighted-median-cp. Or look with "
            "fedwq-cp, if the agents agree to send their thresholds"
        )
    if any(isinstance(outcome, ToAllWithin) for outcome in look.outcomes):
        raise InputError(
            "advice needs each agent's own threshold: of masked sums the server has the totals "
            "alone, and what could be advised would show it more. Stay with this method; or look "
            "without masks, if the agents agree"
        )
    if look.round.by is not None:
        raise InputError("advice looks at all points together: give a round without groups")
    if plan.score.columns > 1:
        raise InputError("advice needs a score of one column")
    if not look.received:
        raise InputError(NEEDED)
    _check_received(look, plan)


def _check_received(look: Release, plan: Plan) -> None:
    """Refuse answers of strangers, and those that the server would not have admitted."""
    terms, received = look.round, look.received
    if set(received) != set(look.used):
        odd = ", ".join(sorted(set(received) ^ set(look.used)))
        raise RecordError(
            f"the record of round {terms.id!r} is damaged: it must hold the answers of the agents "
            f"that were used, and of no others; see {odd}"
        )
    for name, answers in received.items():
        answer = Answer(
            terms.id, "", 0, name, terms.method.name, terms.score.name, terms.alphas, answers
        )
        try:
            check_answers(answer, plan, (Begin(),) * len(plan.tasks))
        except MessageError as error:
            raise RecordError(f"the record of round {terms.id!r} is damaged: {error}") from None
    kinds = {type(answer) for answers in received.values() for answer in answers}
    if len(kinds) > 1:
        raise RecordError(
            f"the record of round {terms.id!r} is damaged: all agents must have answered alike"
        )


def counts_in(look: Release, alpha: float) -> dict[str, tuple[int, ...]]:
    """Return the points of each class, where agents sent them.

    Parameters
    ----------
    look : Release
        The server's record of a round.
    alpha : float
        Which level.

    Returns
    -------
    dict
        By agent; empty where they did not.
    """
    kinds = ClassSketches | LabelCounts
    sent = _sent(look, alpha)
    return {name: answer.counts for name, answer in sent.items() if isinstance(answer, kinds)}


def thresholds_in(look: Release, alpha: float) -> dict[str, LocalQuantile]:
    """Return the agents' own thresholds: as sent, or read from their sketches.

    Parameters
    ----------
    look : Release
        The server's record of a round.
    alpha : float
        Which level.

    Returns
    -------
    dict
        By agent; empty where they sent neither.
    """
    sent = _sent(look, alpha)
    found = {name: answer for name, answer in sent.items() if isinstance(answer, LocalQuantile)}
    if found or look.round.method.name != "fedls-cp":
        return found
    method = cast(FedLSCP, methods.get("fedls-cp", **look.round.method.settings))
    limits = method.points, method.min_gap, method.min_class
    return {
        name: _own_threshold(answer, alpha, limits)
        for name, answer in sent.items()
        if isinstance(answer, ClassSketches)
    }


def _sent(look: Release, alpha: float) -> Mapping[str, Summary | None]:
    """Return what each agent sent in answer to the first question, at one level."""
    (task,) = look.tasks_of(alpha)
    return {name: answers[task] for name, answers in look.received.items()}


def _own_threshold(sketch: ClassSketches, alpha: float, limits: tuple[int, ...]) -> LocalQuantile:
    """Return its threshold, or the smallest score sent that surely has enough scores up to it."""
    if isinstance(sketch, SketchesAndThreshold):
        return sketch.local
    n, cells = sum(sketch.counts), read_cells(sketch, alpha, limits) or ()
    places = np.unique(np.concatenate([cell.values for cell in cells] or [np.zeros(0)]))
    below = sum((cell.at_least(places) for cell in cells), np.zeros(len(places)))
    enough = places[below >= conformal_rank(n, alpha)]
    return LocalQuantile(float(enough[0]) if len(enough) else inf, n)
