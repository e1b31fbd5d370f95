"""A round as text: what is guaranteed, whether averaging was safe, what to use."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, inf
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
AVERAGE = (
    "this is an average over calibrations, and one with so few cases may cover much more or less"
)
_HELD = {
    "": "be covered",
    "set": "have their label in the set",
    "interval": "have their value in the interval",
}


def guarantee(
    kind: str,
    strength: str,
    levels: Sequence[float] = (),
    *,
    agent: str | None = None,
    needed: int | None = None,
    by: str | None = None,
    of: str = "",
    few: bool = False,
) -> str:
    """Say what is guaranteed, in one plain line.

    ``levels`` are coverages, or of a risk what may be missed; without any it is said of 1 - alpha.
    ``needed`` is how many points prove them, where an agent may have fewer; ``few`` is whether it
    has so few that one calibration may be far from the average.
    """
    if kind == "none":
        return "none"
    if kind == "new-agent-confident":
        return "a new agent like these would, with the stated probability, need no larger threshold"
    where = _WHERE[kind].format(agent=agent or "each agent")
    points = "" if needed is None else f"{needed} or more calibration points"
    if by:
        where += f", within each {by}" + (f" of which it has {points}" if points else "")
    elif points:
        where += f" with {points}"
    like = " like those it calibrated on" if "{agent}" in _WHERE[kind] else ""
    fewer = kind.endswith("-floor") and not levels
    average = f"; {AVERAGE}" if few else ""
    if kind.startswith("risk"):
        least = "about" if strength == "approximate" else "at most"
        most = percent(*levels, up=True) or "alpha"
        most += " ((n alpha + 1)/(n + 1) with few points)" if fewer else ""
        parts = "true pixels of future images" if of == "mask" else "labels of future cases"
        return f"{where}, on average {least} {most} of the {parts}{like} will be missed{average}"
    share = percent(*levels) or "1 - alpha"
    share += " (n/(n + 1) with few points)" if fewer else ""
    return f"{where}, {_LEAST[strength]} {share} of future cases{like} will {_HELD[of]}{average}"


def expired(promise: str, until: str) -> str:
    """Say that a promise is of a predictor that is no longer valid."""
    return f"none now, calibrate again; until {until} it was: {promise}"


def percent(*levels: float, up: bool = False) -> str:
    """Write levels in per cent: to three places if they have no more, else one, rounded safely."""
    told = []
    for share in (100 * level for level in levels):
        exact = abs(share - round(share, 3)) < 1e-9
        safe = round(share, 3) if exact else (ceil if up else floor)(10 * share) / 10
        told.append(f"{safe:.8g}")
    return " or ".join(told) + " %" * bool(told)


def rounded_down(least: float, risk: bool = False) -> str:
    """Write a proved coverage, rounded down; or the risk that is left."""
    down = floor(least * 1000 + 1e-9) / 1000
    return f"{1 - down:.3g}" if risk else f"{down:g}"


def within(part: str, n: int, proved: float | None) -> str:
    """Say how many points an agent has of a group, and what they prove there."""
    more = "" if proved is None else f" prove at least {percent(proved)}"
    return f"group {part}: {n:,} calibration points{more}"


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


def averaging_in(by: str | None, part: str, diagnosis: Any) -> str:
    """Say whether averaging was safe, in a class or group where a round has some."""
    return f"{by} {part}: {diagnosis}" if by else str(diagnosis)


def accuracy(sums: int, margin: float) -> str:
    """Say what masked sums add to a method's assumption."""
    exact = f"at most {margin:.3g} above it" if margin else "equal to it"
    source = "one masked sum" if sums == 1 else f"{sums} masked sums"
    return f"found from {source}: never below the threshold without masks, and {exact}"


def progress(rows: int, of: int | None) -> str:
    """Say how many rows of a large source are scored."""
    return f"{rows:,}{'' if of is None else f' of {of:,}'} rows scored"


def made(release: Any, agent: str) -> tuple[str, str]:
    """Say in which round an agent's sets were made, and how much it sent for them."""
    round, record = release.round, release.record(agent)
    day = release.provenance.get("created", "").partition("T")[0]
    sent = f"The agent sent {record.bytes_up:,} bytes and received {record.bytes_down:,}."
    return (
        f"Round {round.id}{' of ' if day else ''}{day}: {round.method.name}, score "
        f"{round.score.name}, {len(round.agents)} agents.",
        sent if release.rounds else "Nothing was sent: every agent used its own threshold.",
    )


_ADVICE = {
    "own": "Each agent's own calibration points prove its coverage, whatever the others send.",
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
