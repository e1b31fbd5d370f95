"""From a model's outputs to calibration data, and from a release to an agent's predictor."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from math import inf
from pathlib import Path

import numpy as np

from fedwqcp import methods
from fedwqcp._validation import Floats, as_indicators
from fedwqcp.errors import InputError, WrongRoundError
from fedwqcp.federation.plan import Plan, choose_method, choose_score, part_of, stamp
from fedwqcp.methods import Calibration
from fedwqcp.methods._calibration import own_data
from fedwqcp.methods.auto import enough_points
from fedwqcp.outputs import MaskOutputs, Outputs, named_by_line, row_uniforms
from fedwqcp.quantile import least_sample
from fedwqcp.scores import IntervalScore, LabelScore, Score, name_of
from fedwqcp.scores.custom import Custom
from fedwqcp.scores.mask import Mask
from fedwqcp.scores.multi_label import MultiLabel
from fedwqcp.serve import Level, Predictor
from fedwqcp.serve.predictor import Threshold, bound_to
from fedwqcp.wire.messages import Round, unknown_agent
from fedwqcp.wire.release import ReleaseRecord, threshold_by
from fedwqcp.words.rounds import guarantee


@named_by_line
def calibration_of(round: Round, outputs: Outputs) -> Calibration:
    """Score an agent's calibration points with the round's score."""
    plan = Plan.of(round)
    outputs, by_name = named_rows(round, outputs)
    outputs = outputs.in_classes(round.classes)
    if by_name and isinstance(plan.score, LabelScore):
        outputs = replace(outputs, classes=round.classes)  # names of the labels, the site's own
    cal = scored(plan.score, round.key, outputs)
    plan.check(cal)  # here, where a row is known by its line
    return cal


def named_rows(round: Round, outputs: Outputs) -> tuple[Outputs, bool]:
    """Return the rows that a round is of, and whether their labels are names of its classes.

    A private round leaves out rows of classes that it does not name: a refusal would tell of them.
    """
    labels = np.asarray(outputs.labels)
    by_name = bool(round.classes) and all(isinstance(label, str) for label in labels.flat)
    if by_name and Plan.of(round).traits.private:
        named = [unicodedata.normalize("NFC", str(label)).strip() for label in labels]
        outputs = outputs.take(np.isin(named, round.classes))
    return outputs, by_name


@named_by_line
def scored(score: Score, key: str, outputs: Outputs) -> Calibration:
    """Score calibration points; the key is that of the uniforms of a randomised score."""
    if outputs.labels is None:
        raise InputError(
            "calibration needs labels beside the outputs",
            cure=(
                "pass Outputs(values, labels)",
                "add a column 'label' or 'y', an array 'labels' of the .npz, or a file (--labels, "
                "--calibration-labels)",
            ),
        )
    x, groups = outputs.features, outputs.groups
    if isinstance(score, Mask) != isinstance(outputs, MaskOutputs):
        raise InputError("score 'mask' reads MaskOutputs, and no other score does", field="score")
    if isinstance(score, Mask) and isinstance(outputs, MaskOutputs):
        used = ~outputs.empty | (score.empty == "count")
        weights = score.weights(outputs.inside[used])
        values = np.broadcast_to(score.grid, weights.shape)
        return Calibration(values, groups=None if groups is None else groups[used], weights=weights)
    if isinstance(score, LabelScore):
        u = row_uniforms(key, outputs) if score.randomized else None
        values = score.of(outputs.values, outputs.labels, u=u)
        classes, names = outputs.values.shape[1], outputs.classes
        return Calibration(values, outputs.labels, x, classes, groups=groups, classes=names)
    if isinstance(score, MultiLabel):
        values = score.of_every_label(outputs.values)
        as_indicators(outputs.labels, values.shape)
        L, weights = values.shape[1], score.weights(outputs.labels)
        return Calibration(values, None, x, L, groups=groups, weights=weights)
    if isinstance(score, IntervalScore):
        return Calibration(score.of(outputs.values, outputs.labels), None, x, groups=groups)
    raise InputError(f"score {name_of(score)!r} is the caller's own: its scores are not made here")


def thresholds(
    release: ReleaseRecord,
    agent: str | None,
    alpha: float | None = None,
    calibration: Calibration | None = None,
    *,
    group: str | int | None = None,
) -> float | Floats:
    """Return the threshold that an agent predicts with; None is a site that took no part.

    Its shape is () shared, (C,) per label, (2,) per column of the score. Where ``calibration`` is
    left out, what agents of this process found for themselves is used.
    """
    plan = Plan.of(release.round)
    if calibration is None:
        if plan.traits.predicts_from_own_data and agent not in release.local:
            if agent is None:
                release.threshold(agent, alpha, group)  # says what a site that joins can do
            own_data(None, release.round.method.name)  # whatever the release holds
        return release.threshold(agent, alpha, group)
    if agent is None:
        raise InputError(
            "calibration data of a site that took no part count in no threshold of this round",
            cure=("leave them out, or take part in the next round with them",) * 2,
        )
    plan.check(calibration)

    def _of_group(part: int) -> Floats:
        tasks = release.tasks_of(alpha, part)
        values = [localize(plan, release, agent, task, calibration) for task in tasks]
        return values[0] if len(values) == 1 else np.array(values)

    values = threshold_by(release.round, _of_group, group)
    if plan.traits.floors:  # what was borrowed may be anything
        values = np.where(values > plan.bounds[1], np.inf, values)
    return values if values.ndim else float(values)


def proved_at(round: Round, cal: Calibration | None, alpha: float) -> float | None:
    """Return the coverage that an agent's points prove, the least over groups that have some."""
    if cal is None:
        return None
    levels = (p for _, n, p in proved_within(round, cal, alpha) if n or round.by is None)
    return min((level for level in levels if level is not None), default=None)


