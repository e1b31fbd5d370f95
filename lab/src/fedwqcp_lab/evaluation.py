"""From saved model outputs to results: every preset and method on one unit.

Under a preset all calibration and test points are scored once (`prepare`). Every method then runs a
round with the same messages as in the field (`calibrate_row`), and its thresholds are compared with
the scores of the test points (`ScoredTestSet`).
"""

from __future__ import annotations

import os
import subprocess
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import fedwqcp
from fedwqcp import methods
from fedwqcp.api import calibrate
from fedwqcp.errors import InfiniteThresholdWarning, InputError
from fedwqcp.federation.release import Release
from fedwqcp.methods import Calibration, Method
from fedwqcp.methods.cphet.densities import read_mixture
from fedwqcp.quantile import conformal_quantile
from fedwqcp.registry import settings_of
from fedwqcp.scores import IntervalScore, LabelScore, Rule, Score, uniforms
from fedwqcp.scores.aps import APS
from fedwqcp.scores.cqr import CQR
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp.wire.messages import LocalQuantile, Number, Target
from fedwqcp_lab.datasets.partition import Floats, stream
from fedwqcp_lab.experiment import Experiment, MethodPlan, PresetPlan, digest
from fedwqcp_lab.results import AgentPartition, Result
from fedwqcp_lab.unit import AgentOutputs, Numbers, Unit, UnitSetting

NO_PROOF = "none"
"""The guarantee of a row that is a reading of published figures and no method."""


def evaluate(unit: Unit, experiment: Experiment) -> tuple[Result, ...]:
    """Calibrate with every method under every preset, and measure all agents' sets."""
    import scipy.special  # noqa: F401  # some methods load it late; no row shall pay for that

    rows = scored_rows(unit, experiment)
    return tuple(result for row in rows for result in _row(unit, experiment, *row))


def scored_rows(unit: Unit, experiment: Experiment) -> Iterator[tuple[Scored, MethodPlan]]:
    """Yield every method that fits a unit, with the unit scored once for each preset."""
    scored: Scored | None = None
    for preset, plan in applicable(experiment, unit.setting.task, quantiles=unit.quantiles):
        if scored is None or scored.preset is not preset:
            scored = prepare(unit, preset)
        yield scored, plan


