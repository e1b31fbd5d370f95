"""From a release to the predictor of one site."""

from __future__ import annotations

from datetime import date
from math import inf
from pathlib import Path

import numpy as np

from fedwqcp import methods
from fedwqcp.errors import InputError
from fedwqcp.federation.plan import Plan, choose_method, choose_score, stamp
from fedwqcp.federation.predict import proved_at, thresholds
from fedwqcp.methods import Calibration
from fedwqcp.scores.custom import Custom
from fedwqcp.serve import Level, Predictor
from fedwqcp.serve.predictor import Threshold, bound_to
from fedwqcp.wire.release import ReleaseRecord


def predictor_of(
    release: ReleaseRecord,
    agent: str | None,
    calibration: Calibration | None = None,
    *,
    proved: dict[float, float | None] | None = None,
    temperature: float | None = None,
    model: str | Path | None = None,
    data_period: str | None = None,
    valid_until: str | date | None = None,
) -> Predictor:
    """Resolve an agent's thresholds for every level, label and group.

    ``proved`` is what is proved at each level, where the calibration data are not given.
    """
    round, plan = release.round, Plan.of(release.round)
    if isinstance(plan.score, Custom):
        raise InputError(
            f"score {round.score.name!r} is the caller's own: its sets are not made here"
        )
    levels = []
    for alpha in round.alphas:
        rows: list[tuple[Threshold, ...]] = []
        for group in round.groups or (None,):
            found = np.ravel(thresholds(release, agent, alpha, calibration, group=group))
            rows.append(tuple("inf" if q == inf else float(q) for q in found))
        known = (proved or {}).get(alpha)
        here = proved_at(round, calibration, alpha) if calibration is not None else known
        levels.append(Level(alpha, tuple(rows), here))
    return Predictor(
        agent=agent,
        score=choose_score(plan.score),
        method=choose_method(methods.get(round.method.name, **round.method.settings)),
        levels=tuple(levels),
        guarantee=release.guarantee,
        promise=release.guarantee.in_words,
        assumption=release.assumption,
        round=round.id,
        rule=round.rule,  # type: ignore[arg-type]  # Plan.of checks it
        key=round.key,
        n_classes=round.n_classes or _columns(levels, plan),
        classes=round.classes,
        by=round.by,  # type: ignore[arg-type]  # a round checks it
        groups=round.groups,
        temperature=temperature,
        provenance=stamp() | bound_to(model, data_period, valid_until),
    )


def _columns(levels: list[Level], plan: Plan) -> int | None:
    """Return how many labels have a threshold of their own; None where one is for all."""
    width = max(len(row) for level in levels for row in level.thresholds)
    return width if width > plan.score.columns else None
