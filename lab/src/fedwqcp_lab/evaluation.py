"""Scores of the test points, computed once; every method then only compares thresholds."""

from __future__ import annotations

import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import fedwqcp
from fedwqcp import methods
from fedwqcp.arrays import Floats, as_labels
from fedwqcp.demo.data import stream
from fedwqcp.errors import InputError
from fedwqcp.federation.transport.local import calibrate
from fedwqcp.methods import Calibration, Method
from fedwqcp.quantile import conformal_quantile
from fedwqcp.scores import IntervalScore, LabelScore, Rule, Score, uniforms
from fedwqcp.scores.aps import APS
from fedwqcp.scores.cqr import CQR
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp.wire.payload import LocalQuantile, Number
from fedwqcp.wire.release import Release
from fedwqcp_lab.experiment import Experiment, MethodPlan, PresetPlan, digest
from fedwqcp_lab.results import Result, Share
from fedwqcp_lab.unit import Numbers, Setting, Side, Unit


@dataclass(frozen=True)
class Measured:
    """What an agent's sets are on the test points.

    Parameters
    ----------
    n, hits : int
        Test points, and those whose set held the truth.
    size : float
        Mean number of labels or mean length.
    clipped, labels : float or None
        For ordinal labels: mean length within their range, and mean number of labels inside.
    worst_class : float or None
        For class labels: the smallest share of a class's points whose set held the truth.
    """

    n: int
    hits: int
    size: float
    clipped: float | None = None
    labels: float | None = None
    worst_class: float | None = None


class Board(ABC):
    """One agent's test points under one score."""

    def sets(self, threshold: float | Floats, rule: Rule) -> LabelSets | Intervals:
        """Return the sets of a threshold.

        Parameters
        ----------
        threshold : float or Floats
            One, or one for each label.
        rule : {"leq", "leq_top1", "until"}
            How it becomes a set of labels.

        Returns
        -------
        LabelSets or Intervals
            Exactly what ``score.invert`` gives.
        """
        return self._sets(threshold, rule)

    def measure(self, threshold: float | Floats, rule: Rule) -> Measured:
        """Return coverage and size under a threshold.

        Parameters
        ----------
        threshold : float or Floats
            One, or one for each label.
        rule : {"leq", "leq_top1", "until"}
            How it becomes a set of labels.

        Returns
        -------
        Measured
            The figures.
        """
        return self._measure(threshold, rule)

    @abstractmethod
    def _sets(self, threshold: float | Floats, rule: Rule) -> LabelSets | Intervals:
        """Build the sets."""

    @abstractmethod
    def _measure(self, threshold: float | Floats, rule: Rule) -> Measured:
        """Count hits and sizes."""


class LabelBoard(Board):
    """The scores of every label.

    Parameters
    ----------
    score : LabelScore
        The score.
    probs : ndarray, shape (n, C)
        Class probabilities.
    truth : ndarray, shape (n,)
        The true labels.
    u : Floats, shape (n,), or None
        Uniforms of a randomised score.
    """

    def __init__(self, score: LabelScore, probs: Numbers, truth: Numbers, u: Floats | None) -> None:
        n, n_classes = probs.shape
        self._score, self._probs, self._u = score, probs, u
        self._scores = score.of_every_label(probs, u)
        self._top = np.arange(n) * n_classes + probs.argmax(
            axis=1
        )  # of equals the first, as ranked
        self._labels = as_labels(truth, n, n_classes)
        self._truth = np.arange(n) * n_classes + self._labels
        self._counts = np.bincount(self._labels, minlength=n_classes)

    def _sets(self, threshold: float | Floats, rule: Rule) -> LabelSets:
        """Compare the scores, which are there, with the threshold."""
        if rule == "until":
            return self._score.invert(self._probs, threshold, rule, self._u)
        mask = self._scores <= threshold
        if rule == "leq_top1":
            mask.ravel()[self._top] = True
        return LabelSets(mask)

    def _measure(self, threshold: float | Floats, rule: Rule) -> Measured:
        """Count labels and hits."""
        mask = self._sets(threshold, rule).mask
        hits = np.bincount(self._labels[mask.ravel()[self._truth]], minlength=len(self._counts))
        there = self._counts > 0
        return Measured(
            len(mask),
            int(hits.sum()),
            float(np.count_nonzero(mask) / len(mask)),
            worst_class=float((hits[there] / self._counts[there]).min()),
        )


