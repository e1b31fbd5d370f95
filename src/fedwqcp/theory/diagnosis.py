"""Whether averaging thresholds is safe for every agent: one assessment of what the agents sent.

`diagnose`, `advise`, ``method="auto"``, ``server close`` and the report all rest on `judge`. What
to do about a finding is said by `advise` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite, sqrt
from typing import Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from fedwqcp import methods
from fedwqcp._validation import Bools, as_alpha, named
from fedwqcp.errors import InputError
from fedwqcp.methods.fedwq_cp import FedWQCP
from fedwqcp.metrics import lower_end
from fedwqcp.quantile import (
    SAFE_ERROR,
    UNSAFE_ERROR,
    Overflow,
    conformal_rank,
    insufficient_count,
    least_coverage,
    least_sample,
    sufficient_count,
)
from fedwqcp.wire.messages import LocalQuantile, QuantileAndTail
from fedwqcp.wire.release import ReleaseRecord

Verdict: TypeAlias = Literal["safe", "unsafe", "cannot tell"]
Severity: TypeAlias = Literal["ok", "caution", "unsafe"]

_ORDER = ("unsafe", "caution", "ok")
VERDICTS: tuple[Verdict, ...] = ("unsafe", "cannot tell", "safe")
"""Severities and verdicts, the gravest first."""


def judge(
    least: npt.ArrayLike, most: npt.ArrayLike, n: npt.ArrayLike, alpha: float
) -> npt.NDArray[np.str_]:
    """Return the verdict on a shared threshold t from how many scores of each agent lie below it.

    With F_k(t) agent k's coverage and b = 1 - alpha - alpha/2 (for an alpha above one half
    1 - alpha - (1 - alpha)/2): **safe** if for every agent the
    one-sided 95 % Clopper-Pearson bound from below on F_k(t), taken at the least count, is at least
    b; **unsafe** if for some of M agents the bound from above at level 1 - 0.02/M, taken at the
    most, is below b; otherwise **cannot tell**.

    Parameters
    ----------
    least, most : array_like of int, shape (..., M)
        Bounds on the number of agent k's scores at or below t.
    n : array_like of int, shape (M,)
        Sample sizes, at least 1.
    alpha : float
        Miscoverage level.

    Returns
    -------
    ndarray of str, shape (...)
        ``"safe"``, ``"unsafe"`` or ``"cannot tell"``.

    Notes
    -----
    Each of the M tests of "too little" has error 0.02/M, so all agents sufficiently covered are
    called unsafe in at most 2 % of rounds. Safe needs all M tests to reject, so one agent that is
    covered too little is called safe in at most 5 % of rounds (an intersection-union test needs no
    correction). Both take t as fixed; it is a mean of the same scores, which pulls t and an
    agent's counts in one direction. ``benchmarks/assessment.py`` measures the errors of both.

    Examples
    --------
    >>> str(judge([952, 951], [952, 951], [1000, 1000], alpha=0.05))
    'safe'
    >>> judge([[952, 850], [952, 0]], [[952, 850], [952, 951]], [1000, 1000], 0.05).tolist()
    ['unsafe', 'cannot tell']
    """
    enough, too_few = _tests(least, most, n, alpha)
    safe, unsafe = enough.all(axis=-1), too_few.any(axis=-1)
    return np.where(unsafe, "unsafe", np.where(safe, "safe", "cannot tell"))


def _tests(
    least: npt.ArrayLike, most: npt.ArrayLike, n: npt.ArrayLike, alpha: float
) -> tuple[Bools, Bools]:
    """Return which agents are shown to be covered enough, and which too little."""
    sizes = np.asarray(n).tolist()
    bar, error = least_coverage(alpha), UNSAFE_ERROR / max(1, len(sizes))
    enough = {size: sufficient_count(size, bar) for size in sizes}
    too_few = {size: insufficient_count(size, bar, error) for size in sizes}
    return (
        np.asarray(least) >= [enough[size] for size in sizes],
        np.asarray(most) <= [too_few[size] for size in sizes],
    )


@dataclass(frozen=True)
class Finding:
    """One thing that the summaries show.

    Parameters
    ----------
    code : str
        Name of the rule, such as ``"overflow"``.
    severity : {"ok", "caution", "unsafe"}
        How grave it is.
    says : str
        What was found, in plain words.
    agents : tuple of str, optional
        The agents it concerns.
    """

    code: str
    severity: Severity
    says: str
    agents: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """Whether a shared threshold is safe for every agent; it prints as a short report.

    Parameters
    ----------
    verdict : {"safe", "unsafe", "cannot tell"}
        See `diagnose`.
    alpha : float
        Miscoverage level.
    agents : int
        Agents that answered.
    N : int
        Their calibration points.
    threshold : float
        The shared threshold that was judged.
    coverage : dict
        For each agent with points, the bounds from below and above on its coverage at the
        threshold.
    findings : tuple of Finding
        The gravest first.
    """

    verdict: Verdict
    alpha: float
    agents: int
    N: int
    threshold: float
    coverage: dict[str, tuple[float, float]]
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        verdict = {
            "safe": "averaging is safe",
            "unsafe": "averaging is UNSAFE",
            "cannot tell": "these numbers do not show whether averaging is safe",
        }[self.verdict]
        agents = "1 agent" if self.agents == 1 else f"{self.agents} agents"
        lines = [f"{verdict}: {agents}, N={self.N}, alpha={self.alpha:g}"]
        lines += [f"  [{f.severity}] {f.code}: {f.says}" for f in self.findings]
        return "\n".join(lines)


def diagnose(
    thresholds: Mapping[str, LocalQuantile],
    alpha: float,
    bounds: tuple[float, float] | None = None,
    *,
    threshold: float | None = None,
    weights: Literal["by size", "equally"] = "by size",
    overflow: Overflow = "propagate",
    by: str | None = None,
) -> Diagnosis:
    """Assess from the summaries alone whether their thresholds may be averaged.

    Parameters
    ----------
    thresholds : mapping of str to LocalQuantile
        What each agent sent to FedWQ-CP: its threshold q_k and its size n_k, and with ``tail`` more
        order statistics of its scores.
    alpha : float
        Miscoverage level.
    bounds : tuple of float, optional
        Range of the score, as ``score.bounds(C)`` gives it.
    threshold : float, optional
        The shared threshold; by default FedWQ-CP's.
    weights : {"by size", "equally"}, optional
        How the agents are weighed in the shared threshold.
    overflow : {"propagate", "clip", "exclude"}, optional
        The rule for agents with too few points.
    by : {"label", "group"}, optional
        What the thresholds are of, where they are of one label or group alone.

    Returns
    -------
    Diagnosis
        Verdict, bounds on each agent's coverage, and findings; `advise` says what to do.

    Raises
    ------
    InputError
        If alpha is not between 0 and 1, or the bounds are no range.

    Notes
    -----
    Averaging costs agent k what its coverage F_k(t) at the shared threshold t falls short of
    1 - alpha. The verdict is **safe** if the cost is shown to be at most alpha/2 at every agent,
    **unsafe** if it is shown to be more at some agent, and otherwise **cannot tell**; `judge`
    states the two tests and their errors.

    Of agent k the order statistic v of rank r is known for r = ceil((n_k + 1)(1 - alpha)), where it
    is q_k, and for the ranks of its tail. If v <= t, at least r of its scores lie at or below t; if
    v > t, at most r - 1 do. These counts bound F_k(t), and 1 minus the bound from below is shown as
    what the agent misses. Where q_k > t and nothing else was sent, the least count is 0 and there
    is no such bound: a threshold and a size per agent say nothing of its scores below q_k. So from
    these alone the tests cannot tell, unless all q_k are equal: then r_k scores of each agent lie
    at or below t, which shows enough where agents have enough points. Equal q_k alone show
    little: tied scores make them equal also where an agent's q_k is too low by chance. One agent
    alone keeps its own threshold, and a threshold at the top of the score's range covers
    everything; both are safe.

    The findings, with r_k = r(n_k, alpha); one that is unsafe decides the verdict:

    - **no-data** (unsafe): no agent has a calibration point.
    - **overflow** (unsafe): an agent sent +inf. A finite threshold needs (1 - alpha) / alpha
      points, 19 at alpha = 0.05; one +inf makes the mean +inf, and every set holds everything (by
      label: that label).
      Where the shared threshold is finite all the same, the agent was left out of it:
      **excluded** (caution).
    - **clipped**: an agent with fewer points than that sent a finite threshold, so it was clipped
      to its largest score and covers n_k / (n_k + 1) on average. Unsafe where the mean level
      sum_k (n_k / N) min(r_k, n_k) / (n_k + 1), which is the coverage of identical agents with
      uniform scores, falls short of 1 - alpha by more than alpha / 2; otherwise a caution.
    - **coverage**: the verdict of the tests; **single** (ok) where one agent alone has points.
    - **tiny** (caution): the agent's own coverage, Beta(r_k, n_k + 1 - r_k), has a standard
      deviation above alpha / 2, about n_k < 4 (1 - alpha) / alpha: q_k is largely noise.
    - **saturated** (caution): with finite bounds, q_k is the upper bound and t lies below it: many
      scores are tied there, as deterministic APS has them, and t covers none of these.
    - **dominance** (caution): one of several agents holds more than half of N, and agents are
      weighed by size.
    - **empty** (caution): an agent has no points and takes no part in the mean.

    A private threshold is drawn, not read off the scores: its rank is not known, so nothing is
    known of F_k(t), and **clipped**, **tiny** and **saturated** do not speak of it.

    Summaries do not show test data unlike the calibration data, nor whether an agent is honest: a
    Byzantine agent can have itself called unsafe, or move t, but it cannot have another agent
    called safe at a t that does not cover that agent.

    Examples
    --------
    >>> found = diagnose({"strong": LocalQuantile(0.09, 900), "weak": LocalQuantile(0.9, 100)}, 0.1)
    >>> found.verdict, found.coverage["weak"][0]
    ('cannot tell', 0.0)
    >>> weak = QuantileAndTail(0.9, 100, (30, 50), (0.27, 0.49))
    >>> found = diagnose({"strong": LocalQuantile(0.09, 900), "weak": weak}, 0.1)
    >>> found.verdict, round(found.coverage["weak"][1], 2)
    ('unsafe', 0.41)
    """
    if bounds is not None and not bounds[0] < bounds[1]:
        raise InputError(f"bounds must be a range, lowest before highest, got {bounds}")
    t = _mean(thresholds.values(), alpha, overflow) if threshold is None else threshold
    evidence = Evidence(dict(thresholds), as_alpha(alpha), bounds, t, weights, by=by)
    found = [finding for check in _CHECKS if (finding := check(evidence)) is not None]
    found.sort(key=lambda finding: _ORDER.index(finding.severity))
    unsafe = any(finding.severity == "unsafe" for finding in found)
    return Diagnosis(
        "unsafe" if unsafe else evidence.verdict,
        evidence.alpha,
        len(thresholds),
        evidence.N,
        t,
        evidence.coverage,
        tuple(found),
    )


def diagnose_release(
    release: ReleaseRecord, task: int, alpha: float, bounds: tuple[float, float] | None = None
) -> Diagnosis | None:
    """Assess one outcome of a round; None where its method does not average thresholds.

    Parameters
    ----------
    release : ReleaseRecord
        As the server has it, with what was received.
    task : int
        Which outcome.
    alpha : float
        Its level.
    bounds : tuple of float, optional
        Range of the score.

    Returns
    -------
    Diagnosis or None
        None also where the server has no summaries.
    """
    method = release.round.method
    weights = methods.get(method.name, **method.settings).averages
    local = local_thresholds(release, task)
    shared = release.outcomes[task].threshold(None)
    if weights is None or not local or not isinstance(shared, float):
        return None
    by = release.round.by
    return diagnose(local, alpha, bounds, threshold=shared, weights=weights, by=by)


def excluded(release: ReleaseRecord, task: int) -> tuple[str, ...]:
    """Return the used agents that ``overflow="exclude"`` left out of an outcome.

    They sent +inf, and another did not; else nobody could have been left out.
    """
    if release.round.method.settings.get("overflow") != "exclude":
        return ()
    local = local_thresholds(release, task)
    over = tuple(name for name, own in local.items() if own.threshold == inf)
    return over if len(over) < len(local) else ()


def local_thresholds(release: ReleaseRecord, task: int) -> dict[str, LocalQuantile]:
    """Return the thresholds that agents sent for an outcome, as far as the server keeps them."""
    return {
        name: answer
        for name, answers in release.received.items()
        for answer in answers[task : task + 1]
        if isinstance(answer, LocalQuantile)
    }


@dataclass(frozen=True)
class GroupDiagnosis:
    """What a round with groups came to at one level; it prints as a short report.

    Parameters
    ----------
    alpha : float
        Miscoverage level.
    by : str
        ``"label"`` or ``"group"``.
    infinite : dict or None
        By group, the agents whose threshold is +inf: a label is then in every set of theirs, and a
        group's sets hold everything. None where this is not known: each agent's own data decide.
        Where ``complete`` is False, those that are known; others may be missing.
    absent : dict or None
        By group, the agents that have no calibration point of it; None where no agent was asked.
    averaged : dict
        By group, whether its thresholds may be averaged, for methods that average them; of a score
        of two columns the worse of both.
    complete : bool, optional
        Whether ``infinite`` names all such agents; False where each agent's own data decide.
    """

    alpha: float
    by: str
    infinite: dict[str, tuple[str, ...]] | None
    absent: dict[str, tuple[str, ...]] | None
    averaged: dict[str, Diagnosis]
    complete: bool = True

    def __str__(self) -> str:
        by, absent = self.by, self.absent or {}
        lines = [f"by {by}, alpha={self.alpha:g}:"]
        if self.infinite:
            lines.append(f"  [unsafe] infinite: the threshold is +inf, and {ENDLESS[by]}:")
            for group, at in self.infinite.items():
                lacking = set(at) <= set(absent.get(group, ()))
                why = ", without a point of it" if lacking else ""
                lines.append(f"    {by} {group}: at {named(at)}{why}")
        lines += [
            f"  [caution] absent: no point of {by} {group} at {named(at)}"
            for group, at in absent.items()
            if at
        ]
        for group, found in self.averaged.items():
            lines += [
                f"  [{finding.severity}] {by} {group}: {finding.code}: {finding.says}"
                for finding in found.findings
                if finding.severity != "ok" and finding.code != "no-data"
            ]
        if not self.complete:
            of = "of others " if self.infinite else ""
            lines.append(f"  {of}{UNKNOWN}")
        elif len(lines) == 1:
            averaged = ", and averaging is safe in each" if self.averaged else ""
            lines.append(f"  every {by} has a finite threshold{averaged}")
        return "\n".join(lines)


def diagnose_groups(
    release: ReleaseRecord, alpha: float | None = None, bounds: tuple[float, float] | None = None
) -> GroupDiagnosis:
    """Tell which groups have no finite threshold, and assess each group's shared threshold.

    Parameters
    ----------
    release : ReleaseRecord
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
    infinite, averaged = {}, {}
    for place, group in enumerate(round.group_names):
        tasks = release.tasks_of(alpha, place)
        if at := tuple(name for name in release.used if release.is_infinite(name, alpha, place)):
            infinite[group] = at
        each = (diagnose_release(release, task, level / len(tasks), bounds) for task in tasks)
        if (found := worst_of(each)) is not None:
            averaged[group] = found
    own = not release.local and any(each.threshold(0) is None for each in release.outcomes)
    known = None if own and not infinite else infinite
    absent = release.absent if release.rounds else None
    return GroupDiagnosis(level, round.by, known, absent, averaged, complete=not own)


