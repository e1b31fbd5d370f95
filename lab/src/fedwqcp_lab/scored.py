"""A unit under one preset: the scores of all points, computed once for all methods."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.methods import Calibration
from fedwqcp.scores import IntervalScore, LabelScore, Rule, Score, uniforms
from fedwqcp.scores.aps import APS
from fedwqcp.scores.cqr import CQR
from fedwqcp_lab.boards import Board, IntervalBoard, LabelBoard
from fedwqcp_lab.plans import MethodPlan, PresetPlan
from fedwqcp_lab.unit import Numbers, Setting, Side, Unit


@dataclass(frozen=True, eq=False)
class Scored:
    """What every method starts from.

    Parameters
    ----------
    preset : PresetPlan
        The preset.
    score : Score
        Its score.
    calibrations : dict of str to Calibration
        The agents' calibration data.
    boards : dict of str to Board
        The agents' test points.
    calibration_s, boards_s : float
        Seconds that both took.
    """

    preset: PresetPlan
    score: Score
    calibrations: dict[str, Calibration]
    boards: dict[str, Board]
    calibration_s: float
    boards_s: float

    def rule(self, plan: MethodPlan) -> Rule:
        """Return the set rule of a method's row; intervals have no choice.

        Parameters
        ----------
        plan : MethodPlan
            The method.

        Returns
        -------
        str
            Its own rule, else the preset's.
        """
        if not isinstance(self.score, LabelScore):
            return "leq"
        return plan.rule or self.preset.rule


def prepare(unit: Unit, preset: PresetPlan) -> Scored:
    """Score all calibration and test points.

    Parameters
    ----------
    unit : Unit
        Saved model outputs.
    preset : PresetPlan
        Whose score.

    Returns
    -------
    Scored
        The scores.

    Raises
    ------
    InputError
        If the preset has no score for the task, or the outputs it needs are not there.
    """
    setting = unit.setting
    score = preset.score(setting.task)
    if score is None or (needs_quantiles(score) and not unit.quantiles):
        raise InputError(f"preset {preset.name!r} does not fit {setting.dataset}")
    began = time.perf_counter()
    calibrations = {
        side.name: _calibration(setting, place, side, preset, score)
        for place, side in enumerate(unit.sides)
    }
    halfway = time.perf_counter()
    seen = {id(side.test): side for side in unit.sides}  # agents may have the same model
    made = {key: _board(setting, side, preset, score) for key, side in seen.items()}
    boards = {side.name: made[id(side.test)] for side in unit.sides}
    ended = time.perf_counter()
    return Scored(preset, score, calibrations, boards, halfway - began, ended - halfway)


def needs_quantiles(score: Score) -> bool:
    """Tell whether a score reads two quantiles, not one prediction.

    Parameters
    ----------
    score : Score
        A score.

    Returns
    -------
    bool
        True for CQR.
    """
    return isinstance(score, CQR)


def probabilities(logits: Numbers, score: LabelScore) -> Numbers:
    """Return class probabilities in the precision that a score asks for.

    Parameters
    ----------
    logits : ndarray, shape (n, C)
        Saved outputs.
    score : LabelScore
        The score that reads them.

    Returns
    -------
    ndarray of float64, shape (n, C)
        The softmax; in float32 where the score sums in float32, as the paper's tables do.
    """
    narrow = isinstance(score, APS) and score.precision == "float32"
    odds: Numbers = logits.astype(np.float32 if narrow else np.float64)
    odds -= odds.max(axis=1, keepdims=True)
    np.exp(odds, out=odds)
    odds /= odds.sum(axis=1, keepdims=True)
    return odds


def _calibration(
    setting: Setting, place: int, side: Side, preset: PresetPlan, score: Score
) -> Calibration:
    """Score an agent's own points."""
    part = setting.part(place)
    truth, features = setting.labels[part], setting.features[part]
    if isinstance(score, LabelScore):
        u = _uniforms(setting, score, "calibration", setting.rows[part])
        values = score.of(probabilities(side.calibration, score), truth, u)
        return Calibration(values, truth, features, setting.n_classes)
    outputs = _outputs(setting, side.calibration, side.quantiles, preset, score)
    return Calibration(_intervals(score).of(outputs, truth), None, features)


def _board(setting: Setting, side: Side, preset: PresetPlan, score: Score) -> Board:
    """Score an agent's test points."""
    truth = setting.test_labels
    if isinstance(score, LabelScore):
        u = _uniforms(setting, score, "test", np.arange(len(truth)))
        return LabelBoard(score, probabilities(side.test, score), truth, u)
    outputs = _outputs(setting, side.test, side.test_quantiles, preset, score)
    return IntervalBoard(_intervals(score), outputs, truth, setting.n_classes)


def _uniforms(
    setting: Setting, score: LabelScore, points: str, rows: npt.NDArray[np.int64]
) -> Floats | None:
    """Return the random part of a score: the same for a point whoever holds it."""
    if not score.randomized:
        return None
    return uniforms(f"{setting.dataset} {setting.seed} {points}", rows)


def _intervals(score: Score) -> IntervalScore:
    """Return a score that makes intervals."""
    if not isinstance(score, IntervalScore):
        raise InputError(f"{score!r} makes neither sets of labels nor intervals")
    return score


def _outputs(
    setting: Setting,
    predictions: Numbers,
    quantiles: Numbers | None,
    preset: PresetPlan,
    score: Score,
) -> Numbers:
    """Return what an interval score reads: predictions, quantiles, or predictions and spreads."""
    if needs_quantiles(score) and quantiles is not None:  # `prepare` has looked
        return quantiles
    if not preset.spread:
        return predictions
    low, high = (0, setting.n_classes - 1) if setting.n_classes else (-np.inf, np.inf)
    f = predictions.clip(low, high).astype(np.float64)
    a, b = preset.spread
    return np.column_stack([f, a + b * f])