def partitions(unit: Unit) -> tuple[AgentPartition, ...]:
    """Return how the calibration points are divided."""
    setting = unit.setting
    found = []
    for place, agent in enumerate(setting.agents):
        own = setting.labels[setting.part(place)]
        counts = [len(own)]
        if setting.n_classes is not None:
            counts = np.bincount(own.astype(np.int64), minlength=setting.n_classes).tolist()
        found.append(
            AgentPartition(
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


def applicable(
    experiment: Experiment, task: str, *, quantiles: bool
) -> tuple[tuple[PresetPlan, MethodPlan], ...]:
    """Return the presets and methods that fit some data, in the order of the experiment."""
    found = []
    for preset in experiment.presets:
        score = preset.score(task)
        if score is None or (needs_quantiles(score) and not quantiles):
            continue
        found += [(preset, plan) for plan in experiment.methods if fits(plan, task, score)]
    return tuple(found)


def fits(plan: MethodPlan, task: str, score: Score) -> bool:
    """Tell whether a method takes such data: labels where it needs them, scores in its range."""
    traits = methods.get(plan.method, **plan.settings).traits
    if (plan.by or traits.needs_labels) and task != "classification":
        return False
    # sums of probabilities in float32 pass 1 a little
    return traits.score_range is None or score.bounds()[1] <= traits.score_range[1] + 0.01


def prepare(unit: Unit, preset: PresetPlan) -> Scored:
    """Score all calibration and test points."""
    setting = unit.setting
    score = preset.score(setting.task)
    if score is None or (needs_quantiles(score) and not unit.quantiles):
        raise InputError(f"preset {preset.name!r} does not fit {setting.dataset}")
    began = time.perf_counter()
    calibrations = {
        agent.name: _calibration(setting, place, agent, preset, score)
        for place, agent in enumerate(unit.outputs)
    }
    halfway = time.perf_counter()
    models = {id(agent.test): agent for agent in unit.outputs}  # agents may share a model
    made = {key: _test_set(setting, agent, preset, score) for key, agent in models.items()}
    test_sets = {agent.name: made[id(agent.test)] for agent in unit.outputs}
    ended = time.perf_counter()
    return Scored(preset, score, calibrations, test_sets, halfway - began, ended - halfway)


@dataclass(frozen=True, eq=False)
class Scored:
    """A unit under one preset: the agents' scored data by name, and the seconds that it took."""

    preset: PresetPlan
    score: Score
    calibrations: dict[str, Calibration]
    test_sets: dict[str, ScoredTestSet]
    calibration_s: float
    test_sets_s: float

    def rule(self, plan: MethodPlan) -> Rule:
        """Return the set rule of a method's row; intervals have no choice."""
        if not isinstance(self.score, LabelScore):
            return "leq"
        return plan.rule or self.preset.rule


class ScoredTestSet(ABC):
    """One agent's test points under one score."""

    @abstractmethod
    def sets(self, threshold: float | Floats, rule: Rule) -> LabelSets | Intervals:
        """Return the sets of a threshold: exactly what ``score.invert`` gives."""

    @abstractmethod
    def measure(self, threshold: float | Floats, rule: Rule) -> SetMetrics:
        """Return coverage and size of the sets of a threshold."""


class LabelTestSet(ScoredTestSet):
    """Test points of a classifier: the scores of every label, computed once."""

    def __init__(self, score: LabelScore, probs: Numbers, truth: Numbers, u: Floats | None) -> None:
        n, n_classes = probs.shape
        self._score, self._probs, self._u = score, probs, u
        self._scores = score.of_every_label(probs, u)
        # of equals the first, as ranked
        self._top = np.arange(n) * n_classes + probs.argmax(axis=1)
        self._labels = np.asarray(truth, dtype=np.int64)  # as a unit holds them
        self._truth = np.arange(n) * n_classes + self._labels
        self._counts = np.bincount(self._labels, minlength=n_classes)

    def sets(self, threshold: float | Floats, rule: Rule) -> LabelSets:
        if rule == "until":
            return self._score.invert(self._probs, threshold, rule, self._u)
        mask = self._scores <= threshold
        if rule == "leq_top1":
            mask.ravel()[self._top] = True
        return LabelSets(mask)

    def measure(self, threshold: float | Floats, rule: Rule) -> SetMetrics:
        mask = self.sets(threshold, rule).mask
        hits = np.bincount(self._labels[mask.ravel()[self._truth]], minlength=len(self._counts))
        there = self._counts > 0
        return SetMetrics(
            len(mask),
            int(hits.sum()),
            float(np.count_nonzero(mask) / len(mask)),
            worst_class=float((hits[there] / self._counts[there]).min()),
        )


class IntervalTestSet(ScoredTestSet):
    """Test points of a regressor; ``ordinal`` counts ordinal labels, None for real values."""

    def __init__(
        self, score: IntervalScore, outputs: Numbers, truth: Numbers, ordinal: int | None
    ) -> None:
        self._score, self._outputs, self._truth, self._ordinal = score, outputs, truth, ordinal

    def sets(self, threshold: float | Floats, rule: Rule) -> Intervals:
        del rule  # an interval follows from its threshold alone
        return self._score.invert(self._outputs, threshold)

    def measure(self, threshold: float | Floats, rule: Rule) -> SetMetrics:
        sets = self.sets(threshold, rule)
        clipped = labels = None
        if self._ordinal is not None:
            clipped = float(sets.clip(0, self._ordinal - 1).sizes().mean())
            labels = float(sets.labels(self._ordinal).sizes().mean())
        hits = int(np.count_nonzero(sets.cover(self._truth)))
        return SetMetrics(len(sets), hits, float(sets.sizes().mean()), clipped, labels)


@dataclass(frozen=True)
class SetMetrics:
    """What an agent's sets are on the test points, in the fields of a `Result`.

    Parameters
    ----------
    n_test, hits : int
        Test points, and those whose set held the truth.
    size : float
        Mean number of labels or mean length.
    clipped, labels : float or None
        For ordinal labels: mean length within their range, and mean number of labels inside.
    worst_class : float or None
        For class labels: the smallest share of a class's points whose set held the truth.
    """

    n_test: int
    hits: int
    size: float
    clipped: float | None = None
    labels: float | None = None
    worst_class: float | None = None


def calibrate_row(
    setting: UnitSetting, scored: Scored, plan: MethodPlan, alpha: float
) -> CalibratedRow:
    """Calibrate with one method of the comparison."""
    score_range = methods.get(plan.method, **plan.settings).traits.score_range
    highest = inf if score_range is None else score_range[1]
    cals = {n: limited(cal, highest, plan.components) for n, cal in scored.calibrations.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteThresholdWarning)  # the tables show it
        release = calibrate(
            cals,
            method=method_of(setting, plan, scored),
            target=target_of(setting, plan),
            alpha=alpha,
            score=scored.score,
            rule=scored.rule(plan),
            by=plan.by or None,
            allow_large_alpha=True,
            rng=int(stream(setting.seed, setting.dataset, plan.name).integers(2**31)),
        )
    if plan.take != "release":
        largest = _largest(release) if plan.take == "maximum" else _local_maximum(scored, plan)
        return CalibratedRow(release, dict.fromkeys(scored.calibrations, largest), NO_PROOF)
    found = {name: release.threshold(name) for name in scored.calibrations}
    return CalibratedRow(release, found, str(release.guarantee))


@dataclass(frozen=True, eq=False)
class CalibratedRow:
    """A round of one method: by agent a threshold, or one for each label, and what is proved."""

    release: Release
    thresholds: Mapping[str, float | Floats]
    guarantee: str


def method_of(setting: UnitSetting, plan: MethodPlan, scored: Scored) -> Method[Any]:
    """Return a row's method with all its settings."""
    settings = dict(plan.settings)
    taken = settings_of(methods.find(plan.method))
    if "overflow" in taken:
        settings.setdefault("overflow", scored.preset.overflow)
    bounds = scored.score.bounds(setting.n_classes)
    if "bounds" in taken and isfinite(bounds[1]):
        settings.setdefault("bounds", bounds)
    elif "bounds" in taken and setting.n_classes:  # residuals of ordinal labels
        settings.setdefault("bounds", (0.0, setting.n_classes - 1.0))
    return methods.get(plan.method, **settings)


def target_of(setting: UnitSetting, plan: MethodPlan) -> Target:
    """Return whom a row's agents will predict; the test data are the same for all of them."""
    shift = methods.get(plan.method, **plan.settings).traits.corrects_shift_of
    if shift is None or plan.target == "own":
        return "own"
    if plan.target == "":
        return "mixture"
    if plan.target == "balanced":
        return tuple(_balanced_labels(setting).tolist())
    if shift == "labels" or not plan.components:
        shares = setting.feature_distribution if shift == "features" else setting.label_distribution
        return tuple(shares.tolist())
    return _marginal(tuple(setting.feature_distribution.tolist()), plan.components)


def needs_quantiles(score: Score) -> bool:
    """Tell whether a score reads two quantiles, not one prediction."""
    return isinstance(score, CQR)


def probabilities(logits: Numbers, score: LabelScore) -> Numbers:
    """Return the softmax; in float32 where the score sums in float32, as the paper's tables do."""
    narrow = isinstance(score, APS) and score.precision == "float32"
    odds: Numbers = logits.astype(np.float32 if narrow else np.float64)
    odds -= odds.max(axis=1, keepdims=True)
    np.exp(odds, out=odds)
    odds /= odds.sum(axis=1, keepdims=True)
    return odds


def record_head(
    setting: UnitSetting, scored: Scored, plan: MethodPlan, alpha: float
) -> dict[str, Any]:
    """Return the fields of a `MethodRecord`."""
    return {
        **{name: getattr(setting, name) for name in ("dataset", "title", "status", "task", "seed")},
        "alpha": alpha,
        "preset": scored.preset.name,
        "method": plan.name,
    }


@cache
def code_versions() -> str:
    """Return the versions that numbers depend on, with the commit of this package where known."""
    own = f"fedwqcp {fedwqcp.__version__}{_commit()}"
    return ", ".join(
        [own, *(part for name in ("numpy", "scipy", "torch") if (part := _distribution(name)))]
    )


def _balanced_labels(setting: UnitSetting) -> Floats:
    """Return the label distribution where all groups of calibration points weigh alike."""
    classes = setting.n_classes or 1
    by_group = np.zeros((int(setting.groups.max()) + 1, classes))
    np.add.at(by_group, (setting.groups, setting.labels.astype(np.int64)), 1)
    there = by_group[by_group.sum(axis=1) > 0]
    shares: Floats = (there / there.sum(axis=1, keepdims=True)).mean(axis=0)
    return shares


def _row(
    unit: Unit, experiment: Experiment, scored: Scored, plan: MethodPlan
) -> tuple[Result, ...]:
    """Run one method, and measure every agent."""
    began = time.perf_counter()
    calibrated = calibrate_row(unit.setting, scored, plan, experiment.alpha)
    halfway = time.perf_counter()
    rule = scored.rule(plan)
    measured = {
        name: test_set.measure(calibrated.thresholds[name], rule)
        for name, test_set in scored.test_sets.items()
    }
    ended = time.perf_counter()
    calibration_s = scored.calibration_s + halfway - began
    setting, preset, release = unit.setting, scored.preset, calibrated.release
    config = digest(experiment.config(setting.dataset, preset.name, plan.name))
    results = []
    for agent in unit.outputs:
        cal, found = scored.calibrations[agent.name], measured[agent.name]
        local = conformal_quantile(cal.scores, experiment.alpha, preset.overflow)
        results.append(
            Result(
                **record_head(setting, scored, plan, experiment.alpha),
                agent=agent.name,
                model=agent.model,
                n_cal=cal.n,
                local=float(local),
                threshold=_number(calibrated.thresholds[agent.name]),
                **asdict(found),
                rounds=release.rounds,
                bytes_up=release.bytes_up(agent.name),
                bytes_down=release.bytes_down(agent.name),
                guarantee=calibrated.guarantee,
                config=config,
                code=code_versions(),
                device=setting.device,
                calibration_s=calibration_s,
                sets_s=calibration_s + scored.test_sets_s + ended - halfway,
            )
        )
    return tuple(results)


def _calibration(
    setting: UnitSetting, place: int, agent: AgentOutputs, preset: PresetPlan, score: Score
) -> Calibration:
    """Score an agent's own points."""
    part = setting.part(place)
    truth, features = setting.labels[part], setting.features[part]
    if isinstance(score, LabelScore):
        u = _uniforms(setting, score, "calibration", setting.rows[part])
        values = score.of(probabilities(agent.calibration, score), truth, u)
        return Calibration(values, truth, features, setting.n_classes)
    outputs = _outputs(setting, agent.calibration, agent.quantiles, preset, score)
    return Calibration(_intervals(score).of(outputs, truth), None, features)


def _test_set(
    setting: UnitSetting, agent: AgentOutputs, preset: PresetPlan, score: Score
) -> ScoredTestSet:
    """Score an agent's test points."""
    truth = setting.test_labels
    if isinstance(score, LabelScore):
        u = _uniforms(setting, score, "test", np.arange(len(truth)))
        return LabelTestSet(score, probabilities(agent.test, score), truth, u)
    outputs = _outputs(setting, agent.test, agent.test_quantiles, preset, score)
    return IntervalTestSet(_intervals(score), outputs, truth, setting.n_classes)


def _uniforms(
    setting: UnitSetting, score: LabelScore, points: str, rows: npt.NDArray[np.int64]
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
    setting: UnitSetting,
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


def limited(cal: Calibration, highest: float, components: int) -> Calibration:
    """Return scores up to the highest that a method takes, and some of the components, 0 for all.

    Sums in float32 may pass the end of a range a little.
    """
    features = cal.features
    if components and features is not None:
        features = features[:, :components]
    return Calibration(np.minimum(cal.scores, highest), cal.labels, features, cal.n_classes)


def _marginal(density: tuple[float, ...], components: int) -> tuple[float, ...]:
    """Return the density of the first components."""
    mixture = read_mixture(density)
    kept = slice(components)
    return replace(
        mixture, means=mixture.means[:, kept], covariances=mixture.covariances[:, kept, kept]
    ).numbers()


def _local_maximum(scored: Scored, plan: MethodPlan) -> float:
    """Return the ``place``-th smallest of the agents' largest scores.

    Scores in float32 may pass the end of their range by rounding; the threshold does not.
    """
    top = 1.0 if isinstance(scored.score, APS) else inf
    maxima = sorted(float(cal.scores.max()) for cal in scored.calibrations.values() if cal.n)
    return min(maxima[min(plan.place, len(maxima)) - 1], top)


def _largest(release: Release) -> float:
    """Return the largest local quantile that an agent with points sent; +inf without any."""
    sent = [summaries[0] for summaries in release.received.values()]
    if not all(isinstance(s, LocalQuantile) for s in sent):
        raise InputError("take = 'maximum' needs a method whose agents send local quantiles")
    own = [s.threshold for s in sent if isinstance(s, LocalQuantile) and s.n]
    return max(own, default=float("inf"))


def _number(threshold: float | Floats) -> Number:
    """Return a threshold as plain numbers."""
    if np.ndim(threshold) == 0:
        return float(threshold)
    return tuple(float(q) for q in np.asarray(threshold).ravel())


def _distribution(name: str) -> str:
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
