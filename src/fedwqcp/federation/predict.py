"""From a model's outputs to calibration data, and from a release to prediction sets."""

from __future__ import annotations

import math
import os
import unicodedata
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Floats, as_floats, as_indicators
from fedwqcp.errors import InputError, WrongRoundError
from fedwqcp.federation.plan import Plan, part_of, set_rule
from fedwqcp.findings import Finding
from fedwqcp.groups import group_places
from fedwqcp.methods import Calibration
from fedwqcp.methods._calibration import own_data
from fedwqcp.outputs import (
    LABELS_BESIDE,
    ROWS,
    MaskOutputs,
    Outputs,
    named_by_line,
    row_uniforms,
)
from fedwqcp.scores import IntervalScore, LabelScore, Score, name_of
from fedwqcp.scores.mask import Mask
from fedwqcp.scores.multi_label import MultiLabel
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp.wire.messages import Round, unknown_agent
from fedwqcp.wire.release import ReleaseRecord, threshold_by


@named_by_line
def calibration_of(round: Round, outputs: Outputs) -> Calibration:
    """Score an agent's calibration points with the round's score.

    A private round leaves out rows of classes that it does not name: a refusal would tell of them.
    """
    plan = Plan.of(round)
    score, private = plan.score, plan.traits.private
    labels = np.asarray(outputs.labels)
    by_name = bool(round.classes) and all(isinstance(label, str) for label in labels.flat)
    if private and by_name:
        named = [unicodedata.normalize("NFC", str(label)).strip() for label in labels]
        outputs = outputs.take(np.isin(named, round.classes))
    outputs = outputs.in_classes(round.classes)
    check_classes(round, outputs)
    if by_name and isinstance(score, LabelScore):
        outputs = replace(outputs, classes=round.classes)  # names of the labels, the site's own
    if round.by == "group" and outputs.groups is not None and not private:
        group_places(outputs.groups, round.groups)  # here, where a row is known by its line
    return scored(score, round.key, outputs)


@named_by_line
def scored(score: Score, key: str, outputs: Outputs) -> Calibration:
    """Score calibration points; the key is that of the uniforms of a randomised score."""
    if outputs.labels is None:
        raise InputError("calibration needs labels beside the outputs", cure=LABELS_BESIDE)
    _check_kind(outputs)
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
        return Calibration(values, None, x, groups=groups, weights=score.weights(outputs.labels))
    if isinstance(score, IntervalScore):
        return Calibration(score.of(outputs.values, outputs.labels), None, x, groups=groups)
    raise InputError(f"score {name_of(score)!r} is the caller's own: its scores are not made here")


@named_by_line
def predict(
    release: ReleaseRecord,
    agent: str | None,
    outputs: Outputs,
    *,
    alpha: float | None = None,
    calibration: Calibration | None = None,
    allow_empty: bool = True,
) -> LabelSets | Intervals:
    """Turn an agent's model outputs into prediction sets; None for a site that took no part."""
    _check_kind(outputs)
    round = release.round
    score = Plan.of(round).score
    check_agent(release, agent)
    outputs = outputs.in_classes(round.classes)
    features = None
    if outputs.features is not None:
        features = as_floats(outputs.features, "features", (len(outputs.values), None))
    group = outputs.groups if round.by == "group" else None
    if round.by == "group" and group is None:
        raise InputError(
            "a round by group needs the group of each row beside the outputs (groups, or a column "
            f"'group'); its groups: {', '.join(round.groups)}"
        )
    threshold = thresholds(release, agent, alpha, calibration, features, group=group)
    check_classes(round, outputs)
    if isinstance(score, LabelScore):
        rule = set_rule(round.rule, allow_empty)
        u = row_uniforms(round.key, outputs) if score.randomized else None
        sets = score.invert(outputs.values, threshold, rule, u)
        return LabelSets(sets.mask, round.classes) if round.classes else sets
    if not allow_empty:
        raise InputError(
            "empty sets can be avoided only in sets of labels of which one is true, which score "
            f"{round.score.name!r} does not make",
            cure=("leave allow_empty=False out", "leave --no-allow-empty out"),
        )
    if isinstance(score, MultiLabel):
        return LabelSets(score.invert(outputs.values, threshold).mask, round.classes)
    if isinstance(score, IntervalScore):
        return score.invert(outputs.values, threshold)
    if isinstance(score, Mask):
        raise InputError("is of masks: call predict_mask", field="score")
    raise InputError(
        f"score {round.score.name!r} is the caller's own: its sets are not made here",
        cure=(
            "name the score when calibrating (score=), or compare your own scores with "
            "release.threshold(agent)",
            "name the score when opening a round (--score), or compare your own scores with the "
            "threshold",
        ),
    )


def check_agent(release: ReleaseRecord, agent: str | None) -> None:
    """Refuse the name of an agent that is not in the roster."""
    if agent is None or release.round.expects(agent):
        return
    shared = all(outcome.threshold(None) is not None for outcome in release.outcomes)
    cure = (
        "for a site that took no part pass None"
        if shared
        else "a site that took no part has no threshold in this round: with labelled points of "
        "its own it takes part in the next one"
    )
    raise InputError(f"{unknown_agent(agent, release.round.agents)}; {cure}")


