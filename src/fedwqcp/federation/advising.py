"""Advice from what rounds have shown, and calibration that follows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from fedwqcp import methods, scores
from fedwqcp.errors import InputError
from fedwqcp.methods import Method
from fedwqcp.methods._class_cdf import read_cells
from fedwqcp.methods._class_sketch import ClassSketches, SketchesAndThreshold
from fedwqcp.methods._label_counts import LabelCounts
from fedwqcp.methods.fedls_cp import FedLSCP
from fedwqcp.methods.fedwq_cp import FedWQCP
from fedwqcp.quantile import conformal_rank
from fedwqcp.theory import Advice, advise
from fedwqcp.wire.payload import LocalQuantile, Summary
from fedwqcp.wire.release import Release


def advise_on(*looks: Release, alpha: float | None = None) -> Advice:
    """Choose a method from what one or more rounds with the same agents have shown.

    Parameters
    ----------
    *looks : Release
        Records of rounds: of a method whose agents send thresholds (``fedwq-cp``), class counts, or
        both (``fedls-cp``).
    alpha : float, optional
        Which level, where there are several; the smallest of the first round by default.

    Returns
    -------
    Advice
        What to use and why.

    Raises
    ------
    InputError
        If no record holds local thresholds, records differ in score or level, or a round has groups
        or a score of several columns.
    """
    thresholds: dict[str, LocalQuantile] = {}
    counts: dict[str, tuple[int, ...]] = {}
    if len({str(look.round.score) for look in looks}) != 1:
        raise InputError("advice needs records of at least one round, all with the same score")
    level = min(looks[0].round.alphas) if alpha is None else alpha
    for look in looks:
        sent = _sent(look, level)
        counts = counts or _counts(sent)
        thresholds = thresholds or _thresholds(look, sent, level)
    if not thresholds:
        raise InputError(
            "advice needs the record of a round whose agents sent thresholds or class sketches, "
            "such as fedwq-cp or fedls-cp: give the server's record, not the release"
        )
    round = looks[0].round
    score = scores.get(round.score.name, **round.score.settings)  # type: ignore[arg-type]  # checked there
    return advise(
        thresholds,
        level,
        counts=counts if set(counts) == set(thresholds) else None,
        score=round.score.name,
        bounds=score.bounds(round.n_classes),
    )


def calibrate_as_advised(attempt: Callable[[Method[Any]], Release], *, labelled: bool) -> Release:
    """Look first, then calibrate with the method that is advised.

    Parameters
    ----------
    attempt : callable
        Runs a round with a method.
    labelled : bool
        Whether agents know the labels of their points, so that class counts can be asked for.

    Returns
    -------
    Release
        Of the method chosen, with the advice; rounds and bytes count the first looks too.
    """
    looks: dict[Method[Any], Release] = {FedWQCP(): attempt(FedWQCP())}
    advice = advise_on(*looks.values())
    if labelled and advice.code == "spread":
        second = FedLSCP(floor=True)  # what is then advised, if label laws differ
        looks[second] = attempt(second)
        advice = advise_on(*looks.values())
    chosen = methods.get(advice.method, **advice.settings)
    if chosen not in looks:
        looks[chosen] = attempt(chosen)
    last = looks[chosen]
    given = last.round.score.name
    note = "" if advice.score == given else f" These scores are still those of {given}."
    return replace(
        last,
        advice=f"{advice}{note}",
        rounds=sum(look.rounds for look in looks.values()),
        agents=tuple(
            replace(
                agent,
                bytes_up=sum(look.bytes_up(agent.name) for look in looks.values()),
                bytes_down=sum(look.bytes_down(agent.name) for look in looks.values()),
            )
            for agent in last.agents
        ),
    )


def _sent(look: Release, alpha: float) -> dict[str, Summary]:
    """Return what each agent sent in answer to the first question, at one level."""
    if look.round.by is not None:
        raise InputError("advice looks at all points together: give a round without groups")
    tasks = look.tasks_of(alpha)
    if len(tasks) > 1:
        raise InputError("advice needs a score of one column")
    answers = {name: sent[tasks[0]] for name, sent in look.received.items()}
    return {name: answer for name, answer in answers.items() if answer is not None}


def _counts(sent: Mapping[str, Summary]) -> dict[str, tuple[int, ...]]:
    """Return the points of each class, where agents sent them."""
    kinds = ClassSketches | LabelCounts
    return {name: answer.counts for name, answer in sent.items() if isinstance(answer, kinds)}


def _thresholds(
    look: Release, sent: Mapping[str, Summary], alpha: float
) -> dict[str, LocalQuantile]:
    """Return the agents' own thresholds: as sent, or read from their sketches."""
    found = {name: answer for name, answer in sent.items() if isinstance(answer, LocalQuantile)}
    if found or look.round.method.name != "fedls-cp":
        return found
    method = methods.get("fedls-cp", **look.round.method.settings)
    limits = (method.points, method.min_gap) if isinstance(method, FedLSCP) else (0, 0)
    return {
        name: _own_threshold(answer, alpha, limits)
        for name, answer in sent.items()
        if isinstance(answer, ClassSketches)
    }


def _own_threshold(sketch: ClassSketches, alpha: float, limits: tuple[int, int]) -> LocalQuantile:
    """Return its threshold, or the smallest score sent that surely has enough scores up to it."""
    if isinstance(sketch, SketchesAndThreshold):
        return sketch.local
    n, cells = sum(sketch.counts), read_cells(sketch, alpha, limits) or ()
    places = np.unique(np.concatenate([cell.values for cell in cells] or [np.zeros(0)]))
    below = sum((cell.at_least(places) for cell in cells), np.zeros(len(places)))
    enough = places[below >= conformal_rank(n, alpha)]
    return LocalQuantile(float(enough[0]) if len(enough) else inf, n)
