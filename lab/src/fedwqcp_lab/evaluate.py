"""From saved model outputs to results: every preset and method on one unit."""

from __future__ import annotations

import time

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.quantile import conformal_quantile
from fedwqcp.scores import Score
from fedwqcp.wire.payload import Number
from fedwqcp_lab import versions
from fedwqcp_lab.agree import Agreed, agree
from fedwqcp_lab.boards import Measured
from fedwqcp_lab.experiment import Experiment, digest
from fedwqcp_lab.plans import MethodPlan, PresetPlan
from fedwqcp_lab.result import Result, Share
from fedwqcp_lab.scored import Scored, needs_quantiles, prepare
from fedwqcp_lab.unit import Side, Unit


def applicable(
    experiment: Experiment, task: str, *, quantiles: bool
) -> tuple[tuple[PresetPlan, MethodPlan], ...]:
    """Return the rows that fit some data.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    task : {"classification", "regression"}
        What is predicted.
    quantiles : bool
        Whether there are models with quantile heads.

    Returns
    -------
    tuple of (PresetPlan, MethodPlan)
        In the order of the experiment. DP-FedCP knows labels and scores from 0 to 1 alone,
        FedLS-CP labels or strata, and rows by label labels; they are left out of everything else.
    """
    found = []
    for preset in experiment.presets:
        score = preset.score(task)
        if score is None or (needs_quantiles(score) and not quantiles):
            continue
        for plan in experiment.methods:
            if fits(plan, task, score):
                found.append((preset, plan))
    return tuple(found)


def fits(plan: MethodPlan, task: str, score: Score) -> bool:
    """Tell whether a method can do without what the data lack.

    Parameters
    ----------
    plan : MethodPlan
        The row.
    task : {"classification", "regression"}
        What is predicted.
    score : Score
        Of what.

    Returns
    -------
    bool
        See `applicable`.
    """
    if plan.by and task != "classification":
        return False
    if plan.method == "dp-fedcp":
        return task == "classification" and _to_one(score)
    if plan.method == "fedls-cp":
        return task == "classification" or bool(plan.settings.get("strata"))
    return True


def _to_one(score: Score) -> bool:
    """Tell whether a score ends at 1; sums in float32 may pass it a little."""
    return score.bounds()[1] < 1.01


def evaluate(unit: Unit, experiment: Experiment) -> tuple[Result, ...]:
    """Calibrate with every method under every preset, and measure all agents' sets.

    Parameters
    ----------
    unit : Unit
        Saved model outputs.
    experiment : Experiment
        What to compare.

    Returns
    -------
    tuple of Result
        One for each preset, method and agent.
    """
    import scipy.special  # noqa: F401  # some methods load it late; no row shall pay for that

    found: list[Result] = []
    scored: Scored | None = None
    for preset, plan in applicable(experiment, unit.setting.task, quantiles=unit.quantiles):
        if scored is None or scored.preset is not preset:
            scored = prepare(unit, preset)
        found += _row(unit, experiment, scored, plan)
    return tuple(found)


def shares(unit: Unit) -> tuple[Share, ...]:
    """Return how the calibration points are divided.

    Parameters
    ----------
    unit : Unit
        The unit.

    Returns
    -------
    tuple of Share
        One for each agent.
    """
    setting = unit.setting
    found = []
    for place, agent in enumerate(setting.agents):
        own = setting.labels[setting.part(place)]
        counts = [len(own)]
        if setting.n_classes is not None:
            counts = np.bincount(own.astype(np.int64), minlength=setting.n_classes).tolist()
        found.append(
            Share(
                dataset=setting.dataset,
                title=setting.title,
                status=setting.status,
                task=setting.task,
                seed=setting.seed,
                agent=agent,
                counts=tuple(counts),
                quantiles=unit.quantiles,
            )
        )
    return tuple(found)


def _row(
    unit: Unit, experiment: Experiment, scored: Scored, plan: MethodPlan
) -> tuple[Result, ...]:
    """Run one method, and measure every agent."""
    began = time.perf_counter()
    agreed = agree(unit.setting, scored, plan, experiment.alpha)
    halfway = time.perf_counter()
    rule = scored.rule(plan)
    measured = {
        name: board.measure(agreed.thresholds[name], rule) for name, board in scored.boards.items()
    }
    ended = time.perf_counter()
    calibration_s = scored.calibration_s + halfway - began
    seconds = calibration_s, calibration_s + scored.boards_s + ended - halfway
    config = digest(experiment.config(unit.setting.dataset, scored.preset.name, plan.name))
    return tuple(
        _result(
            unit,
            scored,
            plan,
            agreed,
            side,
            found=measured[side.name],
            config=config,
            seconds=seconds,
        )
        for side in unit.sides
    )


def _result(
    unit: Unit,
    scored: Scored,
    plan: MethodPlan,
    agreed: Agreed,
    side: Side,
    *,
    found: Measured,
    config: str,
    seconds: tuple[float, float],
) -> Result:
    """Write down what one agent got."""
    setting, preset, release = unit.setting, scored.preset, agreed.release
    cal = scored.calibrations[side.name]
    alpha = release.round.alphas[0]
    return Result(
        dataset=setting.dataset,
        title=setting.title,
        status=setting.status,
        task=setting.task,
        seed=setting.seed,
        alpha=alpha,
        preset=preset.name,
        method=plan.name,
        agent=side.name,
        model=side.model,
        n_cal=cal.n,
        local=float(conformal_quantile(cal.scores, alpha, preset.overflow)),
        threshold=_number(agreed.thresholds[side.name]),
        n_test=found.n,
        hits=found.hits,
        size=found.size,
        clipped=found.clipped,
        labels=found.labels,
        worst_class=found.worst_class,
        rounds=release.rounds,
        bytes_up=release.bytes_up(side.name),
        bytes_down=release.bytes_down(side.name),
        samples=plan.samples,
        guarantee=agreed.guarantee,
        config=config,
        code=versions.code(),
        device=setting.device,
        calibration_s=seconds[0],
        sets_s=seconds[1],
    )


def _number(threshold: float | Floats) -> Number:
    """Return a threshold as plain numbers."""
    if np.ndim(threshold) == 0:
        return float(threshold)
    return tuple(float(q) for q in np.asarray(threshold).ravel())
