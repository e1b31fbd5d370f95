"""Advice from what rounds have shown, and calibration that follows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fedwqcp import methods, scores
from fedwqcp.errors import InputError
from fedwqcp.federation.looks import NEEDED, check_look, counts_in, thresholds_in
from fedwqcp.methods import Method
from fedwqcp.methods.fedls_cp import FedLSCP
from fedwqcp.methods.fedwq_cp import FedWQCP
from fedwqcp.theory import Advice, advise
from fedwqcp.wire.release import Release

DEMAND = ("outlier", "label-shift", "spread", "models", "tiny", "single", "no-data", "alike")
"""The rules of `advise`; of several levels the one whose rule stands first decides for all."""


def advise_on(*looks: Release, alpha: float | None = None) -> Advice:
    """Choose a method from what one or more rounds with the same agents have shown.

    Parameters
    ----------
    *looks : Release
        The server's records of rounds: of a method whose agents send thresholds (``fedwq-cp``),
        class counts, or both (``fedls-cp``).
    alpha : float, optional
        Which level; by default every level of the first round is judged, and the most demanding
        verdict decides for all (`DEMAND`; among equals the smallest level).

    Returns
    -------
    Advice
        What to use and why; ``levels`` tells the verdict at each level where there are several.

    Raises
    ------
    InputError
        If no record holds local thresholds, records differ in score, rule or level, or a round was
        private, masked or by group, or has a score of several columns.
    RecordError
        If a record holds answers that the server cannot have admitted.
    """
    if len({(str(look.round.score), look.round.rule) for look in looks}) != 1:
        raise InputError(
            "advice needs records of at least one round, all with the same score and rule"
        )
    for look in looks:
        check_look(look)
    levels = looks[0].round.alphas if alpha is None else (alpha,)
    found = [_at_level(looks, level) for level in levels]
    first = min(found, key=lambda each: (DEMAND.index(each.code), each.alpha))
    return replace(first, levels={each.alpha: each.code for each in found})


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


def _at_level(looks: Sequence[Release], alpha: float) -> Advice:
    """Return the advice at one level."""
    own = [thresholds_in(look, alpha) for look in looks]
    thresholds = next((found for found in own if found), None)
    if thresholds is None:
        raise InputError(NEEDED)
    counts = [found for look in looks if (found := counts_in(look, alpha))]
    fitting = next((found for found in counts if set(found) == set(thresholds)), None)
    terms = looks[0].round
    score = scores.get(terms.score.name, **terms.score.settings)  # type: ignore[arg-type]  # checked there
    advice = advise(
        thresholds,
        alpha,
        counts=fitting,
        score=terms.score.name,
        bounds=score.bounds(terms.n_classes),
    )
    if not counts or fitting is not None:
        return advice
    note = "Class counts were not used: they are of other agents than the thresholds."
    return replace(advice, notes=(note,))
