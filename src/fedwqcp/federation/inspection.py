"""What is to be said of calibration data, of a release and of sets: findings, no sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import inf
from typing import Any, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Bools, Floats, Labels
from fedwqcp.federation.plan import Plan, part_of
from fedwqcp.findings import Finding
from fedwqcp.groups import as_groups, group_names
from fedwqcp.methods import Calibration
from fedwqcp.methods._base import LocalThresholds
from fedwqcp.methods._stored import StoredCalibration
from fedwqcp.methods.auto import PartSketches, borrowed_of
from fedwqcp.metrics import lower_end
from fedwqcp.outputs import Outputs
from fedwqcp.quantile import conformal_quantile, conformal_rank, least_sample
from fedwqcp.scores import LabelScore
from fedwqcp.theory.diagnosis import excluded
from fedwqcp.wire.codec import decode
from fedwqcp.wire.messages import Answer, LocalQuantile, PerAgentThresholds, Round, SharedThreshold
from fedwqcp.wire.release import ReleaseRecord

_USEFUL = 0.1
"""A top class is useful that reaches a tenth of the agreement that chance leaves open."""
_LIFT = 5
"""With many classes, so many times the agreement of chance is useful too."""
_DOUBT = 0.01
"""Chance that a top class which is just useful is called useless."""


def agreement(values: npt.NDArray[Any], labels: Labels) -> dict[str, list[int]]:
    """Count the classes at the top, those of the labels, where they differ, and labels given 0."""
    top, C = values.argmax(axis=1), values.shape[1]
    return {
        "top": np.bincount(top, minlength=C).tolist(),
        "labels": np.bincount(labels, minlength=C).tolist(),
        "missed": [int(np.count_nonzero(top != labels))],
        "zeros": [int(np.count_nonzero(values[np.arange(len(labels)), labels] == 0))],
    }


def counts_of(outputs: Outputs | None, cal: Calibration | None) -> Mapping[str, Sequence[int]]:
    """Return what is counted in calibration data; ``outputs`` are those that it was scored from."""
    if isinstance(cal, StoredCalibration):
        return cal.facts
    return {} if outputs is None or cal is None else agreement_of(outputs, cal)


def agreement_of(outputs: Outputs, cal: Calibration) -> dict[str, list[int]]:
    """Count them for outputs and what they were scored to; nothing where rows were left out."""
    labels, rows = cal.labels, len(outputs.values)
    if labels is None or not rows or len(labels) != rows or outputs.values.ndim < 2:
        return {}
    in_order = outputs.in_classes(cal.classes) if outputs.by_name else outputs
    return agreement(in_order.values, labels)


def of_data(agent: str | None, outputs: Outputs | None, cal: Calibration) -> Iterator[Finding]:
    """Look at one agent's calibration data; ``outputs`` are those that ``cal`` was scored from."""
    yield from of_agreement(agent, counts_of(outputs, cal))


def of_agreement(agent: str | None, counts: Mapping[str, Sequence[int]]) -> Iterator[Finding]:
    """Find labels that may not fit the columns: the data rule out a useful top class.

    Of n rows the top class hits the label in at most the Clopper-Pearson bound. Independent of the
    labels it would hit sum_c a_c b_c of them, and at best sum_c min(a_c, b_c), where a and b are
    the shares of classes at the top and among labels. So a model that always says the same is never
    called useless.
    """
    if not counts:
        return
    n, missed = sum(counts["labels"]), counts["missed"][0]
    a, b = np.array(counts["top"]) / n, np.array(counts["labels"]) / n
    chance, best = float(a @ b), float(np.minimum(a, b).sum())
    useful, right = min(chance + _USEFUL * (best - chance), _LIFT * chance), 1 - missed / n
    if right < useful and 1 - lower_end(missed, n, _DOUBT) < useful:  # the bound imports scipy
        whose = () if agent is None else (agent,)
        yield Finding.of("labels-mismatch", *whose, right=right, n=n, no_zero=not b[0])


