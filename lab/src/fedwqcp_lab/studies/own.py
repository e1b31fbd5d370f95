"""Each agent tested on its own distribution, on the shared test data and on two other mixes.

Agents hold unequal shares of some groups: classes, clusters of images, or hospitals. A record keeps
hits and sizes of every agent's sets by group of test points, so that coverage under any mix of the
groups follows from it: sum over groups of the mix's share times the coverage in the group.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, geometric_mean, median
from typing import Any, Literal, TypeAlias

import numpy as np

from fedwqcp.errors import InputError, RecordError
from fedwqcp.files import write_atomic
from fedwqcp.methods.cphet import density_of
from fedwqcp.quantile import conformal_rank
from fedwqcp.sets import Intervals
from fedwqcp_lab import unit as units
from fedwqcp_lab.comparison import markdown_table
from fedwqcp_lab.datasets import catalog
from fedwqcp_lab.datasets.partition import Floats, Labels, stream
from fedwqcp_lab.evaluation import (
    CalibratedRow,
    Scored,
    applicable,
    calibrate_row,
    code_versions,
    record_head,
    scored_rows,
)
from fedwqcp_lab.experiment import (
    DatasetPlan,
    Experiment,
    MethodPlan,
    build,
    parse_seeds,
    read_toml,
)
from fedwqcp_lab.pipeline import (
    OnStage,
    RunOptions,
    UnitKey,
    evaluate_units,
    keep_settings,
    silent,
    workers,
)
from fedwqcp_lab.results import VERSION, Journal, MethodRecord, make_out
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

LEADING = (
    "split-cp",
    "guarded-median-cp",
    "fedls-cp (own)",
    "max-cp",
    "fedwq-cp",
    "fcp",
    "fedcp-qq",
    "fedls-cp (mixture)",
)
"""Methods of the tables that have no room for all."""

RecordsByRow: TypeAlias = dict[tuple[str, str, str], list["GroupedResult"]]
"""Records by dataset, preset and method."""


@dataclass(frozen=True, kw_only=True)
class GroupedResult(MethodRecord):
    """What one method gave all agents of a federation, by group of test points.

    Parameters
    ----------
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
        by_group = np.array(self.hits) / np.maximum(self.tested, 1)
        return {name: float(by_group[at] @ own) for name, (at, own) in shares.items()}

    def size(self, mix: Mix) -> float:
        """Return the mean over agents of the mean set size under a mix."""
        return fmean(float(np.dot(self.sizes[at], own)) for at, own in self._shares(mix).values())

    def agent_size(self, mix: Mix, agent: str) -> float:
        """Return one agent's mean set size under a mix."""
        at, own = self._shares(mix)[agent]
        return float(np.dot(self.sizes[at], own))

    def _shares(self, mix: Mix) -> dict[str, tuple[int, Floats]]:
        """Return place and group shares of every agent that has such a mix.

        A group without test points, which only a cluster can be, is left out.
        """
        tested, counts = np.array(self.tested), np.array(self.counts)
        if mix == "shared":
            counts[:] = tested
        elif mix == "balanced":
            counts[:] = 1
        elif mix == "neighbour":
            counts = np.roll(counts, -1, axis=0)
        counts[:, tested == 0] = 0
        totals = counts.sum(axis=1)
        return {
            name: (at, counts[at] / totals[at]) for at, name in enumerate(self.agents) if totals[at]
        }


@dataclass(frozen=True, kw_only=True)
class OwnStudy:
    """The study: an experiment on image data, and the same methods on hospitals."""

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
    table = read_toml(path)
    if "hospitals" not in table:
        raise InputError(f"{path.name}: a table [hospitals] with alpha and seeds is missing")
    hospitals = build(Hospitals, table.pop("hospitals"), f"{path.name}: hospitals")
    return OwnStudy(experiment=build(Experiment, table, path.name), hospitals=hospitals)


