"""Each agent tested on its own distribution, on the shared test data and on two other mixes.

Agents hold unequal shares of some groups: classes, clusters of images, or hospitals. A record keeps
hits and sizes of every agent's sets by group of test points, so that coverage under any mix of the
groups follows from it: sum over groups of the mix's share times the coverage in the group.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypeAlias

import numpy as np

from fedwqcp._validation import Floats, Labels
from fedwqcp.demo.data import stream
from fedwqcp.errors import InputError, RecordError
from fedwqcp.methods.cphet import density_of
from fedwqcp.sets import Intervals
from fedwqcp_lab import unit as units
from fedwqcp_lab.evaluation import (
    Scored,
    applicable,
    calibrate_row,
    code_versions,
    prepare,
)
from fedwqcp_lab.experiment import DatasetPlan, Experiment, build, parse_seeds, read_toml
from fedwqcp_lab.pipeline import Folder, OnStep, Where, evaluate_units, silent, workers
from fedwqcp_lab.results import VERSION, Journal
from fedwqcp_lab.unit import AgentOutputs, Unit, UnitSetting

Mix: TypeAlias = Literal["own", "shared", "balanced", "neighbour"]
"""What an agent is tested on.

``own``: the groups as its calibration points have them; ``shared``: as the test data have them;
``balanced``: all equally; ``neighbour``: as the next agent's calibration points have them.
"""

MIXES: tuple[Mix, ...] = ("own", "shared", "balanced", "neighbour")

HOSPITALS = "heart"
"""The dataset whose agents are hospitals."""

HEART = Path("heart", "heart_disease.csv")
"""Its file in a data folder: UCI Heart Disease with a column for the site."""

MAIN = "randomised APS"
"""The preset of the tables that show one."""


@dataclass(frozen=True, kw_only=True)
class GroupedResult:
    """What one method gave all agents of a federation, by group of test points.

    Parameters
    ----------
    dataset, title, status : str
        Name of the data, as tables show it, and how the copy in use stands to the published one.
    task : {"classification", "regression"}
        What is predicted.
    seed : int
        Seed of split, partition and models.
    alpha : float
        Miscoverage level.
    preset, method : str
        Which settings, and which row.
    agents : tuple of str
        Their names.
    counts : tuple of tuple of int
        Calibration points of each agent in each group.
    tested : tuple of int
        Test points in each group.
    hits : tuple of tuple of int
        For each agent and group, the test points whose set held the truth.
    sizes : tuple of tuple of float
        For each agent and group, the mean size of the sets; of ordinal labels, the mean length
        within their range.
    guarantee : str
        What is proved.
    code, device : str
        Versions of the software, and where the models were trained.
    version : int
        Version of the format.
    """

    dataset: str
    title: str
    status: str
    task: Literal["classification", "regression"]
    seed: int
    alpha: float
    preset: str
    method: str
    agents: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    tested: tuple[int, ...]
    hits: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[float, ...], ...]
    guarantee: str
    code: str
    device: str
    version: int = VERSION

    @property
    def key(self) -> tuple[str, int, str, str]:
        """What no two records share."""
        return self.dataset, self.seed, self.preset, self.method

    def coverage(self, mix: Mix) -> dict[str, float]:
        """Return each agent's coverage under a mix; agents without points have no mix of own."""
        shares = self._shares(mix)
        by_group = np.array(self.hits) / np.array(self.tested)
        return {name: float(by_group[at] @ own) for name, (at, own) in shares.items()}

    def size(self, mix: Mix) -> float:
        """Return the mean over agents of the mean set size under a mix."""
        return fmean(float(np.dot(self.sizes[at], own)) for at, own in self._shares(mix).values())

    def agent_size(self, mix: Mix, agent: str) -> float:
        """Return one agent's mean set size under a mix."""
        at, own = self._shares(mix)[agent]
        return float(np.dot(self.sizes[at], own))

    def _shares(self, mix: Mix) -> dict[str, tuple[int, Floats]]:
        """Return place and group shares of every agent that has such a mix."""
        found = {}
        for at, name in enumerate(self.agents):
            counts: Sequence[int] = self.counts[at]
            if mix == "shared":
                counts = self.tested
            elif mix == "balanced":
                counts = [1] * len(self.tested)
            elif mix == "neighbour":
                counts = self.counts[(at + 1) % len(self.agents)]
            if sum(counts):
                found[name] = at, np.array(counts) / sum(counts)
        return found


