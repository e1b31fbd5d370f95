"""The single checks of a diagnosis; `diagnose` states their rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, log, sqrt

from fedwqcp.quantile import conformal_rank, weighted_quantile
from fedwqcp.theory._evidence import Evidence, Finding, Severity, listed, named
from fedwqcp.wire.payload import LocalQuantile

NOISE = 3.0
"""Standard deviations of the difference of the two extreme agents that count as noise."""

OTHERWISE = (
    "split-cp, where an agent's test data are like its calibration data; fcp, for coverage over "
    "the mixture of all agents; or scores of one scale: randomised APS, normalised residuals"
)
PRIVATELY = (
    "split-cp, which sends nothing, where an agent's test data are like its calibration data; or "
    "scores of one scale: randomised APS, normalised residuals"
)
POOL = "fcp, which pools: small agents then add to one threshold instead of sending noise"


def no_data(evidence: Evidence) -> Finding | None:
    """Find that nobody has points."""
    if evidence.some:
        return None
    says = "no agent has a calibration point: the threshold is +inf and every set holds everything"
    return Finding("no-data", "unsafe", says, f"at least {evidence.needed} points at some agent")


def overflow(evidence: Evidence) -> Finding | None:
    """Find agents that sent +inf."""
    over = {name: s for name, s in evidence.some.items() if s.threshold == inf}
    if not over:
        return None
    if evidence.epsilon is not None:
        return _private_overflow(evidence, over, evidence.epsilon)
    few = {name: s for name, s in over.items() if s.n < evidence.needed}
    says = f"{listed(over)} sent +inf, which makes the mean +inf"
    if few:
        says += f"; alpha={evidence.alpha:g} needs {evidence.needed} points for a finite threshold"
    if len(few) < len(over):
        says += "; with enough points, +inf means that too many scores are themselves +inf"
    instead = 'more points there, or overflow="exclude", which lets the other agents decide'
    M = len(evidence.sent)
    if conformal_rank(evidence.N, evidence.alpha, extra=M) <= evidence.N:
        instead += "; or fcp, which needs no finite threshold of each agent"
    return Finding("overflow", "unsafe", says, instead, tuple(over))


def _private_overflow(
    evidence: Evidence, over: Mapping[str, LocalQuantile], epsilon: float
) -> Finding:
    """Say why private thresholds are +inf: it takes more points to hide one of them."""
    says = (
        f"{listed(over)} sent +inf, which makes the mean +inf: n is too small for "
        f"epsilon={epsilon:g} and alpha={evidence.alpha:g}, or too many scores lie beyond bounds "
        "that were set"
    )
    instead = "a larger epsilon, or more points"
    if evidence.finite:
        instead += '; or overflow="exclude", which lets the other agents decide'
    return Finding("overflow", "unsafe", says, instead, tuple(over))


def clipped(evidence: Evidence) -> Finding | None:
    """Find agents whose finite threshold can only be their largest score."""
    own = {name: s for name, s in evidence.finite.items() if s.n < evidence.needed}
    if not own:
        return None
    finite = evidence.finite.values()
    N = sum(s.n for s in finite)
    mean = sum(s.n * evidence.rank(s.n) / (s.n + 1) for s in finite) / N
    says = (
        f"{listed(own)} sent a finite threshold with fewer than the {evidence.needed} points that "
        f"alpha={evidence.alpha:g} needs: it was clipped to the largest score and is too low; "
        f"like agents would cover {mean:.3f} on average"
    )
    severity: Severity = "unsafe" if mean < evidence.level - evidence.alpha / 4 else "caution"
    instead = 'overflow="propagate" or "exclude" in place of "clip"; or fcp'
    return Finding("clipped", severity, says, instead, tuple(own))


def tiny(evidence: Evidence) -> Finding | None:
    """Find agents whose threshold is largely noise."""
    own = {
        name: s
        for name, s in evidence.finite.items()
        if s.n >= evidence.needed and evidence.is_tiny(s.n)
    }
    if not own:
        return None
    worst = max(evidence.noise(s.n) for s in own.values())
    says = (
        f"few points at {listed(own)}: the coverage of such a threshold varies by up to "
        f"{worst:.3f} (standard deviation), more than half of alpha={evidence.alpha:g}"
    )
    return Finding("tiny", "caution", says, POOL, tuple(own))


def spread(evidence: Evidence) -> Finding | None:
    """Find thresholds too far apart for one to serve all."""
    own = evidence.finite
    if len(own) < 2:
        return None
    low = min(own, key=lambda name: own[name].threshold)
    high = max(own, key=lambda name: own[name].threshold)
    lowest, highest = own[low].threshold, own[high].threshold
    apart = highest - lowest
    says = f"thresholds run from {lowest:.4g} ({low}) to {highest:.4g} ({high})"
    otherwise = OTHERWISE if evidence.epsilon is None else PRIVATELY
    density = _reference_density(evidence)
    if density is None:
        says += "; thresholds at or below zero carry no scale to judge this by: pass bounds"
        return Finding("spread", "caution" if apart else "ok", says, otherwise if apart else "")
    noise = NOISE * sqrt(evidence.noise(own[low].n) ** 2 + evidence.noise(own[high].n) ** 2)
    swing, room = apart * density, min(evidence.alpha, 1 - evidence.alpha)
    says += f", about {min(swing, 1):.3f} of coverage; up to {noise:.3f} would be noise"
    if swing - noise <= room:
        return Finding("spread", "ok", says)
    severity: Severity = "unsafe" if swing - noise > 2 * room else "caution"
    says += f"; one threshold for all over-covers at {low} and under-covers at {high}"
    return Finding("spread", severity, says, otherwise, (low, high))


def saturated(evidence: Evidence) -> Finding | None:
    """Find thresholds at the upper bound of the score, where many scores are tied."""
    if evidence.range is None:
        return None
    lowest, highest = evidence.range
    margin = evidence.alpha / 10 * (highest - lowest)
    near = {
        name: s
        for name, s in evidence.finite.items()
        if s.threshold >= highest - margin and not evidence.is_tiny(s.n)
    }
    below = any(s.threshold < highest for s in evidence.finite.values())
    if not near or not below:
        return None
    if tied := {name: s for name, s in near.items() if s.threshold >= highest}:
        says = (
            f"the threshold of {listed(tied)} is the upper bound {highest:g}, where many scores "
            "are tied; the mean lies below, where fewer scores lie than its rank asks for"
        )
        return Finding("saturated", "unsafe", says, OTHERWISE, tuple(tied))
    says = (
        f"the threshold of {listed(near)} is close to the upper bound {highest:g}, where scores "
        "pile up: a small step down may lose much coverage"
    )
    return Finding("saturated", "caution", says, OTHERWISE, tuple(near))


def dominance(evidence: Evidence) -> Finding | None:
    """Find one agent that decides."""
    largest = max(evidence.some, key=lambda name: evidence.some[name].n, default=None)
    if largest is None or len(evidence.some) < 2 or 2 * evidence.some[largest].n <= evidence.N:
        return None
    share = evidence.some[largest].n / evidence.N
    says = f"{largest} holds {share:.0%} of all points: its threshold outweighs all others together"
    instead = "split-cp for the smaller agents; fedavgq-cp counts all alike, also without guarantee"
    return Finding("dominance", "caution", says, instead, (largest,))


def empty(evidence: Evidence) -> Finding | None:
    """Find agents without points beside others that have some."""
    own = tuple(name for name, s in evidence.sent.items() if not s.n)
    if not own or not evidence.some:
        return None
    says = f"no calibration points at {named(own)}: the threshold was made without"
    return Finding("empty", "caution", says, "points there, before those sets are trusted", own)


def single(evidence: Evidence) -> Finding | None:
    """Find that there is nothing to average."""
    if len(evidence.some) != 1:
        return None
    says = "one agent alone: the mean is its own split-conformal threshold"
    return Finding("single", "ok", says, agents=tuple(evidence.some))


CHECKS: tuple[Callable[[Evidence], Finding | None], ...] = (
    no_data,
    overflow,
    clipped,
    spread,
    saturated,
    tiny,
    dominance,
    empty,
    single,
)
PRIVATE_CHECKS = tuple(check for check in CHECKS if check not in (clipped, saturated, tiny))
"""Those that hold of a drawn threshold; the others take it for an order statistic of the scores."""


def _reference_density(evidence: Evidence) -> float | None:
    """Return the change of coverage per unit of score under the reference law, if it has one."""
    if evidence.range is not None:
        return 1 / (evidence.range[1] - evidence.range[0])
    thresholds = [s.threshold for s in evidence.finite.values()]
    if min(thresholds) <= 0:
        return None
    median = weighted_quantile(thresholds, [s.n for s in evidence.finite.values()], 0.5)
    return evidence.alpha * log(1 / evidence.alpha) / median
