"""Which groups of a round have too few points, and what their summaries say."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from fedwqcp.errors import InputError
from fedwqcp.theory._evidence import named
from fedwqcp.theory.diagnosis import Diagnosis, averaged, diagnose
from fedwqcp.wire.release import Release


@dataclass(frozen=True)
class GroupDiagnosis:
    """What a round with groups came to at one level; it prints as a short report.

    Parameters
    ----------
    alpha : float
        Miscoverage level.
    by : str
        ``"label"`` or ``"group"``.
    infinite : dict
        By group, the agents whose threshold is +inf: there no set of theirs excludes anything.
    absent : dict
        By group, the agents that have no calibration point of it.
    averaged : dict
        By group, whether its thresholds may be averaged, for methods that average them.
    private : bool
        Whether the method is private, so that its thresholds need more points.
    """

    alpha: float
    by: str
    infinite: dict[str, tuple[str, ...]]
    absent: dict[str, tuple[str, ...]]
    averaged: dict[str, Diagnosis]
    private: bool = False

    def __str__(self) -> str:
        lines = [f"by {self.by}, alpha={self.alpha:g}:"]
        if self.infinite:
            what = "such a label is in every set" if self.by == "label" else "its sets hold all"
            lines.append(f"  [unsafe] infinite: the threshold is +inf in a group, and {what}:")
            lines += [f"    {group}: at {named(at)}" for group, at in self.infinite.items()]
        lines += [
            f"  [caution] absent: no point of {group} at {named(at)}"
            for group, at in self.absent.items()
            if at
        ]
        for group, found in self.averaged.items():
            lines += [
                f"  [{finding.severity}] {group}: {finding.code}: {finding.says}"
                for finding in found.findings
                if finding.severity != "ok" and finding.code != "no-data"
            ]
        if len(lines) == 1:
            lines.append("  every group has a finite threshold, and nothing unsafe was found")
        if self.infinite:
            pooled = "fcp, which pools the agents' points of a group"
            last = "a larger epsilon" if self.private else pooled
            lines.append(f"what to do: more points of these groups, coarser groups, or {last}")
        return "\n".join(lines)


def diagnose_groups(
    release: Release, alpha: float | None = None, bounds: tuple[float, float] | None = None
) -> GroupDiagnosis:
    """Tell which groups have no finite threshold, and what their summaries say.

    Parameters
    ----------
    release : Release
        What a round with groups ended with.
    alpha : float, optional
        Which level, where the round has several.
    bounds : tuple of float, optional
        Range of the score, as ``score.bounds(C)`` gives it.

    Returns
    -------
    GroupDiagnosis
        Thresholds that agents find for themselves are known only in their own process.

    Raises
    ------
    InputError
        If the round has no groups, or no such level.

    Examples
    --------
    >>> import fedwqcp as fw
    >>> cal = fw.Calibration([0.1, 0.2, 0.3, 0.4, 0.5], groups=["f", "f", "f", "f", "m"])
    >>> found = diagnose_groups(fw.calibrate({"a": cal}, alpha=0.3, by="group"))
    >>> found.infinite
    {'m': ('a',)}
    """
    round = release.round
    if round.by is None:
        raise InputError("the round has no groups: use diagnose on its summaries")
    level = round.alphas[0] if alpha is None else alpha
    infinite, found = {}, {}
    for place, group in enumerate(round.group_names):
        task = release.tasks_of(alpha, place)[0]
        if at := tuple(name for name in release.used if _is_infinite(release, name, alpha, group)):
            infinite[group] = at
        if local := averaged(release, task):
            columns = len(release.tasks_of(alpha, place))
            found[group] = diagnose(local, level / columns, bounds)
    private = "epsilon" in round.method.settings
    return GroupDiagnosis(level, round.by, infinite, release.absent, found, private)


def _is_infinite(release: Release, agent: str, alpha: float | None, group: str) -> bool:
    """Tell whether a known threshold is +inf."""
    try:
        return bool((np.asarray(release.threshold(agent, alpha, group)) == inf).any())
    except InputError:  # the agent's own data decide, and they are elsewhere
        return False