def worst_of(found: Iterable[Diagnosis | None]) -> Diagnosis | None:
    """Return the gravest of several diagnoses, such as those of a score's columns."""
    return min((each for each in found if each is not None), key=_gravity, default=None)


def _gravity(found: Diagnosis) -> tuple[int, int]:
    """Return the sort key that puts the gravest diagnosis first."""
    gravest = min((_ORDER.index(finding.severity) for finding in found.findings), default=2)
    return VERDICTS.index(found.verdict), gravest


# ---- what the checks ask of the summaries


@dataclass(frozen=True)
class Evidence:
    """The summaries, the level and the shared threshold, with what every check asks of them."""

    sent: Mapping[str, LocalQuantile]
    alpha: float
    bounds: tuple[float, float] | None
    threshold: float
    weights: str = "by size"
    by: str | None = None  # "label" or "group", where thresholds are of one alone
    exact: bool = True  # whether thresholds are as agents sent them, not read from class sketches

    @cached_property
    def some(self) -> dict[str, LocalQuantile]:
        """Agents that have points."""
        return {name: s for name, s in self.sent.items() if s.n}

    @cached_property
    def finite(self) -> dict[str, LocalQuantile]:
        """Agents that sent a finite threshold."""
        return {name: s for name, s in self.some.items() if s.threshold < inf}

    @cached_property
    def N(self) -> int:
        """Points of all agents."""
        return sum(s.n for s in self.sent.values())

    @cached_property
    def epsilon(self) -> float | None:
        """What a private threshold spent, which its summary says; None where none is private."""
        spent = [getattr(s, "epsilon", None) for s in self.some.values()]
        return max((epsilon for epsilon in spent if epsilon is not None), default=None)

    @cached_property
    def needed(self) -> int:
        """Fewest points that give a finite threshold."""
        return least_sample(self.alpha)

    @cached_property
    def mean(self) -> float:
        """FedWQ-CP's threshold among the agents that sent a finite one."""
        return _mean(self.finite.values(), self.alpha)

    @cached_property
    def tails(self) -> bool:
        """Whether agents sent more order statistics."""
        return any(isinstance(s, QuantileAndTail) for s in self.some.values())

    @cached_property
    def everything(self) -> bool:
        """Whether the shared threshold is the largest score there is."""
        return self.bounds is not None and self.bounds[1] <= self.threshold < inf

    @cached_property
    def counts(self) -> dict[str, tuple[int, int]]:
        """Bounds on how many scores of an agent lie at or below the shared threshold."""
        return {name: self._count(s) for name, s in self.some.items()}

    @cached_property
    def coverage(self) -> dict[str, tuple[float, float]]:
        """Clopper-Pearson bounds on each agent's coverage at the shared threshold."""
        error, found = UNSAFE_ERROR / max(1, len(self.some)), {}
        for name, (least, most) in self.counts.items():
            n = self.some[name].n
            found[name] = lower_end(least, n, SAFE_ERROR), 1 - lower_end(n - most, n, error)
        return found

    @cached_property
    def verdict(self) -> Verdict:
        """What the tests say; certain facts may say more."""
        if not self.some:
            return "unsafe"
        if self.everything or len(self.some) == 1:
            return "safe"
        return min(self.verdicts.values(), key=VERDICTS.index)

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """What the tests say of each agent, at the same errors as the verdict."""
        least, most = zip(*self.counts.values(), strict=True)
        sizes = [s.n for s in self.some.values()]
        tests = zip(*_tests(least, most, sizes, self.alpha), strict=True)
        return {
            name: "unsafe" if too_few else "safe" if enough else "cannot tell"
            for name, (enough, too_few) in zip(self.counts, tests, strict=True)
        }

    def _count(self, sent: LocalQuantile) -> tuple[int, int]:
        """Bound the count from the order statistics that an agent sent."""
        known: list[tuple[int, float]] = []
        if self.epsilon is None and (sent.threshold < inf or sent.n >= self.needed):
            known = [(self.rank(sent.n), sent.threshold)]
        if isinstance(sent, QuantileAndTail):
            known += zip(sent.ranks, sent.values, strict=True)
        least = max((rank for rank, value in known if value <= self.threshold), default=0)
        most = min((rank - 1 for rank, value in known if value > self.threshold), default=sent.n)
        return least, max(least, most)

    def rank(self, n: int) -> int:
        """Rank of a finite threshold of n points."""
        return min(conformal_rank(n, self.alpha), n)


