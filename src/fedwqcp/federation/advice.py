"""Advice from the record of a round, and what a round promises to a site that took no part."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from fedwqcp._validation import named
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.release import Release
from fedwqcp.quantile import least_sample
from fedwqcp.theory import Advice, Diagnosis, advise, diagnose_release
from fedwqcp.wire.messages import SharedThresholdWithin


def advise_on(record: Release, *, alpha: float | None = None, new_site: bool = False) -> Advice:
    """Choose a method from the record of a round.

    Parameters
    ----------
    record : Release
        As the server keeps it.
    alpha : float, optional
        Which level; by default all are judged, and one where averaging is not safe decides.
    new_site : bool, optional
        Advise for a site that joins later, without labels; of the roster every agent counts.

    Returns
    -------
    Advice
        What to use and why.
    """
    levels, plan = record.round.alphas if alpha is None else (alpha,), Plan.of(record.round)
    if new_site:
        return advise("new-site", agents=len(record.round.agents), alpha=min(levels))
    if plan.traits.controls_risk:
        return advise("risk")
    if plan.traits.private:
        return advise("private")
    if any(isinstance(outcome, SharedThresholdWithin) for outcome in record.outcomes):
        return advise("masked")
    found = [each for level in levels for each in judged(record, level).values()]
    if found and all(each.verdict == "safe" for each in found):
        return advise("safe")
    return advise("mixture" if record.round.target == "mixture" else "own")


def judged(release: Release, alpha: float) -> dict[str, Diagnosis]:
    """Judge averaging at one level, in each group, within the bounds of the score."""
    return diagnose_release(release, alpha, release.score.bounds(release.round.n_classes))


_NEW_SITE = {
    "new-agent-marginal": "A point of a new site is covered with probability at least {level:g}",
    "new-agent-confident": (
        "With probability at least {confidence:g} over sites, a new site's own threshold would "
        "have been no larger; of its coverage nothing is promised"
    ),
}


def promised_to_new_site(release: Release, alpha: float) -> tuple[str, ...]:
    """Say what a round promises, at one level, to a site that took no part and has no labels.

    The first sentence says what is promised.
    """
    groups = range(len(release.round.group_names) or 1)
    tasks = [task for group in groups for task in release.tasks_of(alpha, group)]
    shared = [release.outcomes[task].threshold(None) for task in tasks]
    method = Plan.of(release.round).method
    said = _NEW_SITE.get(method.guarantee.kind)
    if said is None:
        lead = (
            "A site that took no part has no threshold: each agent has its own."
            if None in shared
            else "Nothing is promised to a site that took no part: the threshold is for those that "
            "did."
        )
        return lead, (
            "new-agent-cp promises coverage at a new site that is exchangeable with the others. "
            f"At alpha={alpha:g} it needs at least {least_sample(alpha)} agents; this round has "
            f"{len(release.round.agents)}."
        )
    more = "Here the threshold is +inf, and its sets exclude nothing: more agents are needed."
    said = said.format(level=1 - alpha, confidence=1 - getattr(method, "delta", 0))
    return (f"{said}, if {release.assumption}.", *((more,) if inf in shared else ()))


def without_points(by: str, parts: Sequence[str]) -> str:
    """Say of which labels or groups nobody has a point, and what helps."""
    what = "class" if by == "label" else by
    out = f"the {what}" if len(parts) == 1 else f"these {what}{'es' if by == 'label' else 's'}"
    return (
        f"No agent has a point of {by} {named(parts)}: collect some, or take {out} out of the "
        "round."
    )
