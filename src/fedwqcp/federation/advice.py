"""Advice from the record of a round, and what a round promises to a site that took no part."""

from __future__ import annotations

from math import inf

from fedwqcp.federation.plan import Plan
from fedwqcp.federation.release import Release
from fedwqcp.findings import Finding
from fedwqcp.quantile import least_sample
from fedwqcp.theory import Advice, advise, diagnose_release
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
    diagnoses = [each for level in levels for each in diagnose_release(record, level).values()]
    if diagnoses and all(each.verdict == "safe" for each in diagnoses):
        return advise("safe")
    return advise("mixture" if record.round.target == "mixture" else "own")


def promised_to_new_site(release: Release, alpha: float) -> Finding:
    """Find what a round promises, at one level, to a site that took no part and has no labels."""
    round, method = release.round, Plan.of(release.round).method
    groups = range(len(round.group_names) or 1)
    tasks = [task for group in groups for task in release.tasks_of(alpha, group)]
    shared = [release.outcomes[task].threshold(None) for task in tasks]
    return Finding.of(
        "new-site",
        kind=method.guarantee.kind,
        alpha=alpha,
        confidence=1 - (getattr(method, "delta", None) or 0),
        shared=None not in shared,
        infinite=inf in shared,
        assumption=release.assumption,
        needed=least_sample(alpha),
        roster=len(round.agents),
    )