UNKNOWN = "not known here: each agent's own data decide whether its threshold is finite"
"""What is said where the server does not know thresholds."""

ENDLESS = {
    None: "every set holds everything",
    "label": "that label is in every set",
    "group": "every set of that group holds everything",
}
"""What a threshold of +inf means, by what it is of."""

ALL_ENDLESS = {
    "label": "these labels are in every set",
    "group": "every set of these groups holds everything",
}
"""The same of several."""


def noise(n: int, alpha: float) -> float:
    """Return the standard deviation of the coverage of a finite threshold of n points."""
    r = min(conformal_rank(n, alpha), n)
    return sqrt(r * (n + 1 - r) / (n + 2)) / (n + 1)


def listed(agents: Mapping[str, LocalQuantile]) -> str:
    """Name some agents with their sizes."""
    return named(f"{name} (n={s.n})" for name, s in agents.items())


def _mean(sent: Iterable[LocalQuantile], alpha: float, overflow: Overflow = "propagate") -> float:
    """Return FedWQ-CP's threshold, to the last bit as a round releases it."""
    return cast(float, FedWQCP(overflow).aggregate(list(sent), alpha).value)


# ---- the checks; `diagnose` states their rules


def _no_data(evidence: Evidence) -> Finding | None:
    if evidence.some:
        return None
    says = (
        f"no agent has a calibration point. The threshold is +inf, and {ENDLESS[evidence.by]}. "
        f"A finite one takes {evidence.needed} points at some agent"
    )
    return Finding("no-data", "unsafe", says)