def of_points(plan: Plan, agent: str | None, cal: Calibration) -> Iterator[Finding]:
    """Find where an agent has too few calibration points, in all or of a class or group."""
    round, method = plan.round, plan.method
    rule = round.method.settings.get("overflow")
    whose = () if agent is None else (agent,)
    for group in range(len(round.group_names)) or (None,):
        n = part_of(round, cal, group).n
        of = {"by": round.by, "part": None if group is None else round.group_names[group]}
        if n == 0 and (group is not None or method.traits.averages):
            yield Finding.of("no-points", *whose, **of, gets=_without_points(plan))
            continue
        for alpha in round.alphas:
            share = alpha / cal.columns
            if conformal_rank(n, share) <= n:
                continue
            facts = {**of, "n": n, "alpha": alpha, "needed": least_sample(share)}
            proved = plan.proved(n, alpha)
            if proved is not None and proved < 1 - alpha - 1e-12:
                risk = plan.score.losses
                yield Finding.of("proves-less", *whose, **facts, proved=proved, risk=risk)
            elif proved or rule or isinstance(method, LocalThresholds):  # others pool scores
                yield Finding.of("too-few-points", *whose, **facts, overflow=rule)


def _without_points(plan: Plan) -> str:
    """Return what an agent predicts with that has no point, or none of a class or group."""
    if plan.method.traits.floors:
        return "borrows"
    if plan.method.traits.predicts_from_own_data:
        return "own"
    several = any(issubclass(kind, PerAgentThresholds) for kind in plan.method.outcomes)
    return "per-agent" if several else "shared"


def of_columns(
    plan: Plan, outputs: Outputs, *, test: bool = False, calibration: Outputs | None = None
) -> Iterator[Finding]:
    """Find where nobody can check the order of classes, or rows have no ids.

    ``outputs`` are of calibration rows, or of ``test`` rows beside those of ``calibration``.
    """
    round = plan.round
    if outputs.classes and not round.classes:
        yield Finding.of("unnamed-classes")
    if round.classes and not outputs.classes:
        right = _right(outputs.in_classes(round.classes))
        yield Finding.of("unchecked-classes", classes=round.classes, right=right)
    if not plan.score.randomized:
        return
    of = "test" if test else "calibration"
    if outputs.ids is None:
        others = calibration is not None and calibration.ids is not None
        yield Finding.of("no-ids", score=round.score.name, rows=of, others=others)
    elif calibration is not None and calibration.ids is None:
        yield Finding.of("no-ids", score=round.score.name, rows="calibration", others=True)


def _right(outputs: Outputs) -> float | None:
    """Return the share of rows where the most probable class is the label; None without labels."""
    values, labels = outputs.values, outputs.labels
    if labels is None or not len(values) or (values.ndim, labels.ndim) != (2, 1):
        return None
    return float(np.mean(values.argmax(axis=1) == labels))


def of_answer(plan: Plan, answer: bytes) -> Iterator[Finding]:
    """Find where noise makes a private answer useless."""
    sent = decode(answer, Answer, plan.kinds).answers
    if any(isinstance(summary, LocalQuantile) and summary.threshold == inf for summary in sent):
        yield Finding.of("spent-for-nothing")


def of_own_threshold(
    plan: Plan, cal: Calibration, counts: Mapping[str, Sequence[int]]
) -> Iterator[Finding]:
    """Find where an agent's own threshold, below which it never predicts, excludes no label."""
    round = plan.round
    if not (plan.traits.predicts_from_own_data and isinstance(plan.score, LabelScore)):
        return
    for alpha in round.alphas:
        groups = [
            group
            for group in range(len(round.group_names)) or (None,)
            if conformal_quantile(part_of(round, cal, group).scores, alpha) == plan.bounds[1]
        ]
        if groups:
            names = tuple(round.group_names[group] for group in groups if group is not None)
            of = {"alphas": (alpha,), "by": round.by, "parts": names}
            yield Finding.of("full-sets", **of, **_zeros([counts]))


def _zeros(counts: Sequence[Mapping[str, Sequence[int]]]) -> dict[str, int]:
    """Return how many labels of how many rows the models give no probability, where known."""
    if not counts or not all("zeros" in one for one in counts):
        return {}
    return {
        "zeros": sum(one["zeros"][0] for one in counts),
        "n": sum(sum(one["labels"]) for one in counts),
    }