RESOLVED = "_resolved"
"""Attribute of a release with the thresholds that were asked for; in no file and no copy."""


def thresholds(
    release: ReleaseRecord,
    agent: str | None,
    alpha: float | None = None,
    calibration: Calibration | None = None,
    features: Floats | None = None,
    *,
    group: str | int | npt.ArrayLike | None = None,
) -> float | Floats:
    """Return the threshold that an agent predicts with; None is a site that took no part.

    Its shape is () shared, (C,) per label, (n, 1) per input, (2,) per column of the score. Where
    ``calibration`` is left out, what agents of this process found for themselves is used. ``group``
    is the name of one, or the group of each test input.
    """
    plan = Plan.of(release.round)
    resolved: dict[Any, float | Floats] = {}  # by agent and level, where nothing else decides
    key = agent, release.tasks_of(alpha).start  # refuses what is no level
    if calibration is None and features is None and group is None:
        resolved = vars(release).setdefault(RESOLVED, {})
        if key in resolved:
            return resolved[key]
    if calibration is None:
        if plan.traits.floors and agent is not None and agent not in release.local:
            own_data(None, release.round.method.name)  # whatever the release holds
        shown = release.threshold(agent, alpha, group)  # says whose data are missing, if any are
        if agent in release.local and (features is None or not plan.traits.needs_features):
            resolved[key] = shown
            return shown
    elif agent is None:
        raise InputError(
            "calibration data of a site that took no part count in no threshold of this round",
            cure=(
                "leave calibration out, or take part in the next round with them",
                "leave --calibration out, or take part in the next round with them",
            ),
        )
    else:
        plan.check(calibration)

    def _of_group(part: int) -> Floats:
        values = [
            localize(plan, release, agent, task, calibration, features=features)
            for task in release.tasks_of(alpha, part)
        ]
        if len(values) == 1:
            return values[0]
        return np.concatenate([q if q.ndim else q[None] for q in values], axis=-1)

    values = threshold_by(release.round, _of_group, group)
    low, high = plan.bounds
    if plan.traits.floors:  # what was borrowed may be anything
        values = np.where(values > high, np.inf, values)
    if not (((low <= values) & (values <= high)) | (values == np.inf)).all():
        raise InputError(
            f"the release's threshold must lie between {low:g} and {high:g} for "
            f"{release.round.score.name}, or be +inf: it was changed or is of another score"
        )
    threshold = values if values.ndim else float(values)
    resolved[key] = threshold
    return threshold


def proved_at(round: Round, cal: Calibration | None, alpha: float) -> float | None:
    """Return the coverage that an agent's points prove, the least over groups that have some."""
    if cal is None:
        return None
    plan = Plan.of(round)
    sizes = (part_of(round, cal, part).n for part in range(len(round.group_names)) or (None,))
    levels = (plan.proved(n, alpha) for n in sizes if n or round.by is None)
    return min((level for level in levels if level is not None), default=None)


def localize(
    plan: Plan,
    release: ReleaseRecord,
    agent: str | None,
    task: int,
    calibration: Calibration | None,
    *,
    features: Floats | None = None,
) -> Floats:
    """Return an agent's threshold for one task.

    Shape () shared, (C,) per label, (n, 1) per input. It is +inf where it would be the agent's own
    and the agent has no point of the group.
    """
    this, outcome = plan.tasks[task], release.outcomes[task]
    shared = outcome.threshold(None)
    gone = shared == np.inf or (shared is None and release.took_no_part(agent, task))
    if gone and not plan.traits.floors:
        return np.asarray(np.inf)
    points = None
    if calibration is not None:
        points = part_of(release.round, calibration.column(this.column), this.group)
    return plan.method.localize(
        outcome, points, release.position(agent, task), this.alpha, features
    )


_ENOUGH = 10
"""So many rows without ids must be alike before it is said: fewer may be chance."""
_SECRET = int.from_bytes(os.urandom(8), "big")
"""Key of the fingerprints of this process."""


class Fingerprints(NamedTuple):
    """Keyed hashes of an agent's rows: they find equal rows in this process and reveal none."""

    values: npt.NDArray[np.uint64]
    ids: npt.NDArray[np.int64] | None
    of_scores: bool


def fingerprints(data: Outputs | Calibration) -> Fingerprints:
    """Return the hash of each row's outputs (of its scores in a `Calibration`), and of its id."""
    rows = _table(data)
    hashes, by = np.empty(len(rows), np.uint64), _multipliers(rows.shape[1])
    for start in range(0, len(rows), ROWS):
        words = np.ascontiguousarray(rows[start : start + ROWS], np.float64).view(np.uint64)
        words = words ^ (words >> np.uint64(32))  # short numbers end in zeros
        np.einsum("ij,j->i", words, by, out=hashes[start : start + ROWS])
    ids = None if isinstance(data, Calibration) else data.ids
    if ids is not None:  # str: 7 in one file, "7" in another
        ids = np.fromiter(map(hash, map(str, ids.tolist())), np.int64, len(ids))
    return Fingerprints(hashes, ids, isinstance(data, Calibration))