def _overflow(evidence: Evidence) -> Finding | None:
    """Find agents that sent +inf."""
    over = {name: s for name, s in evidence.some.items() if s.threshold == inf}
    if not over:
        return None
    if evidence.threshold < inf:  # they were left out
        says = (
            f"{listed(over)} sent +inf and took no part in the mean. What it covers there is not "
            "known"
        )
        return Finding("excluded", "caution", says, agents=tuple(over))
    says = f"{listed(over)} sent +inf. So the mean is +inf, and {ENDLESS[evidence.by]}. "
    few = [name for name, s in over.items() if s.n < evidence.needed]
    if evidence.epsilon is not None:  # it takes more points to hide one of them
        says += (
            f"There are too few points for epsilon={evidence.epsilon:g} and "
            f"alpha={evidence.alpha:g}, or too many scores lie beyond bounds that were set. A "
            "larger epsilon or more points make it finite"
        )
        return Finding("overflow", "unsafe", says, tuple(over))
    if few:
        says += f"A finite threshold at alpha={evidence.alpha:g} needs {evidence.needed} points. "
    if len(few) < len(over):
        says += "With enough points, +inf means that too many scores are themselves +inf"
    return Finding("overflow", "unsafe", says.rstrip(". "), tuple(over))


def _clipped(evidence: Evidence) -> Finding | None:
    """Find agents whose finite threshold can only be their largest score."""
    own = {name: s for name, s in evidence.finite.items() if s.n < evidence.needed}
    if not own or evidence.epsilon is not None:
        return None
    finite = evidence.finite.values()
    N = sum(s.n for s in finite)
    mean = sum(s.n * evidence.rank(s.n) / (s.n + 1) for s in finite) / N
    says = (
        f"{listed(own)} sent a finite threshold with fewer than the {evidence.needed} points that "
        f"alpha={evidence.alpha:g} needs. It was clipped to the largest score, so it covers too "
        f"few points. Identical agents would cover {mean:.3f} on average"
    )
    severity: Severity = "unsafe" if mean < least_coverage(evidence.alpha) else "caution"
    return Finding("clipped", severity, says, tuple(own))


