"""One method on scored agents, through the same messages as in the field."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from fedwqcp import methods
from fedwqcp.arrays import Floats
from fedwqcp.demo.streams import stream
from fedwqcp.errors import InputError
from fedwqcp.federation.transport.local import calibrate
from fedwqcp.methods import Calibration, Method
from fedwqcp.wire.payload import LocalQuantile
from fedwqcp.wire.release import Release
from fedwqcp_lab.plans import MethodPlan
from fedwqcp_lab.scored import Scored
from fedwqcp_lab.unit import Setting

NO_PROOF = "none"
"""The guarantee of a row that is a reading of published figures and no method."""


@dataclass(frozen=True, eq=False)
class Agreed:
    """What the agents ended with.

    Parameters
    ----------
    release : Release
        The round, for its rounds and bytes.
    thresholds : dict
        One for each agent: a number, or one for each label.
    guarantee : str
        What is proved of them.
    """

    release: Release
    thresholds: Mapping[str, float | Floats]
    guarantee: str


def agree(setting: Setting, scored: Scored, plan: MethodPlan, alpha: float) -> Agreed:
    """Run one method.

    Parameters
    ----------
    setting : Setting
        What the agents share.
    scored : Scored
        Their scores.
    plan : MethodPlan
        The method.
    alpha : float
        Miscoverage level.

    Returns
    -------
    Agreed
        Thresholds, and what they cost.
    """
    release = calibrate(
        {name: _fit(cal, plan) for name, cal in scored.calibrations.items()},
        method=method_of(setting, plan, scored),
        alpha=alpha,
        score=scored.score,
        rule=scored.rule(plan),
        by=plan.by or None,
        allow_samples=plan.samples,
        seed=int(stream(setting.seed, setting.dataset, plan.name).integers(2**31)),
    )
    if plan.take == "maximum":
        largest = _largest(release)
        return Agreed(release, dict.fromkeys(scored.calibrations, largest), NO_PROOF)
    found = {name: release.threshold(name) for name in scored.calibrations}
    return Agreed(release, found, str(release.guarantee))


def method_of(setting: Setting, plan: MethodPlan, scored: Scored) -> Method[Any]:
    """Return a row's method with all its settings.

    Parameters
    ----------
    setting : Setting
        Where the training data's laws are.
    plan : MethodPlan
        The row.
    scored : Scored
        Whose preset says what agents with too few points do, and whose score has a range.

    Returns
    -------
    Method
        The method.
    """
    settings = dict(plan.settings)
    taken = {f.name for f in dataclasses.fields(methods.find(plan.method))}  # type: ignore[arg-type]  # all are dataclasses
    if "overflow" in taken:
        settings.setdefault("overflow", scored.preset.overflow)
    bounds = scored.score.bounds(setting.n_classes)
    if "bounds" in taken and isfinite(bounds[1]):
        settings.setdefault("bounds", bounds)
    if plan.aim == "own":
        settings["target"] = "own"
    if plan.aim == "training":
        labelled = plan.method in ("dp-fedcp", "fedls-cp")
        law = setting.label_law if labelled else setting.feature_law
        settings["target"] = tuple(law.tolist())
    return methods.get(plan.method, **settings)


def _fit(cal: Calibration, plan: MethodPlan) -> Calibration:
    """Return data that a method takes: sums in float32 may pass 1, and DP-FedCP's scale ends."""
    if plan.method != "dp-fedcp":
        return cal
    return Calibration(np.minimum(cal.scores, 1.0), cal.labels, cal.features, cal.n_classes)


def _largest(release: Release) -> float:
    """Return the largest local quantile that an agent with points sent; +inf without any."""
    sent = [summaries[0] for summaries in release.received.values()]
    if not all(isinstance(s, LocalQuantile) for s in sent):
        raise InputError("take = 'maximum' needs a method whose agents send local quantiles")
    own = [s.threshold for s in sent if isinstance(s, LocalQuantile) and s.n]
    return max(own, default=float("inf"))