@dataclass(frozen=True, kw_only=True)
class OwnStudy:
    """The study: an experiment on image data, and the same methods on hospitals.

    Parameters
    ----------
    experiment : Experiment
        Datasets, seeds, presets and methods.
    hospitals : Hospitals
        Level and seeds of the hospitals.
    """

    experiment: Experiment
    hospitals: Hospitals

    @property
    def on_hospitals(self) -> Experiment:
        """The experiment with hospitals for datasets."""
        return replace(
            self.experiment,
            alpha=self.hospitals.alpha,
            seeds=parse_seeds(self.hospitals.seeds),
            datasets=(DatasetPlan(name=HOSPITALS),),
        )


@dataclass(frozen=True, kw_only=True)
class Hospitals:
    """How hospitals are used: the miscoverage level, and one random division for each seed."""

    alpha: float
    seeds: str


def load(path: Path = Path("own.toml")) -> OwnStudy:
    """Read a study: an experiment and a table ``[hospitals]``."""
    table = read_toml(path, "a study of own distributions")
    if "hospitals" not in table:
        raise InputError(f"{path.name}: a table [hospitals] with alpha and seeds is missing")
    hospitals = build(Hospitals, table.pop("hospitals"), f"{path.name}: hospitals")
    return OwnStudy(experiment=build(Experiment, table, path.name), hospitals=hospitals)


def journal_of(folder: Path) -> Journal[GroupedResult]:
    """Return the records of a study."""
    return Journal(folder / "own.jsonl", GroupedResult)


def run(
    study: OwnStudy, where: Where, *, resume: bool = False, on_step: OnStep | None = None
) -> int:
    """Run a study; what is there already is not made again."""
    report = on_step or silent
    folder, journal = Folder(where.out, where.outputs), journal_of(where.out)
    folder.begin(folder.results, folder.partitions, journal, resume=resume)
    done = {record.key for record in journal.read()}

    def keep(records: Sequence[GroupedResult]) -> str:
        journal.append([record for record in records if record.key not in done])
        done.update(record.key for record in records)
        return f"{records[0].dataset}: seed {records[0].seed} done"

    images = study.experiment
    begun = {(dataset, seed) for dataset, seed, *_ in done}
    tasks = ((plan.name, seed) for plan in images.datasets for seed in images.seeds)
    todo = {task: [(images,)] for task in tasks if task not in begun}
    evaluate_units(evaluate_saved, images, folder, todo, where, keep=keep, report=report)
    hospitals = study.on_hospitals
    seeds = [seed for seed in hospitals.seeds if (HOSPITALS, seed) not in begun]
    if seeds and where.data is not None and (where.data / HEART).exists():
        with workers(evaluate_hospitals, jobs=where.jobs, executor=where.executor) as pool:
            for seed in seeds:
                pool.submit(where.data / HEART, hospitals, seed)
            for at, records in enumerate(pool.finished(wait=True), 1):
                report("hospitals", keep(records), at / len(seeds))
    return len(todo) + len(seeds)


def evaluate_saved(path: Path, experiment: Experiment) -> tuple[GroupedResult, ...]:
    """Evaluate one unit from its saved model outputs."""
    return evaluate(units.load(path), experiment)


def evaluate_hospitals(path: Path, experiment: Experiment, seed: int) -> tuple[GroupedResult, ...]:
    """Train the hospitals' models on one random division of their patients, and evaluate them."""
    return evaluate(hospitals_unit(path, seed), experiment)


def evaluate(unit: Unit, experiment: Experiment) -> tuple[GroupedResult, ...]:
    """Calibrate with every method under every preset, and count hits and sizes by group."""
    found = []
    scored: Scored | None = None
    for preset, plan in applicable(experiment, unit.setting.task, quantiles=unit.quantiles):
        if scored is None or scored.preset is not preset:
            scored = prepare(unit, preset)
        calibrated = calibrate_row(unit.setting, scored, plan, experiment.alpha)
        grouped = [
            _by_group(unit.setting, scored.test_sets[name].sets(threshold, scored.rule(plan)))
            for name, threshold in calibrated.thresholds.items()
        ]
        found.append(
            GroupedResult(
                dataset=unit.setting.dataset,
                title=unit.setting.title,
                status=unit.setting.status,
                task=unit.setting.task,
                seed=unit.setting.seed,
                alpha=experiment.alpha,
                preset=preset.name,
                method=plan.name,
                agents=unit.setting.agents,
                counts=_counts(unit.setting),
                tested=tuple(_tested(unit.setting).tolist()),
                hits=tuple(hits for hits, _ in grouped),
                sizes=tuple(sizes for _, sizes in grouped),
                guarantee=calibrated.guarantee,
                code=code_versions(),
                device=unit.setting.device,
            )
        )
    return tuple(found)