def _coverage(evidence: Evidence) -> Finding | None:
    """Say what the tests of every agent's coverage show."""
    if not evidence.some or evidence.threshold == inf:
        return None
    if len(evidence.some) == 1:
        says = "one agent alone: the mean is its own threshold"
        return Finding("single", "ok", says, agents=tuple(evidence.some))
    t, alpha = f"at the shared threshold {evidence.threshold:.4g}", evidence.alpha
    if evidence.everything:
        return Finding("coverage", "ok", f"{t}, the largest score there is, nothing is missed")
    coverage, verdicts = evidence.coverage, evidence.verdicts
    missed = {name: 1 - least for name, (least, _) in coverage.items()}
    if evidence.verdict == "safe":
        says = f"{t} {shown_safe(alpha)}: {at_most(missed, alpha)}"
        return Finding("coverage", "ok", says)
    if evidence.verdict == "unsafe":
        lost = {name: 1 - coverage[name][1] for name, is_ in verdicts.items() if is_ == "unsafe"}
        first = max(lost, key=lambda name: lost[name])
        says = (
            f"{t} too few points are covered by their sets at {named(lost)}. At {first} the sets "
            f"miss at least {lost[first]:.1%} of the points where alpha={alpha:g} is asked"
        )
        return Finding("coverage", "unsafe", says, tuple(lost))
    open_ = tuple(name for name, is_ in verdicts.items() if is_ != "safe")
    says = (
        f"{t} it is not shown that enough points are covered at {named(open_)}; "
        f"{at_most({name: missed[name] for name in open_}, alpha)}"
    )
    if evidence.epsilon is None and not evidence.tails:
        says += ". A threshold and a size say nothing about the scores below that threshold"
    return Finding("coverage", "caution", says, open_)