def journal_of(folder: Path) -> Journal[GroupedResult]:
    """Return the records of a study."""
    return Journal(folder / "own.jsonl", GroupedResult)


def run(
    study: OwnStudy, options: RunOptions, *, resume: bool = False, on_step: OnStage = silent
) -> int:
    """Run a study; what is there already is not made again."""
    folder, journal = options.folder, journal_of(options.out)
    folder.begin(journal, resume=resume)
    images, hospitals = study.experiment, study.on_hospitals
    for experiment in (images, hospitals):
        keep_settings(experiment, folder)
    before = journal.read()

    def keep(records: Sequence[GroupedResult]) -> str:
        journal.append_new(records)
        return f"{records[0].dataset}: seed {records[0].seed} done"

    todo = {task: [(images,)] for task in pending(images, before)}
    evaluate_units(evaluate_saved, images, todo, options, keep=keep, report=on_step)
    seeds = [seed for _, seed in pending(hospitals, before)]
    path = hospitals_file(options, on_step) if seeds else None
    if path is None:
        return len(todo)
    with workers(evaluate_hospitals, jobs=options.jobs) as pool:
        for seed in seeds:
            pool.submit(path, hospitals, seed)
        for at, records in enumerate(pool.finished(wait=True), 1):
            on_step("hospitals", keep(records), at / len(seeds))
    return len(todo) + len(seeds)


def pending(experiment: Experiment, records: Sequence[GroupedResult]) -> tuple[UnitKey, ...]:
    """Return the units that lack a record of some preset and method that fits them."""
    done = {record.key for record in records}
    tasks = {record.dataset: record.task for record in records}
    found: list[UnitKey] = []
    for plan in experiment.datasets:
        task = tasks.get(plan.name)
        rows = () if task is None else applicable(experiment, task, quantiles=_networks(plan, task))
        for seed in experiment.seeds:
            keys = {(plan.name, seed, preset.name, method.name) for preset, method in rows}
            if task is None or not keys <= done:
                found.append((plan.name, seed))
    return tuple(found)


def hospitals_file(options: RunOptions, report: OnStage) -> Path | None:
    """Return the file of the hospitals; None, and a report of it, where there is none."""
    if options.data is not None and (options.data / HEART).exists():
        return options.data / HEART
    report("hospitals", f"left out, no {HEART.as_posix()} in --data", 1.0)
    return None


def evaluate_saved(path: Path, experiment: Experiment) -> tuple[GroupedResult, ...]:
    """Evaluate one unit from its saved model outputs."""
    return evaluate(units.load(path), experiment)


def evaluate_hospitals(path: Path, experiment: Experiment, seed: int) -> tuple[GroupedResult, ...]:
    """Train the hospitals' models on one random division of their patients, and evaluate them."""
    return evaluate(hospitals_unit(path, seed), experiment)


def evaluate(unit: Unit, experiment: Experiment) -> tuple[GroupedResult, ...]:
    """Calibrate with every method under every preset, and count hits and sizes by group."""
    rows = scored_rows(unit, experiment)
    return tuple(evaluate_row(unit, *row, experiment.alpha)[0] for row in rows)


def evaluate_row(
    unit: Unit, scored: Scored, plan: MethodPlan, alpha: float
) -> tuple[GroupedResult, CalibratedRow]:
    """Calibrate with one method, and count hits and sizes by group."""
    setting = unit.setting
    calibrated = calibrate_row(setting, scored, plan, alpha)
    grouped = [
        _by_group(setting, scored.test_sets[name].sets(threshold, scored.rule(plan)))
        for name, threshold in calibrated.thresholds.items()
    ]
    record = GroupedResult(
        **record_head(setting, scored, plan, alpha),
        agents=setting.agents,
        counts=_counts(setting),
        tested=tuple(_tested(setting).tolist()),
        hits=tuple(hits for hits, _ in grouped),
        sizes=tuple(sizes for _, sizes in grouped),
        guarantee=calibrated.guarantee,
        code=code_versions(),
        device=setting.device,
    )
    return record, calibrated


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
        label_distribution=np.bincount(labels[train], minlength=2) / len(train),
        feature_distribution=np.array(density_of(features[train], labels[train])),
    )
    return Unit(setting, tuple(outputs))