def of_release(
    release: ReleaseRecord, counts: Mapping[str, Mapping[str, Sequence[int]]] | None = None
) -> Iterator[Finding]:
    """Find who took no part, and whose thresholds exclude nothing; ``counts`` are of their data."""
    for name, reason in release.refused.items():
        yield Finding.of("refused", name, reason=reason)
    if release.missing:
        yield Finding.of("missing", *release.missing)
    unseen = unseen_labels(release)
    if unseen:
        yield Finding.of("unseen-labels", *unseen, share=max(unseen.values()))
    known = [name for name in release.round.agents if name not in unseen]
    for levels, where, names in _alike(release, known, _is_inf):
        of = {"by": release.round.by, "parts": where}
        facts = {"alphas": levels, **of, **_needed(release, min(levels))}
        yield Finding("infinite-threshold", names, facts)
    plan = Plan.of(release.round)
    top = plan.bounds[1] if isinstance(plan.score, LabelScore) else inf

    def _is_full(release: ReleaseRecord, name: str, tasks: range) -> bool:
        return top in [release.known(name, task) for task in tasks]

    for levels, where, names in _alike(release, known, _is_full) if top < inf else ():
        facts = {"alphas": levels, "by": release.round.by, "parts": where}
        facts |= _zeros([(counts or {}).get(name, {}) for name in names])
        yield Finding("full-sets", names, facts)


def of_outcomes(release: ReleaseRecord) -> Iterator[Finding]:
    """Find who was left out of a threshold, and who has no points."""
    round = release.round
    for alpha in round.alphas:
        for group, part in enumerate(round.group_names or (None,)):
            tasks = release.tasks_of(alpha, group)
            of = {"alpha": alpha, "by": round.by, "part": part}
            names = dict.fromkeys(name for task in tasks for name in excluded(release, task))
            if names:
                yield Finding.of("left-out", *names, **of)
    for part, absent in release.absent.items() if release.rounds else ():
        if absent:
            yield Finding.of("absent", *absent, by=round.by, part=part)


def unseen_labels(release: ReleaseRecord) -> dict[str, float]:
    """Return the agents of whose labels more than alpha are of classes that nobody has seen.

    With the share of these labels, at the smallest level that it passes.
    """
    shares: dict[str, float] = {}
    for task, outcome in enumerate(release.outcomes):
        unknown = outcome.unknown if isinstance(outcome, PerAgentThresholds) else ()
        for name in release.used if unknown else ():
            position = release.position(name, task)
            share = 0.0 if position is None else unknown[position]
            if share > Plan.of(release.round).tasks[task].alpha:
                shares[name] = max(share, shares.get(name, 0.0))
    return shares


def _alike(
    release: ReleaseRecord,
    agents: Iterable[str],
    holds: Callable[[ReleaseRecord, str, range], bool],
) -> Iterator[tuple[tuple[float, ...], tuple[str, ...], tuple[str, ...]]]:
    """Return agents of whose thresholds something holds, with the levels and classes or groups.

    Those with the same levels, classes or groups come together.
    """
    round = release.round
    alike: dict[tuple[tuple[float, ...], tuple[int, ...]], list[str]] = {}
    parts = _parts(release)
    for name in agents:
        pairs = [(alpha, group) for alpha, group, tasks in parts if holds(release, name, tasks)]
        if pairs:
            levels = tuple(dict.fromkeys(alpha for alpha, _ in pairs))
            where = tuple(dict.fromkeys(group for _, group in pairs if group is not None))
            alike.setdefault((levels, where), []).append(name)
    for (levels, where), names in alike.items():
        yield levels, tuple(round.group_names[group] for group in where), tuple(names)


def is_useless(release: ReleaseRecord) -> bool:
    """Tell whether no agent has a finite threshold, at any level, in any class or group."""
    parts = _parts(release)
    return bool(release.used) and all(
        _is_inf(release, name, tasks) for name in release.used for _, _, tasks in parts
    )