def at_most(missed: Mapping[str, float], alpha: float) -> str:
    """Say of whom nothing is known (a bound of 100 % says nothing), and who else misses most."""
    unknown = [name for name, most in missed.items() if most == 1]
    said = []
    if unknown:
        miss = "misses" if len(unknown) == 1 else "miss"
        said = [f"what {named(unknown)} {miss} is not known: these numbers give no bound on it"]
    if known := {name: most for name, most in missed.items() if most < 1}:
        worst = max(known, key=lambda name: known[name])
        said.append(
            f"{worst} misses at most {known[worst]:.1%} of its points where alpha={alpha:g} is "
            "asked (95 % upper confidence bound, not an estimate)"
        )
    return "; ".join(said)


def shown_safe(alpha: float) -> str:
    """Say what safe means: `least_coverage` is shown to be reached."""
    most = "1.5 alpha" if alpha <= 0.5 else f"{1 - least_coverage(alpha):g}"
    return f"every agent's miscoverage is shown to be at most {most}"


def _tiny(evidence: Evidence) -> Finding | None:
    """Find agents whose threshold is largely noise."""
    own = {
        name: s
        for name, s in evidence.finite.items()
        if s.n >= evidence.needed and noise(s.n, evidence.alpha) > evidence.alpha / 2
    }
    if not own or evidence.epsilon is not None:
        return None
    worst = max(noise(s.n, evidence.alpha) for s in own.values())
    says = (
        f"few points at {listed(own)}. How many points such a threshold covers is largely chance: "
        f"its coverage varies by up to {worst:.3f} (standard deviation), more than half of "
        f"alpha={evidence.alpha:g}"
    )
    return Finding("tiny", "caution", says, tuple(own))