def tables(records: Sequence[GroupedResult]) -> Iterator[tuple[str, str]]:
    """Yield each table of a study with its name."""
    rows: RecordsByRow = {}
    for record in records:
        rows.setdefault((record.dataset, record.preset, record.method), []).append(record)
    images = [r for r in records if r.task == "classification" and r.dataset != HOSPITALS]
    datasets = tuple(dict.fromkeys(r.dataset for r in images))
    methods = tuple(dict.fromkeys(r.method for r in images))
    presets = tuple(dict.fromkeys(r.preset for r in images))
    yield "methods", markdown_table([*_methods_table(rows, datasets, methods)])
    yield "datasets", markdown_table([*_datasets_table(rows, datasets)])
    yield "scores", markdown_table([*_scores_table(rows, datasets, presets)])
    if any(r.dataset == HOSPITALS for r in records):
        yield "hospitals", markdown_table([*_hospitals_table(rows, methods)])
    if regression := tuple(dict.fromkeys(r.dataset for r in records if r.task == "regression")):
        yield "regression", markdown_table([*_regression_table(rows, regression)])


def write_tables(folder: Path, out: Path) -> tuple[Path, ...]:
    """Write the tables of a study as one page."""
    page = "\n\n".join(f"## {name}\n\n{table}" for name, table in tables(journal_of(folder).read()))
    make_out(out)
    write_atomic(out / "own.md", f"# Each agent on its own distribution\n\n{page}\n".encode())
    return (out / "own.md",)


def exact_split(record: GroupedResult) -> tuple[float, float]:
    """Return what split-cp covers at an agent in the mean, and at its worst agent in the median.

    On an agent's own distribution, continuous scores give coverage the distribution
    Beta(r, n + 1 - r), and agents are independent of each other.
    """
    from scipy.optimize import brentq
    from scipy.stats import beta

    sizes = [sum(counts) for counts in record.counts if sum(counts)]
    parts = [(r, n + 1 - r) for n in sizes if (r := conformal_rank(n, record.alpha)) <= n]

    def missing(t: float) -> float:
        return float(np.prod([beta.sf(t, a, b) for a, b in parts])) - 0.5

    return fmean(a / (a + b) for a, b in parts), float(brentq(missing, 0, 1))


def _networks(plan: DatasetPlan, task: str) -> bool:
    """Tell whether the models of a regression are networks, which have quantile heads too."""
    return task == "regression" and not catalog.find(plan.source).embedded


def _patients(path: Path) -> tuple[list[str], Floats, Labels]:
    """Read site, measurements (NaN where missing) and disease of every patient.

    Unlike in `fedwqcp.demo`, the one blood pressure of 0 stays: the records were made with it.
    """
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
    sums = np.bincount(setting.test_groups, weights=lengths, minlength=len(tested))
    sizes = sums / np.maximum(tested, 1)  # a cluster may have no test point
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


def _worst(records: Sequence[GroupedResult], mix: Mix) -> float:
    """Return the median over seeds of the worst agent's coverage."""
    return median(min(record.coverage(mix).values()) for record in records)


def _ratio(
    rows: RecordsByRow, preset: str, method: str, mix: Mix, datasets: Sequence[str]
) -> float:
    """Return the size beside split-cp's, as a geometric mean over datasets."""
    return geometric_mean(
        fmean(r.size(mix) for r in rows[name, preset, method])
        / fmean(r.size(mix) for r in rows[name, preset, "split-cp"])
        for name in datasets
    )