def _parts(release: ReleaseRecord) -> list[tuple[float, int | None, range]]:
    """Return each level and group of a round, with its tasks."""
    groups = range(len(release.round.group_names)) or (None,)
    pairs = product(release.round.alphas, groups)
    return [(alpha, group, release.tasks_of(alpha, group or 0)) for alpha, group in pairs]


def _is_inf(release: ReleaseRecord, name: str, tasks: range) -> bool:
    """Tell whether a threshold is +inf; where own data decide, whether the agent sent that."""
    for task in tasks:
        if release.known(name, task) == inf:
            return True
    if release.local or name not in release.received:  # local thresholds say all
        return False
    for task in tasks:
        sent, outcome = release.received[name][task], release.outcomes[task]
        is_inf = isinstance(sent, LocalQuantile) and sent.threshold == inf
        if isinstance(sent, PartSketches):
            (n,), level = sent.sizes(), Plan.of(release.round).tasks[task].alpha
            offered = borrowed_of(outcome, release.position(name, task))
            is_inf = conformal_rank(n, level) > n and offered == inf
        if is_inf and outcome.threshold(0) is None:
            return True
    return False


def _needed(release: ReleaseRecord, alpha: float) -> dict[str, Any]:
    """Return what a finite threshold takes: agents, points, or another setting."""
    plan, round = Plan.of(release.round), release.round
    if least := plan.method.traits.least_agents:
        return {"agents_needed": least(alpha), "roster": len(round.agents)}
    facts: dict[str, Any] = {}
    if "overflow" in round.method.settings:
        choices = get_args(get_type_hints(type(plan.method))["overflow"])
        shares = any(issubclass(kind, SharedThreshold) for kind in plan.method.outcomes)
        helps = [rule for rule in ("exclude", "clip") if rule in choices]
        facts["overflow"] = tuple(helps[not shares and "exclude" in helps :])
    if (facts or plan.traits.floors) and not plan.traits.private:  # whose noise costs points too
        facts["needed"] = least_sample(alpha / plan.score.columns)
    return facts


def of_thresholds(
    round: Round,
    threshold: Floats,
    groups: npt.ArrayLike | None,
    counts: Mapping[str, Sequence[int]] | None = None,
    *,
    full: bool = False,
) -> Iterator[Finding]:
    """Find where the sets of an agent exclude nothing, and in which classes or groups.

    ``threshold`` is that of `thresholds`, ``groups`` the group of each test input, ``counts`` are
    of the agent's calibration data, and ``full`` is whether every set was seen to hold every label.
    """
    infinite, plan = np.isinf(threshold), Plan.of(round)
    if infinite.any():
        yield Finding.of("infinite-threshold", alphas=(), **_where(round, infinite, groups))
    if not isinstance(plan.score, LabelScore):
        return
    top = np.isfinite(threshold) & (threshold == plan.bounds[1])
    if full and not infinite.any():
        top = np.ones_like(top)
    if top.any():
        where = _where(round, top, groups)
        yield Finding.of("full-sets", alphas=(), **where, **_zeros([counts or {}]))


def _where(round: Round, chosen: Bools, groups: npt.ArrayLike | None) -> dict[str, Any]:
    """Return in which classes or groups thresholds are chosen; none where all are."""
    parts: tuple[str, ...] = ()
    names, some = round.group_names, not chosen.all()
    if round.by == "label" and some:
        columns = chosen.reshape(-1, len(names)).T
        parts = tuple(name for name, part in zip(names, columns, strict=True) if part.any())
    elif round.by == "group" and some:
        assert groups is not None  # a round by group needs them
        there = group_names(as_groups(groups, len(chosen))[chosen.any(axis=1)])
        parts = tuple(name for name in names if name in there)
    return {"by": round.by, "parts": parts, "some": some}


def of_agent(release: ReleaseRecord, agent: str) -> Iterator[Finding]:
    """Find that a shared threshold does not rest on an agent's data."""
    if release.census:  # nobody knows whose answers those are
        return
    status = release.record(agent).status
    shared = all(outcome.threshold(None) is not None for outcome in release.outcomes)
    if shared and status not in ("used", "not asked"):
        yield Finding.of("unanswered", agent, status=status)
