"""When averaging thresholds is unsafe, told from the agents' summaries alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from fedwqcp.arrays import as_alpha
from fedwqcp.errors import InputError
from fedwqcp.theory._checks import CHECKS, PRIVATE_CHECKS
from fedwqcp.theory._evidence import Evidence, Finding
from fedwqcp.wire.payload import LocalQuantile
from fedwqcp.wire.release import Release

AVERAGING = ("fedwq-cp", "fedavgq-cp")
"""Methods whose threshold is a mean of the agents' own; private-fedwq-cp combines by any rule."""

_ORDER = ("unsafe", "caution", "ok")


@dataclass(frozen=True)
class Diagnosis:
    """What the summaries say about averaging their thresholds; it prints as a short report.

    Parameters
    ----------
    alpha : float
        Miscoverage level.
    agents : int
        Agents that answered.
    N : int
        Their calibration points.
    findings : tuple of Finding
        The gravest first.
    """

    alpha: float
    agents: int
    N: int
    findings: tuple[Finding, ...]

    @property
    def safe(self) -> bool:
        """Whether nothing was found unsafe; cautions may remain."""
        return all(finding.severity != "unsafe" for finding in self.findings)

    @property
    def advice(self) -> tuple[str, ...]:
        """What to use instead, each advice once, the most pressing first."""
        return tuple(dict.fromkeys(f.instead for f in self.findings if f.instead))

    def __str__(self) -> str:
        cautions = sum(finding.severity == "caution" for finding in self.findings)
        count = "1 caution" if cautions == 1 else f"{cautions} cautions"
        noted = f"nothing unsafe, {count}" if cautions else "nothing unsafe was found"
        verdict = noted if self.safe else "averaging is UNSAFE"
        agents = "1 agent" if self.agents == 1 else f"{self.agents} agents"
        lines = [f"{verdict}: {agents}, N={self.N}, alpha={self.alpha:g}"]
        lines += [f"  [{f.severity}] {f.code}: {f.says}" for f in self.findings]
        lines += ["what to do:" if self.safe else "what to use instead:"] if self.advice else []
        lines += [f"  - {advice}" for advice in self.advice]
        return "\n".join(lines)


def diagnose(
    thresholds: Mapping[str, LocalQuantile],
    alpha: float,
    bounds: tuple[float, float] | None = None,
) -> Diagnosis:
    """Tell from the summaries alone whether their thresholds may be averaged.

    Parameters
    ----------
    thresholds : mapping of str to LocalQuantile
        What each agent sent to FedWQ-CP: its threshold q_k and its size n_k.
    alpha : float
        Miscoverage level.
    bounds : tuple of float, optional
        Range of the score, as ``score.bounds(C)`` gives it.

    Returns
    -------
    Diagnosis
        Findings and advice.

    Raises
    ------
    InputError
        If alpha is not between 0 and 1, or the bounds are no range.

    Notes
    -----
    The rules, with r_k = r(n_k, alpha):

    - **no-data** (unsafe): no agent has a calibration point.
    - **overflow** (unsafe): an agent sent +inf. A finite threshold needs (1 - alpha) / alpha
      points, 19 at alpha = 0.05; one +inf makes the mean +inf.
    - **clipped**: an agent with fewer points than that sent a finite threshold, so it was clipped
      to its largest score and covers n_k / (n_k + 1) on average. Unsafe where the mean level
      sum_k (n_k / N) min(r_k, n_k) / (n_k + 1), which is the coverage of like agents with uniform
      scores, falls short of 1 - alpha by more than alpha / 4; otherwise a caution.
    - **tiny** (caution): the agent's own coverage, Beta(r_k, n_k + 1 - r_k), has a standard
      deviation above alpha / 2, about n_k < 4 (1 - alpha) / alpha: q_k is largely noise.
    - **spread**: max q_k - min q_k over finite thresholds, turned into a difference of coverage by
      a reference law: uniform over the bounds where they are finite (randomised APS of a
      calibrated model is uniform), else exponential with the size-weighted median threshold q as
      its quantile, whose coverage moves by alpha log(1 / alpha) per relative change of q. Three
      standard deviations of the difference of the two extreme agents' coverages are taken off as
      noise, so that like agents who are not tiny hardly ever alarm. What remains is a caution above
      alpha and unsafe above twice alpha (1 - alpha in place of alpha above one half): an agent at
      the edge may then miss two to three times what was promised.
      Thresholds at or below zero, as CQR has them, carry no scale: without bounds, a caution.
    - **saturated**: with finite bounds, an agent that is not tiny has q_k within a tenth of alpha
      of the upper bound, relative to the range: its scores pile up there, as deterministic APS
      does. A caution; unsafe where q_k is the bound itself and another agent's is not: the mean
      then lies below the bound, and fewer than r_k of that agent's scores lie at or below it.
    - **dominance** (caution): one of several agents holds more than half of N.
    - **empty** (caution): an agent has no points and takes no part in the mean.
    - **single** (ok): one agent alone; averaging changes nothing.

    A private threshold is drawn, not read off the scores: it is +inf already where n_k is too small
    for its epsilon, and **clipped**, **tiny** and **saturated** do not speak of it.

    Summaries do not show everything: ties below the threshold, the shape of the score laws, test
    data unlike the calibration data, a maximum that stands in for +inf scores, and whether n_k and
    q_k are honest. A safe diagnosis is no guarantee.

    Examples
    --------
    >>> found = diagnose({"strong": LocalQuantile(0.09, 900), "weak": LocalQuantile(0.9, 100)}, 0.1)
    >>> found.safe, [finding.code for finding in found.findings]
    (False, ['spread', 'dominance'])
    """
    if bounds is not None and not bounds[0] < bounds[1]:
        raise InputError(f"bounds must be a range, lowest before highest, got {bounds}")
    evidence = Evidence(dict(thresholds), as_alpha(alpha), bounds)
    checks = CHECKS if evidence.epsilon is None else PRIVATE_CHECKS
    found = [finding for check in checks if (finding := check(evidence)) is not None]
    found.sort(key=lambda finding: _ORDER.index(finding.severity))
    return Diagnosis(evidence.alpha, len(thresholds), evidence.N, tuple(found))


def averaged(release: Release, task: int) -> dict[str, LocalQuantile]:
    """Return the thresholds whose mean an outcome is.

    Parameters
    ----------
    release : Release
        As the server has it, with what was received.
    task : int
        Which outcome.

    Returns
    -------
    dict
        By agent, for `diagnose`; empty where the method does not average.
    """
    method = release.round.method
    if method.settings.get("combine", method.name) not in AVERAGING:
        return {}
    out = excluded(release, task)
    return {name: own for name, own in _local(release, task).items() if name not in out}


def excluded(release: Release, task: int) -> tuple[str, ...]:
    """Return the used agents that ``overflow="exclude"`` left out of an outcome.

    Parameters
    ----------
    release : Release
        As the server has it, with what was received.
    task : int
        Which outcome.

    Returns
    -------
    tuple of str
        Those that sent +inf, where another did not; else nobody could have been left out.
    """
    if release.round.method.settings.get("overflow") != "exclude":
        return ()
    local = _local(release, task)
    over = tuple(name for name, own in local.items() if own.threshold == inf)
    return over if len(over) < len(local) else ()


def _local(release: Release, task: int) -> dict[str, LocalQuantile]:
    """Return the thresholds that agents sent for an outcome."""
    return {
        name: answer
        for name, answers in release.received.items()
        if isinstance(answer := answers[task], LocalQuantile)
    }