def _saturated(evidence: Evidence) -> Finding | None:
    """Find thresholds that are the upper bound of the score, where many scores are tied."""
    if evidence.bounds is None or not isfinite(evidence.bounds[1]) or evidence.epsilon is not None:
        return None
    highest = evidence.bounds[1]
    tied = {name: s for name, s in evidence.finite.items() if s.threshold >= highest}
    if not tied or evidence.threshold >= highest:
        return None
    says = (
        f"the threshold of {listed(tied)} is {highest:g}, the largest score there is, where many "
        "scores are tied. The shared threshold lies below and covers nobody with that score"
    )
    return Finding("saturated", "caution", says, tuple(tied))


def _dominance(evidence: Evidence) -> Finding | None:
    """Find one agent that outweighs all others together."""
    name = dominant(evidence.some)
    if name is None or evidence.weights == "equally":
        return None
    share = evidence.some[name].n / evidence.N
    says = f"{name} holds {share:.0%} of all points. Its threshold outweighs all others together"
    return Finding("dominance", "caution", says, (name,))


def dominant(some: Mapping[str, LocalQuantile]) -> str | None:
    """Return the agent of several that holds more than half of all points."""
    largest = max(some, key=lambda name: some[name].n, default=None)
    if largest is None or len(some) < 2 or 2 * some[largest].n <= sum(s.n for s in some.values()):
        return None
    return largest


def _empty(evidence: Evidence) -> Finding | None:
    """Find agents without points beside others that have some."""
    own = tuple(name for name, s in evidence.sent.items() if not s.n)
    if not own or not evidence.some:
        return None
    they = "it is" if len(own) == 1 else "they are"
    says = f"no calibration points at {named(own)}: {they} left out of the threshold"
    return Finding("empty", "caution", says, own)


_CHECKS: tuple[Callable[[Evidence], Finding | None], ...] = (
    _no_data,
    _overflow,
    _clipped,
    _coverage,
    _saturated,
    _tiny,
    _dominance,
    _empty,
)
