"""What an advice does to the size of sets, as far as thresholds and sizes tell.

A set grows with its threshold, so what is known of thresholds is said, and no size is guessed.
"""

from __future__ import annotations

from math import inf

import numpy as np

from fedwqcp.theory._evidence import Evidence

UNKNOWN = "how large sets become cannot be told, since no agent sent a finite threshold"
"""Where there is nothing to compare with."""


def of_median(evidence: Evidence, far: str) -> str:
    """Say where a weighted median lies: between the thresholds of the agents that agree."""
    before = inf if len(evidence.finite) < len(evidence.some) else _mean(evidence)
    others = [s.threshold for name, s in evidence.finite.items() if name != far]
    few = any(s.threshold == inf for name, s in evidence.some.items() if name != far)
    unless = ", unless agents with too few points hold half of the weight" if few else ""
    low, high = min(others), max(others)
    if low >= before:
        moves, sets = "rises", "sets grow with it"
    elif high <= before:
        moves, sets = "falls", "sets shrink with it"
    else:
        moves, sets = "moves", "sets grow or shrink with it"
    return (
        f"the common threshold {moves} from FedWQ-CP's {_shown(before)} to one from {_shown(low)} "
        f"to {_shown(high)}, and {sets}{unless}"
    )


def of_pooling(evidence: Evidence) -> str:
    """Say how far a pooled threshold can rise: no further than the largest local one.

    At the largest threshold each agent has at least ceil((n_k + 1)(1 - alpha)) scores up to it, all
    together no fewer than ceil((N + M)(1 - alpha)).
    """
    if not evidence.finite:
        return UNKNOWN
    before = _shown(_mean(evidence))
    if len(evidence.finite) < len(evidence.some):
        return (
            f"sets may grow: the common threshold is at least {before}, the mean of those that are "
            "finite, and the agents without one hide how far it rises"
        )
    largest = max(s.threshold for s in evidence.finite.values())
    return (
        f"larger sets: the common threshold rises from FedWQ-CP's {before} to {_shown(largest)} at "
        "most, the largest that was sent"
    )


def of_labels(evidence: Evidence) -> str:
    """Say whose threshold lies above the mean, which is the least that anyone gets."""
    if not evidence.finite:
        return UNKNOWN
    return (
        f"larger sets: no threshold is below FedWQ-CP's {_shown(_mean(evidence))}, while "
        f"{_above(evidence)}; class counts do not tell how far each rises"
    )


def of_own(evidence: Evidence) -> str:
    """Say whose threshold rises and whose falls: each gets the one it sent."""
    return (
        "sets grow at some agents and shrink at the others: beside FedWQ-CP's "
        f"{_shown(_mean(evidence))}, {_above(evidence)}"
    )


def of_other_score(evidence: Evidence) -> str:
    """Say that thresholds of LAC tell no size of APS."""
    return (
        "sets of APS are larger than FedWQ-CP's of LAC as a rule, and thresholds of LAC do not "
        f"tell by how much; where LAC stays, {of_pooling(evidence)}"
    )


def _mean(evidence: Evidence) -> float:
    """Return FedWQ-CP's threshold, of those that sent a finite one."""
    own = evidence.finite.values()
    return float(np.average([s.threshold for s in own], weights=[s.n for s in own]))


def _above(evidence: Evidence) -> str:
    """Say how many agents lie above the mean, and by how much."""
    own, before = [s.threshold for s in evidence.finite.values()], _mean(evidence)
    higher = [q - before for q in own if q > before]
    return (
        f"{len(higher)} of {len(own)} agents sent a higher one, by up to "
        f"{_shown(max(higher, default=0.0))}"
    )


def _shown(threshold: float) -> str:
    """Write a threshold."""
    return f"{threshold:.4g}" if threshold < inf else "+inf"