class IntervalBoard(Board):
    """The predictions of a regressor.

    Parameters
    ----------
    score : IntervalScore
        The score.
    outputs : ndarray, shape (n,) or (n, 2)
        What the model puts out.
    truth : ndarray, shape (n,)
        The true values.
    ordinal : int or None
        How many ordinal labels the values are, counted from 0; None for real values.
    """

    def __init__(
        self, score: IntervalScore, outputs: Numbers, truth: Numbers, ordinal: int | None
    ) -> None:
        self._score = score
        self._outputs = outputs
        self._truth = truth
        self._ordinal = ordinal

    def _sets(self, threshold: float | Floats, rule: Rule) -> Intervals:
        """Build the intervals."""
        del rule  # an interval follows from its threshold alone
        return self._score.invert(self._outputs, threshold)

    def _measure(self, threshold: float | Floats, rule: Rule) -> Measured:
        """Count hits, and take lengths raw, clipped and as labels."""
        sets = self._sets(threshold, rule)
        clipped = labels = None
        if self._ordinal is not None:
            clipped = float(sets.clip(0, self._ordinal - 1).sizes().mean())
            labels = float(sets.labels(self._ordinal).sizes().mean())
        hits = int(np.count_nonzero(sets.cover(self._truth)))
        return Measured(len(sets), hits, float(sets.sizes().mean()), clipped, labels)


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
    taken = methods.find(plan.method).settings()
    if "overflow" in taken:
        settings.setdefault("overflow", scored.preset.overflow)
    bounds = scored.score.bounds(setting.n_classes)
    if "bounds" in taken and isfinite(bounds[1]):
        settings.setdefault("bounds", bounds)
    if plan.aim == "own":
        settings["target"] = "own"
    if plan.aim == "training":
        shift = methods.get(plan.method, **plan.settings).corrects_shift_of
        law = setting.feature_law if shift == "features" else setting.label_law
        settings["target"] = tuple(law.tolist())
    return methods.get(plan.method, **settings)


def _fit(cal: Calibration, plan: MethodPlan) -> Calibration:
    """Return data that a method takes: sums in float32 may pass the end of its range."""
    known = methods.find(plan.method).score_range
    if known is None:
        return cal
    return Calibration(np.minimum(cal.scores, known[1]), cal.labels, cal.features, cal.n_classes)


def _largest(release: Release) -> float:
    """Return the largest local quantile that an agent with points sent; +inf without any."""
    sent = [summaries[0] for summaries in release.received.values()]
    if not all(isinstance(s, LocalQuantile) for s in sent):
        raise InputError("take = 'maximum' needs a method whose agents send local quantiles")
    own = [s.threshold for s in sent if isinstance(s, LocalQuantile) and s.n]
    return max(own, default=float("inf"))


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
        In the order of the experiment. A method that needs labels, or scores within a range, and
        rows by label are left out where the data have none.
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
    method = methods.get(plan.method, **plan.settings)
    if (plan.by or method.needs_labels) and task != "classification":
        return False
    known = method.score_range
    return known is None or score.bounds()[1] < known[1] + 0.01  # sums in float32 may pass it


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
        code=code_versions(),
        device=setting.device,
        calibration_s=seconds[0],
        sets_s=seconds[1],
    )


def _number(threshold: float | Floats) -> Number:
    """Return a threshold as plain numbers."""
    if np.ndim(threshold) == 0:
        return float(threshold)
    return tuple(float(q) for q in np.asarray(threshold).ravel())


@cache
def code_versions() -> str:
    """Return the versions that numbers depend on.

    Returns
    -------
    str
        This package, with its commit where it runs from a repository or ``FEDWQCP_COMMIT`` tells
        it (for a copy without one), and those below it.
    """
    own = f"fedwqcp {fedwqcp.__version__}{_commit()}"
    return ", ".join([own, *(part for name in ("numpy", "scipy", "torch") if (part := _of(name)))])


def _of(name: str) -> str:
    """Return name and version of an installed distribution."""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return ""


def _commit() -> str:
    """Return the commit that ``FEDWQCP_COMMIT`` names, else that of this file's repository."""
    if named := os.environ.get("FEDWQCP_COMMIT"):
        return f" ({named})"
    here = Path(__file__)
    git = ["git", "-C", str(here.parent)]
    try:
        subprocess.run(
            [*git, "ls-files", "--error-unmatch", here.name], check=True, capture_output=True
        )
        found = subprocess.run(
            [*git, "rev-parse", "--short=12", "HEAD"], check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" ({found.stdout.strip()})"