def hospitals_unit(path: Path, seed: int) -> Unit:
    """Return four hospitals, each with a model of its own kind; test points are all hospitals'."""
    sites, inputs, labels = _patients(path)
    names = tuple(dict.fromkeys(sites))
    groups = np.array([names.index(site) for site in sites])
    rng = stream(seed, HOSPITALS, "split")
    use = np.empty(len(sites), dtype=np.int64)  # 0 trains, 1 calibrates, 2 tests
    for at in range(len(names)):
        rows = rng.permutation(np.flatnonzero(groups == at))
        use[rows] = np.searchsorted([0.5, 0.75], (np.arange(len(rows)) + 0.5) / len(rows))
    train, calibration, test = (np.flatnonzero(use == part) for part in range(3))
    outputs = []
    for at, (name, model) in enumerate(zip(names, _models(seed), strict=True)):
        own = train[groups[train] == at]
        model.fit(inputs[own], labels[own])
        held = calibration[groups[calibration] == at]
        outputs.append(
            AgentOutputs(name, _logits(model, inputs[held]), _logits(model, inputs[test]))
        )
    spread = np.nanstd(inputs, axis=0)
    filled = (inputs - np.nanmean(inputs, axis=0)) / np.where(spread > 0, spread, 1.0)
    filled = np.nan_to_num(filled)
    features = filled @ np.linalg.svd(filled[train], full_matrices=False)[2][:3].T
    setting = UnitSetting(
        dataset=HOSPITALS,
        title="Heart Disease, four hospitals",
        status="published",
        note="UCI Heart Disease, dataset 45.",
        task="classification",
        n_classes=2,
        seed=seed,
        device="cpu",
        agents=names,
        owners=groups[calibration],
        rows=calibration,
        labels=labels[calibration],
        test_labels=labels[test],
        groups=groups[calibration],
        test_groups=groups[test],
        features=features[calibration],
        label_law=np.bincount(labels[train], minlength=2) / len(train),
        feature_law=np.array(density_of(features[train], labels[train])),
    )
    return Unit(setting, tuple(outputs))


def _patients(path: Path) -> tuple[list[str], Floats, Labels]:
    """Read site, measurements (NaN where missing) and disease of every patient."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        columns = [name for name in rows[0] if name not in ("site", "num")]
        inputs = np.array([[float(row[name] or "nan") for name in columns] for row in rows])
        labels = np.array([int(float(row["num"]) > 0) for row in rows])
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise RecordError(
            f"{path} cannot be read as patients with a column 'site': {error}"
        ) from None
    cholesterol = columns.index("chol")
    inputs[inputs[:, cholesterol] == 0, cholesterol] = np.nan  # 0 stands for missing
    return [row["site"] for row in rows], inputs, labels


def _models(seed: int) -> list[Any]:
    """Return one untrained model for each hospital, of different kinds."""
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    kinds = [
        RandomForestClassifier(200, random_state=seed),
        LogisticRegression(max_iter=1000),
        GaussianNB(),
        GradientBoostingClassifier(random_state=seed),
    ]
    return [
        make_pipeline(
            SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler(), kind
        )
        for kind in kinds
    ]


def _logits(model: Any, inputs: Floats) -> Floats:
    """Return logarithms of a model's probabilities; a class that it never saw has hardly any."""
    probs = np.zeros((len(inputs), 2))
    probs[:, model.classes_] = model.predict_proba(inputs)
    logits: Floats = np.log(np.maximum(probs, np.finfo(np.float32).tiny))
    return logits


def _by_group(setting: UnitSetting, sets: Any) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return hits and mean sizes by group of test points."""
    if isinstance(sets, Intervals) and setting.n_classes:
        lengths = sets.clip(0, setting.n_classes - 1).sizes()
    else:
        lengths = sets.sizes()
    tested = _tested(setting)
    hits = np.bincount(
        setting.test_groups, weights=sets.cover(setting.test_labels), minlength=len(tested)
    )
    sizes = np.bincount(setting.test_groups, weights=lengths, minlength=len(tested)) / tested
    return tuple(hits.astype(int).tolist()), tuple(round(size, 4) for size in sizes.tolist())


def _tested(setting: UnitSetting) -> Labels:
    """Return the test points of each group."""
    return np.bincount(setting.test_groups, minlength=int(setting.groups.max()) + 1)


def _counts(setting: UnitSetting) -> tuple[tuple[int, ...], ...]:
    """Return the calibration points of each agent in each group."""
    width = len(_tested(setting))
    return tuple(
        tuple(np.bincount(setting.groups[setting.part(at)], minlength=width).tolist())
        for at in range(len(setting.agents))
    )