def _methods_table(
    rows: RecordsByRow, datasets: Sequence[str], methods: Sequence[str]
) -> Iterator[list[str]]:
    """Show every method under every mix."""
    head = [f"{mix}: {what}" for mix in MIXES[:2] for what in ("mean", "worst", "lowest", "size")]
    head += [f"{mix}: {what}" for mix in MIXES[2:] for what in ("worst", "size")]
    yield ["method", *head]
    exact = [[exact_split(r) for r in rows[name, MAIN, "split-cp"]] for name in datasets]
    worst = [median(w for _, w in own) for own in exact]
    mean = fmean(m for own in exact for m, _ in own)
    theory = [f"{mean:.3f}", f"{fmean(worst):.3f}", f"{min(worst):.3f}"]
    yield ["split-cp, exact distribution", *theory, *[""] * 9]
    for method in methods:
        line = [method]
        for mix in MIXES:
            own = [rows[name, MAIN, method] for name in datasets]
            covered = fmean(c for part in own for r in part for c in r.coverage(mix).values())
            worst = [_worst(part, mix) for part in own]
            both = [f"{fmean(worst):.3f}", f"{_ratio(rows, MAIN, method, mix, datasets):.2f}"]
            if mix in MIXES[:2]:
                both = [f"{covered:.3f}", both[0], f"{min(worst):.3f}", both[1]]
            line += both
        yield line


def _datasets_table(rows: RecordsByRow, datasets: Sequence[str]) -> Iterator[list[str]]:
    """Show the worst agent on its own mix for each dataset."""
    yield ["dataset", *LEADING]
    for name in datasets:
        worst = [f"{_worst(rows[name, MAIN, method], 'own'):.3f}" for method in LEADING]
        yield [rows[name, MAIN, "split-cp"][0].display_title, *worst]


def _scores_table(
    rows: RecordsByRow, datasets: Sequence[str], presets: Sequence[str]
) -> Iterator[list[str]]:
    """Show the worst agent on its own mix, and labels in a set, for each score."""
    yield ["score", *(f"{method}: worst, size" for method in LEADING)]
    for preset in presets:
        line = [preset]
        for method in LEADING:
            own = [rows[name, preset, method] for name in datasets]
            size = geometric_mean(fmean(r.size("own") for r in part) for part in own)
            line.append(f"{fmean(_worst(part, 'own') for part in own):.3f}, {size:.2f}")
        yield line


def _hospitals_table(rows: RecordsByRow, methods: Sequence[str]) -> Iterator[list[str]]:
    """Show coverage and size of each hospital's own patients, and the worst on everyone's."""
    names = rows[HOSPITALS, MAIN, "split-cp"][0].agents
    yield ["method", *names, "own: worst", "shared: worst", "balanced: worst"]
    for method in methods:
        own = rows[HOSPITALS, MAIN, method]
        by_mix = {mix: _means(own, mix) for mix in MIXES}
        line = [
            f"{by_mix['own'][name]:.3f}, {fmean(r.agent_size('own', name) for r in own):.2f}"
            for name in names
        ]
        worst = [f"{min(by_mix[mix].values()):.3f}" for mix in MIXES[:3]]
        yield [method, *line, *worst]


def _means(records: Sequence[GroupedResult], mix: Mix) -> dict[str, float]:
    """Return each agent's coverage, mean over seeds."""
    found = [record.coverage(mix) for record in records]
    return {name: fmean(own[name] for own in found) for name in found[0]}


def _regression_table(rows: RecordsByRow, datasets: Sequence[str]) -> Iterator[list[str]]:
    """Show mean and worst coverage, and the length within the range of the labels."""
    yield ["dataset", "method", *(f"{mix}: mean, worst, length" for mix in MIXES)]
    for name, preset, method in rows:
        if name not in datasets or preset != MAIN:
            continue
        own = rows[name, preset, method]
        cells = [
            f"{fmean(c for r in own for c in r.coverage(mix).values()):.3f}, "
            f"{_worst(own, mix):.3f}, {fmean(r.size(mix) for r in own):.2f}"
            for mix in MIXES
        ]
        yield [own[0].display_title, method, *cells]
