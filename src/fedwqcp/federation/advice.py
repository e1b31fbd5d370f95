"""Advice from the record of a round, and what a round promises to a site that took no part."""

from __future__ import annotations

from math import inf

from fedwqcp.federation.plan import Plan
from fedwqcp.federation.release import Release
from fedwqcp.findings import Finding
from fedwqcp.quantile import least_sample
from fedwqcp.theory import Advice, Diagnosis, advise, diagnose_release
from fedwqcp.wire.messages import SharedThresholdWithin


def advise_on(record: Release) -> Advice:
    """Choose a method from the record of a round.

    Parameters
    ----------
    record : Release
        As the server keeps it.

    Returns
    -------
    Advice
        What to use and why.
    """
    plan, diagnoses = Plan.of(record.round), list[Diagnosis]()
    if plan.traits.controls_risk:
        return advise("risk")
    if plan.traits.private:
        return advise("private")
    if any(isinstance(outcome, SharedThresholdWithin) for outcome in record.outcomes):
        return advise("masked")
    for alpha in record.round.alphas:  # one level where averaging is not safe decides
        diagnoses += diagnose_release(record, alpha).values()
    if diagnoses and all(diagnosis.verdict == "safe" for diagnosis in diagnoses):
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
