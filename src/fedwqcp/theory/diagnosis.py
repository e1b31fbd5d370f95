"""Whether averaging thresholds is safe for every agent, from what the agents sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from fedwqcp import methods, scores
from fedwqcp._validation import Bools, as_alpha
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
from fedwqcp.words.rounds import averaging

Verdict: TypeAlias = Literal["safe", "unsafe", "unknown"]

VERDICTS: tuple[Verdict, ...] = ("unsafe", "unknown", "safe")
"""The gravest first."""


def judge(
    least: npt.ArrayLike, most: npt.ArrayLike, n: npt.ArrayLike, alpha: float
) -> npt.NDArray[np.str_]:
    """Return the verdict on a shared threshold t from how many scores of each agent lie below it.

    With F_k(t) agent k's coverage and b = 1 - alpha - alpha/2 (for an alpha above one half
    1 - alpha - (1 - alpha)/2): **safe** if for every agent the
    one-sided 95 % Clopper-Pearson bound from below on F_k(t), taken at the least count, is at least
    b; **unsafe** if for some of M agents the bound from above at level 1 - 0.02/M, taken at the
    most, is below b; otherwise **unknown**.

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
        ``"safe"``, ``"unsafe"`` or ``"unknown"``.

    Notes
    -----
    Both errors are bounded for any t, however it was chosen, if an agent's scores are i.i.d.: a
    count is monotone in t. Let t_k be the b-quantile of F_k, and m the agent with the largest. If
    some F_k(t) < b, then t < t_m, and **safe** needs agent m's count below t_m to be high: at most
    5 %. If all F_k(t) >= b, **unsafe** needs a count at some t_k to be low: at most 2 % together.

    Examples
    --------
    >>> str(judge([952, 951], [952, 951], [1000, 1000], alpha=0.05))
    'safe'
    >>> judge([[952, 850], [952, 0]], [[952, 850], [952, 951]], [1000, 1000], 0.05).tolist()
    ['unsafe', 'unknown']
    """
    enough, too_few = _tests(least, most, n, alpha)
    safe, unsafe = enough.all(axis=-1), too_few.any(axis=-1)
    return np.where(unsafe, "unsafe", np.where(safe, "safe", "unknown"))


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
class Diagnosis:
    """Whether a shared threshold is safe for every agent, and the numbers that say so.

    Parameters
    ----------
    verdict : {"safe", "unsafe", "unknown"}
        See `diagnose`.
    alpha : float
        Miscoverage level.
    threshold : float
        The shared threshold that was judged.
    coverage : dict
        For each agent with points, the bounds from below and above on its coverage there.
    short : tuple of str
        The agents that are shown to be covered too little.
    infinite : tuple of str
        The agents that sent +inf.
    """

    verdict: Verdict
    alpha: float
    threshold: float
    coverage: dict[str, tuple[float, float]]
    short: tuple[str, ...] = ()
    infinite: tuple[str, ...] = ()

    def __str__(self) -> str:
        return averaging(self)


def diagnose(
    thresholds: Mapping[str, LocalQuantile],
    alpha: float,
    bounds: tuple[float, float] | None = None,
    *,
    threshold: float | None = None,
    overflow: Overflow = "propagate",
) -> Diagnosis:
    """Judge from the summaries alone whether their thresholds may be averaged.

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
    overflow : {"propagate", "clip", "exclude"}, optional
        The rule for agents with too few points.

    Returns
    -------
    Diagnosis
        Verdict, and bounds on each agent's coverage.

    Raises
    ------
    InputError
        If alpha is not between 0 and 1, or the bounds are no range.

    Notes
    -----
    **safe** if every agent's miscoverage is shown to be at most 1.5 alpha, **unsafe** if one's is
    shown to be more or the threshold is +inf, otherwise **unknown**; `judge` states the tests. Of
    agent k the order statistic v of rank r is known for r = ceil((n_k + 1)(1 - alpha)), where it is
    q_k, and for the ranks of its tail: if v <= t, at least r of its scores lie at or below t, else
    at most r - 1. One agent alone keeps its own threshold, and one at the top of the score's range
    covers everything; both are safe. Of private thresholds nothing is known.

    The tests see no test data unlike the calibration data. A Byzantine agent can have itself called
    unsafe, or move t; it cannot have another called safe at a t that does not cover that one.

    Examples
    --------
    >>> weak = QuantileAndTail(0.9, 100, (30, 50), (0.27, 0.49))
    >>> print(diagnose({"strong": LocalQuantile(0.09, 900), "weak": weak}, 0.1))
    averaging at alpha=0.1: unsafe; weak covered at most 0.407
    """
    if bounds is not None and not bounds[0] < bounds[1]:
        raise InputError("must be a range, lowest before highest", field="bounds")
    level, some = as_alpha(alpha), {name: s for name, s in thresholds.items() if s.n}
    t = threshold
    if t is None:
        t = cast(float, FedWQCP(overflow).aggregate(list(thresholds.values()), level).value)
    counts = {name: _count(s, t, level) for name, s in some.items()}
    error, coverage = UNSAFE_ERROR / max(1, len(some)), dict[str, tuple[float, float]]()
    for name, (least, most) in counts.items():
        n = some[name].n
        coverage[name] = lower_end(least, n, SAFE_ERROR), 1 - lower_end(n - most, n, error)
    infinite = tuple(name for name, s in some.items() if s.threshold == inf)
    if not some or t == inf:
        return Diagnosis("unsafe", level, t, coverage, infinite=infinite)
    if len(some) == 1 or (bounds is not None and bounds[1] <= t):
        return Diagnosis("safe", level, t, coverage, infinite=infinite)
    sizes, (low, high) = [s.n for s in some.values()], zip(*counts.values(), strict=True)
    _, too_few = _tests(low, high, sizes, level)
    (verdict,) = judge([low], [high], sizes, level).tolist()
    short = tuple(name for name, is_short in zip(some, too_few, strict=True) if is_short)
    return Diagnosis(verdict, level, t, coverage, short, infinite)


def _count(sent: LocalQuantile, t: float, alpha: float) -> tuple[int, int]:
    """Bound how many scores lie at or below t, from the order statistics that an agent sent."""
    known: list[tuple[int, float]] = []
    private = getattr(sent, "epsilon", None) is not None
    if not private and (sent.threshold < inf or sent.n >= least_sample(alpha)):
        known = [(min(conformal_rank(sent.n, alpha), sent.n), sent.threshold)]
    if isinstance(sent, QuantileAndTail):
        known += zip(sent.ranks, sent.values, strict=True)
    least = max((rank for rank, value in known if value <= t), default=0)
    most = min((rank - 1 for rank, value in known if value > t), default=sent.n)
    return least, max(least, most)


def diagnose_release(release: ReleaseRecord, alpha: float) -> dict[str, Diagnosis]:
    """Judge averaging at one level of a round, in each group, within the bounds of its score.

    Parameters
    ----------
    release : ReleaseRecord
        As the server has it, with what was received.
    alpha : float
        Its level.

    Returns
    -------
    dict
        By group; one named "" without groups. Of a score of several columns the gravest. Empty
        where the method averages nothing, or the server has no summaries.
    """
    round, diagnoses = release.round, dict[str, Diagnosis]()
    if methods.get(round.method.name, **round.method.settings).traits.averages is None:
        return diagnoses
    bounds = scores.get(round.score.name, **round.score.settings).bounds(round.n_classes)
    for index, group in enumerate(round.group_names or ("",)):
        tasks, by_task = release.tasks_of(alpha, index), []
        for task in tasks:
            local, shared = local_thresholds(release, task), release.outcomes[task].threshold(None)
            if local and isinstance(shared, float):
                by_task.append(diagnose(local, alpha / len(tasks), bounds, threshold=shared))
        if by_task:
            diagnoses[group] = min(by_task, key=lambda one: VERDICTS.index(one.verdict))
    return diagnoses


def excluded(release: ReleaseRecord, task: int) -> tuple[str, ...]:
    """Return the used agents that ``overflow="exclude"`` left out of an outcome.

    They sent +inf, and another did not; else nobody could have been left out.
    """
    if release.round.method.settings.get("overflow") != "exclude":
        return ()
    local = local_thresholds(release, task)
    over = tuple(name for name, quantile in local.items() if quantile.threshold == inf)
    return over if len(over) < len(local) else ()


def local_thresholds(release: ReleaseRecord, task: int) -> dict[str, LocalQuantile]:
    """Return the thresholds that agents sent for an outcome, as far as the server keeps them."""
    return {
        name: answer
        for name, answers in release.received.items()
        for answer in answers[task : task + 1]
        if isinstance(answer, LocalQuantile)
    }
