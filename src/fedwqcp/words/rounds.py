"""A round as text: what is guaranteed, whether averaging was safe, what to use, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from fedwqcp._validation import named

_WHERE = {
    "agent-floor": "at {agent}",
    "marginal-agent": "at {agent}",
    "marginal-mixture": "over all agents together",
    "marginal-iid": "if the data of all agents are alike",
    "training-conditional": "if the data of all agents are alike, with the stated probability",
    "target-shift": "in the target population",
    "multi-distribution": "at every agent and in every mixture of them",
    "new-agent-marginal": "at a new agent like these",
    "risk-floor": "at {agent}",
    "risk-agent": "at {agent}",
    "risk-mixture": "over all agents together",
    "risk-iid": "if the data of all agents are alike",
}
_LEAST = {
    "approximate": "about",
    "asymptotic": "with many points at least",
    "finite-sample": "at least",
}


def guarantee(
    kind: str,
    strength: str,
    alphas: Sequence[float],
    *,
    agent: str | None = None,
    proved: float | None = None,
    of: str = "set",
) -> str:
    """Say what is guaranteed, in one plain line; ``proved`` by the points of this agent."""
    if kind == "none":
        return "none"
    if kind == "new-agent-confident":
        return "a new agent like these would, with the stated probability, need no larger threshold"
    where = _WHERE[kind].format(agent=agent or "each agent")
    like = " like those it calibrated on" if "{agent}" in _WHERE[kind] else ""
    held = "value in the interval" if of == "interval" else "label in the set"
    shares = alphas if proved is None else [1 - proved]
    if kind.startswith("risk"):
        most = " or ".join(f"{100 * alpha:.4g} %" for alpha in shares)
        least = "about" if strength == "approximate" else "at most"
        few = " ((n alpha + 1)/(n + 1) with few points)" if kind == "risk-floor" else ""
        parts = "true pixels of future images" if of == "mask" else "labels of future cases"
        few = few if proved is None else ""
        return f"{where}, on average {least} {most}{few} of the {parts}{like} will be missed"
    share = " or ".join(f"{100 * (1 - alpha):.3g} %" for alpha in shares)
    floored = kind == "agent-floor" and proved is None
    floor = " (n/(n + 1) where n is too small for that)" if floored else ""
    return (
        f"{where}, {_LEAST[strength]} {share}{floor} of future cases{like} will have their {held}"
    )


def averaging(diagnosis: Any) -> str:
    """Say whether averaging was safe, and which numbers say so."""
    verdict = f"averaging at alpha={diagnosis.alpha:g}: {diagnosis.verdict}"
    if diagnosis.short:
        low = min(diagnosis.coverage[name][1] for name in diagnosis.short)
        return f"{verdict}; {named(diagnosis.short)} covered at most {low:.3f}"
    if diagnosis.threshold == inf:
        by = f", sent by {named(diagnosis.infinite)}" if diagnosis.infinite else ""
        return f"{verdict}; the threshold is +inf{by}"
    least = min((low for low, _ in diagnosis.coverage.values()), default=0.0)
    return f"{verdict}; every agent covered at least {least:.3f} (95 % confidence)"


_ADVICE = {
    "own": "Whatever the others send, n calibration points of an agent prove coverage of at least "
    "min(1 - alpha, n/(n + 1)) there.",
    "mixture": "It covers patients of all agents together, in proportion to their points.",
    "new-site": "It covers a new agent that is exchangeable with these.",
    "few-sites": "It releases the agents' largest threshold; these are too few to promise coverage "
    "at a new site.",
    "private": "Every other method would send numbers that are not private.",
    "masked": "Masks let the server see sums alone, and nothing is proved of a mean.",
    "safe": "Every agent's miscoverage is shown to be at most 1.5 alpha.",
    "risk": "It bounds the expected loss over the mixture of agents.",
}


def advice(method: str, settings: str, code: str) -> str:
    """Say which method to use, and why."""
    return f"use {method}{f' with {settings}' if settings else ''}. {_ADVICE[code]}"


_REFUSED = {
    "round": "the answer is to another round",
    **dict.fromkeys(
        ("terms", "method", "score", "alpha"), "the site answered other terms than these"
    ),
    "step": "the answer is to another question of this round, or came after it was closed",
    "agent": "the sender is not in the roster, or several files hold different answers of it",
    "version": "the site runs another version of fedwqcp",
    "signature": "the answer is not signed with the key that the roster names",
    "message": "the file is no answer, or was changed on its way",
    "file": "the file cannot be read",
    "size": "the file is larger than an answer can be",
    "n": "the number of points is beyond what the round allows (max_n in the roster)",
    "threshold": "the threshold is outside the range of the score",
    "internal": "a fault of fedwqcp: please report it",
}


def refused(field: str) -> str:
    """Say what an answer was refused for, by the part of it that is wrong."""
    other = "what was sent is not what an answer to this round may hold"
    return f"refused for {field!r}: {_REFUSED.get(field, other)}"