def proved_within(
    round: Round, cal: Calibration, alpha: float
) -> list[tuple[str, int, float | None]]:
    """Return the points of each class or group, and what they prove there; else of all."""
    plan, names = Plan.of(round), round.group_names
    sizes = [part_of(round, cal, part).n for part in range(len(names)) or (None,)]
    return [(name, n, plan.proved(n, alpha)) for name, n in zip(names or ("",), sizes, strict=True)]


def guaranteed(
    made: ReleaseRecord | Predictor,
    agent: str | None,
    levels: Sequence[tuple[float, float | None]],
    points: Sequence[int] = (),
) -> str:
    """Say what is guaranteed at levels, each with what is proved there if it is known.

    ``points`` are how many calibrated, in all and by label or group, where that is known.
    """
    by = made.by if isinstance(made, Predictor) else made.round.by
    score = made.score_object if isinstance(made, Predictor) else Plan.of(made.round).score
    kind = made.guarantee.kind
    fewer = kind.endswith("-floor") and None in (proved for _, proved in levels)
    shares = [1 - alpha if proved is None else proved for alpha, proved in levels]
    settings = made.method.settings if isinstance(made, Predictor) else made.round.method.settings
    least = min((n for n in points if n), default=None)
    few = any(share < 1 - alpha - 1e-12 for share, (alpha, _) in zip(shares, levels, strict=True))
    if kind.endswith("-floor") and least is not None and "enough" in settings:
        few |= least < enough_points(min(levels)[0], settings["enough"])
    return guarantee(
        kind,
        made.guarantee.strength,
        [1 - share for share in shares] if score.losses else shares,
        agent=agent,
        needed=least_sample(min(levels)[0] / score.columns) if fewer else None,
        by=by,
        of=_makes(score),
        few=few,
    )


def _makes(score: Score) -> str:
    """Return what thresholds of a score are turned into; nothing of a caller's own score."""
    kinds = {"mask": Mask, "interval": IntervalScore, "set": LabelScore}
    return next((name for name, kind in kinds.items() if isinstance(score, kind)), "")


def localize(
    plan: Plan,
    release: ReleaseRecord,
    agent: str | None,
    task: int,
    calibration: Calibration | None,
) -> Floats:
    """Return an agent's threshold for one task: shape () shared, (C,) per label.

    It is +inf where it would be the agent's own and the agent has no point of the group.
    """
    this, outcome = plan.tasks[task], release.outcomes[task]
    if not plan.traits.floors:
        shared = outcome.threshold(None)
        if shared == np.inf or (shared is None and release.took_no_part(agent, task)):
            return np.asarray(np.inf)
    points = None
    if calibration is not None:
        points = part_of(release.round, calibration.column(this.column), this.group)
    return plan.method.localize(outcome, points, release.position(agent, task), this.alpha)