def calibration_rows(
    round: Round, new: Outputs, known: Outputs | Calibration | Fingerprints | None
) -> Finding | None:
    """Count the test rows that are like rows of an agent's calibration data; None without any.

    With ids on both sides, rows are alike that have the same id and outputs. Without, nobody
    knows: those count whose outputs (scores, where calibration data are scores) have more than six
    decimals and occur once on each side, if they are half of the test rows and at least `_ENOUGH`.
    """
    n = len(new.values)
    if known is None or not n:
        return None
    if isinstance(known, Outputs):
        known = known.in_classes(round.classes)
    there = known if isinstance(known, Fingerprints) else fingerprints(known)
    data: Outputs | Calibration = new.in_classes(round.classes)
    if there.of_scores and isinstance(data, Outputs):
        data = scored(Plan.of(round).score, round.key, data)
    here = fingerprints(data)
    if here.ids is not None and there.ids is not None:
        pairs = here.values ^ here.ids.view(np.uint64), there.values ^ there.ids.view(np.uint64)
        count = int(np.count_nonzero(np.isin(*pairs)))
        how = "ids"
    else:
        rows = _table(data).astype(np.float64, copy=False)
        long = (np.round(rows, 6) != rows).any(axis=1)
        count = len(np.intersect1d(_once(here.values[long]), _once(there.values)))
        count = count if count >= max(_ENOUGH, n / 2) else 0
        how = "scores" if there.of_scores else "outputs"
    return Finding.of("calibration-rows", rows=count, n=n, how=how) if count else None


def _table(data: Outputs | Calibration) -> npt.NDArray[Any]:
    """Return what a model put out, or its scores, as a table."""
    values = data.scores if isinstance(data, Calibration) else data.values
    return values.reshape(len(values), math.prod(values.shape[1:]))


@cache
def _multipliers(columns: int) -> npt.NDArray[np.uint64]:
    """Return a random odd number for each column, the same ones throughout the process."""
    drawn = np.random.default_rng(_SECRET).integers(2**64, size=columns, dtype=np.uint64)
    return drawn | np.uint64(1)


def _once(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    different, counts = np.unique(values, return_counts=True)
    alone: npt.NDArray[np.uint64] = different[counts == 1]
    return alone


def check_same_round(
    release: ReleaseRecord, answered: Round, files: tuple[Path, Path] | None = None
) -> None:
    """Refuse a release of another round, or of other terms, than an agent answered.

    ``files`` are those of the release and of the round, where somebody named them.
    """
    ours, theirs = answered.id, release.round.id
    source: str | Path = "server" if files is None else files[0]
    if theirs != ours:
        why = f"the release is of round {theirs}, this agent has {ours}"
        if files is not None:
            why = (
                f"it is of round {theirs}, {files[1].name} is of round {ours}: ask the server for "
                f"the release of {ours}, or give the round file of {theirs}"
            )
        raise WrongRoundError(source, "round", why)
    if names := other_terms(release.round, answered):
        raise WrongRoundError(
            source, ", ".join(names), "must be as in the round that this agent answered"
        )


def other_terms(round: Round, answered: Round) -> list[str]:
    """Return which terms of a round are not those that agents answered."""
    ours, theirs = answered.brief(), round.brief()
    names = Round.__struct_fields__
    return [name for name in names if getattr(ours, name) != getattr(theirs, name)]


def check_ids(score: Score, outputs: Outputs, whose: str = "") -> None:
    """Ask for ids where a score is randomised.

    Files and sites may leave them out; here a caller who forgets them on one side alone would mix
    uniforms made of ids with uniforms made of content.
    """
    if score.randomized and outputs.ids is None:
        raise InputError(
            f"{whose}score {name_of(score)!r} is randomised, its random part is a hash of the "
            "row's id: pass ids, one for each row; rows that have none get ids of their content "
            "with fw.scores.row_ids(probs)"
        )


def check_classes(round: Round, outputs: Outputs) -> None:
    """Refuse outputs with another number of classes than the round's."""
    if round.n_classes is None or not isinstance(Plan.of(round).score, LabelScore | MultiLabel):
        return
    classes = outputs.values.shape[1] if outputs.values.ndim == 2 else 1
    if classes != round.n_classes:
        row = outputs.values.ndim == 1 and len(outputs.values) == round.n_classes
        cure = "give one column for each class of the round"
        cures = (cure, f"{cure}, or ask the server for a round with the classes of this model")
        one = "one row must be a table of one row, such as probs[None]"
        raise InputError(
            f"the round has {round.n_classes} classes, the outputs have {classes}",
            cure=(one, one) if row else cures,
        )


def _check_kind(outputs: Outputs) -> None:
    """Refuse logits: only the command line turns them into probabilities."""
    if outputs.logits:
        raise InputError(
            "the outputs are logits, which only `agent calibrate` and `agent predict` read: give "
            "probabilities, fw.softmax(logits)"
        )