def check_same_round(
    release: ReleaseRecord, answered: Round, source: str | Path = "server"
) -> None:
    """Refuse a release of another round, or of other terms, than an agent answered."""
    ours, theirs = answered.id, release.round.id
    if theirs != ours:
        raise WrongRoundError(
            source,
            "round",
            f"the release is of round {theirs}, this agent answered {ours}: ask the server for the "
            f"release of {ours}, or name the round {theirs}",
        )
    if names := other_terms(release.round, answered):
        raise WrongRoundError(
            source, ", ".join(names), "must be as in the round that this agent answered"
        )


def other_terms(round: Round, answered: Round) -> list[str]:
    """Return which terms of a round are not those that agents answered."""
    ours, theirs = answered.brief(), round.brief()
    names = Round.__struct_fields__
    return [name for name in names if getattr(ours, name) != getattr(theirs, name)]


def predictor_of(
    release: ReleaseRecord,
    agent: str | None,
    calibration: Calibration | None = None,
    *,
    proved: dict[float, float | None] | None = None,
    points: Sequence[int] = (),
    model: str | Path | None = None,
    data_period: str | None = None,
    valid_until: str | date | None = None,
) -> Predictor:
    """Resolve an agent's thresholds for every level, label and group.

    ``proved`` is what is proved at each level, and ``points`` how many calibrated, where the
    calibration data are not given.
    """
    round, plan = release.round, Plan.of(release.round)
    if agent is not None and not round.expects(agent):
        raise InputError(
            f"{unknown_agent(agent, round.agents)}; a site that took no part passes None where all "
            "agents share a threshold, or takes part in the next round with labelled points"
        )
    if isinstance(plan.score, Custom):
        raise InputError(
            f"score {round.score.name!r} is the caller's own: its sets are not made here",
            cure=(
                "name one (score=), or compare your scores with release.threshold(agent)",
                "open a round with one (--score), or compare your scores with the threshold",
            ),
        )
    levels, points = [], _points(round, calibration, points)
    for alpha in round.alphas:
        by_group = [
            np.ravel(thresholds(release, agent, alpha, calibration, group=group))
            for group in round.groups or (None,)
        ]  # one number where an agent has no point of a group, though others have one per label
        table = np.broadcast_arrays(*by_group)
        rows: list[tuple[Threshold, ...]] = [
            tuple("inf" if q == inf else q for q in row.tolist()) for row in table
        ]
        known = (proved or {}).get(alpha)
        here = proved_at(round, calibration, alpha) if calibration is not None else known
        levels.append(Level(alpha, tuple(rows), here))
    return Predictor(
        agent=agent,
        score=choose_score(plan.score),
        method=choose_method(methods.get(round.method.name, **round.method.settings)),
        levels=tuple(levels),
        guarantee=release.guarantee,
        promise=guaranteed(release, agent, [(one.alpha, one.proved) for one in levels], points),
        assumption=release.assumption,
        round=round.id,
        rule=round.rule,  # type: ignore[arg-type]  # Plan.of checks it
        key=round.key,
        n_classes=round.n_classes or _columns(levels, plan),
        classes=round.classes,
        by=round.by,  # type: ignore[arg-type]  # a round checks it
        groups=round.groups,
        provenance=stamp() | bound_to(model, data_period, valid_until, points),
    )


def _points(round: Round, cal: Calibration | None, known: Sequence[int]) -> Sequence[int]:
    """Return how many points calibrated a site, and each label or group that has a threshold."""
    if cal is None:
        return known
    return cal.n, *(part_of(round, cal, part).n for part in range(len(round.group_names)))


def _columns(levels: list[Level], plan: Plan) -> int | None:
    """Return how many labels have a threshold of their own; None where one is for all."""
    width = max(len(row) for level in levels for row in level.thresholds)
    return width if width > plan.score.columns else None
