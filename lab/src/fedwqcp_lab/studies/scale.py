"""The study of scale: every agent has a model of its own and is tested on its own distribution too.

Federations are those of the stress study (``scale.toml``, ``tabular.toml``), each
calibrated at several levels, so that methods can be compared at equal coverage.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import exp, log
from pathlib import Path
from statistics import fmean, geometric_mean, median
from typing import Any, Literal

import numpy as np

from fedwqcp.errors import InputError
from fedwqcp.files import write_atomic
from fedwqcp.quantile import conformal_rank
from fedwqcp.report.figures import new_figure, require_matplotlib, save_all
from fedwqcp_lab import unit as units
from fedwqcp_lab.comparison import markdown_table
from fedwqcp_lab.datasets import catalog
from fedwqcp_lab.datasets.loading import TRAIN_SHARE
from fedwqcp_lab.datasets.partition import Floats, by_mix, stream
from fedwqcp_lab.evaluation import prepare
from fedwqcp_lab.experiment import DatasetPlan, PresetPlan
from fedwqcp_lab.pipeline import OnStage, RunOptions, UnitKey, evaluate_as_ready, silent
from fedwqcp_lab.results import make_out
from fedwqcp_lab.studies.own import (
    HOSPITALS,
    MAIN,
    GroupedResult,
    evaluate_row,
    hospitals_file,
    hospitals_unit,
)
from fedwqcp_lab.studies.stress import (
    FACTORS,
    LEAST,
    LOGARITHMIC,
    DistinctModels,
    FactorValue,
    Shape,
    StressResult,
    StressStudy,
    begin,
    federate,
    line_style,
    rows_of,
    shape_of,
)
from fedwqcp_lab.training import (
    ModelPool,
    OnProgress,
    TrainingData,
    check_data,
    embedded_dataset,
    part_of,
    read_images,
    train_pool,
    train_small,
)
from fedwqcp_lab.unit import AgentOutputs, Numbers, Unit, UnitSetting

EVEN = 1e6
"""Dirichlet concentration at which all agents have the same label mix."""

LARGE = 100
"""Federations of more agents are evaluated on few seeds."""

LEVEL = 0.05
"""Miscoverage level of the tables of distinct models."""

MATCHED = 0.9
"""Coverage of the worst agent at which sizes are compared."""

SCALED = (
    "split-cp",
    "fedls-cp (own)",
    "max-cp",
    "fedwq-cp",
    "fcp",
    "fedcp-qq",
    "fedls-cp (mixture)",
    "cphet (own)",
)
"""Methods of these tables."""

SCORED = ("split-cp", "fedls-cp (own)", "fedwq-cp", "fcp")
"""Methods of the table of scores."""

SHOWN: tuple[FactorValue, ...] = (
    ("agents", 6.0),
    ("agents", 100.0),
    ("rotation", 45.0),
    ("temperature", 1.0),
)
"""Federations of the table of scores."""


def run(
    study: StressStudy, options: RunOptions, *, resume: bool = False, on_step: OnStage = silent
) -> int:
    """Train models of each dataset and seed, and evaluate its federations meanwhile."""
    if study.distinct is None:
        raise InputError("a study of scale must have a table [distinct]")
    todo, keep = begin(study, options, resume=resume)
    distinct, experiment = study.distinct, study.experiment
    check_data([plan for plan in experiment.datasets if plan.name != HOSPITALS], options.data)
    federations = options.folder.units / "federations"
    heart = None
    if any(name == HOSPITALS for name, _ in todo):
        heart = hospitals_file(options, on_step)

    def ready(report_training: OnStage) -> Iterator[tuple[Any, ...]]:
        on_progress = partial(report_training, "outputs")
        for task, point, unit in _federations(
            study, distinct, todo, options, heart=heart, on_progress=on_progress
        ):
            path = federations / f"{task[0]}-{task[1]}-{point[0]}-{point[1]:g}"
            units.save(unit, path)
            for preset in experiment.presets:
                yield path, study, point, preset

    made = evaluate_as_ready(evaluate_levels, ready, options, keep=keep, report=on_step)
    shutil.rmtree(federations, ignore_errors=True)
    return made


def distinct_federation(pool: ModelPool, plan: DatasetPlan, shape: Shape, seed: int) -> Unit:
    """Give every agent a model of its own and equally many points, strong models first."""
    source, rows = pool.source, pool.rows
    names, kinds = [*shape.kinds], [*shape.kinds.values()]
    labels = source.targets[rows.calibration].astype(np.int64)
    test_labels = source.test_targets[pool.test_rows].astype(np.int64)
    rng = stream(seed, plan.name, "distinct federation", shape.skew)
    beta = shape.beta if shape.skew == "label" else EVEN
    points = min(shape.points, len(labels) // shape.agents)
    parts = by_mix(labels, shape.agents, points, rng, beta=beta)
    held = rows.calibration[np.concatenate(parts)]  # each agent's points, one agent after another
    owners = np.repeat(np.arange(shape.agents), points)
    images, groups = source.inputs[held], source.targets[held].astype(np.int64)
    test_groups, sites = test_labels, None
    if shape.skew == "site":
        order = rng.permutation(shape.agents)  # strong models are not the upright ones
        sites = order / max(1, shape.agents - 1)
        groups, test_groups = owners, rng.integers(shape.agents, size=len(test_labels))
        images = _moved(images, sites[owners], shape)
    outputs = []
    for kind in dict.fromkeys(kinds):
        own = [at for at, other in enumerate(kinds) if other == kind]
        grid = np.stack([np.flatnonzero(owners == at) for at in own])
        calibration = pool.logits(kind, images, grid)
        test = pool.tests[kind][: len(own)]
        if sites is not None:
            moved = _moved(source.test_inputs[pool.test_rows], sites[test_groups], shape)
            every = np.broadcast_to(np.arange(len(moved)), (len(own), len(moved)))
            test = pool.logits(kind, moved, every)
        scale = pool.temperatures[kind] if shape.temperature else np.ones(len(own))
        for at, place in enumerate(own):
            t = np.float32(scale[at])
            outputs.append(AgentOutputs(names[place], calibration[at] / t, test[at] / t))
    dataset = source.dataset
    train = source.targets[rows.train].astype(np.int64)
    setting = UnitSetting(
        dataset=plan.name,
        title=dataset.title,
        status=source.status,
        note=source.note,
        task="classification",
        n_classes=dataset.n_classes,
        seed=seed,
        device=pool.device,
        agents=tuple(names),
        owners=owners,
        rows=held,
        labels=source.targets[held].astype(np.int64),
        test_labels=test_labels,
        groups=groups,
        test_groups=test_groups,
        features=pool.components.of(images, np.arange(len(images))),
        label_distribution=np.bincount(train, minlength=dataset.n_classes or 0) / len(train),
        feature_distribution=pool.feature_distribution,
    )
    return Unit(setting, tuple(outputs))


def evaluate_levels(
    path: Path, study: StressStudy, point: FactorValue, preset: PresetPlan
) -> tuple[StressResult, ...]:
    """Evaluate every method and level on one saved federation."""
    unit = units.load(path)
    scored = prepare(unit, preset)
    records: list[StressResult] = []
    for found, plan in rows_of(study, len(unit.outputs)):
        for level in study.levels if found.name == preset.name else ():
            began = time.perf_counter()
            record, row = evaluate_row(unit, scored, plan, level)
            sent = fmean(row.release.bytes_up(name) for name in record.agents)
            seconds = time.perf_counter() - began
            records += [
                _grouped_summary(record, point, mix, sent, seconds) for mix in ("shared", "own")
            ]
    return tuple(records)


def tables(records: Sequence[StressResult]) -> Iterator[tuple[str, str]]:
    """Yield the tables of a study with distinct models, each with its name."""
    cells = MedianRecords(records)
    yield "coverage", markdown_table([*_coverage_rows(cells)])
    yield "matched", markdown_table([*_matched_rows(cells)])
    yield "gap", markdown_table([*_gap_rows(cells)])
    yield "scores", markdown_table([*_score_rows(cells)])
    yield "datasets", markdown_table([*_dataset_rows(cells)])


class MedianRecords:
    """Records by dataset, point, preset, method, level and mix; figures are medians over seeds."""

    def __init__(self, records: Sequence[StressResult]) -> None:
        self._records: dict[tuple[Any, ...], list[StressResult]] = {}
        self.titles = {x.dataset: x.display_title for x in records}
        self.points: list[FactorValue] = sorted(
            {(x.factor, x.value) for x in records},
            key=lambda point: ([*FACTORS].index(point[0]), point[1]),
        )
        self.presets = list(dict.fromkeys(x.preset for x in records))
        self.main = MAIN if MAIN in self.presets else self.presets[0]
        self.levels = sorted({x.alpha for x in records})
        for x in records:
            key = x.dataset, (x.factor, x.value), x.preset, x.method, x.alpha, x.mix
            self._records.setdefault(key, []).append(x)

    def datasets(self, point: FactorValue, method: str = "split-cp") -> tuple[str, ...]:
        """Return the datasets whose records have a point."""
        row = point, self.main, method, LEVEL, "own"
        return tuple(name for name in self.titles if (name, *row) in self._records)

    def federation(self, name: str, point: FactorValue) -> tuple[int, int]:
        """Return the agents of one dataset, and the fewest calibration points of one."""
        own = self._records[name, point, self.main, "split-cp", LEVEL, "own"]
        return own[0].agents, min(x.fewest for x in own)

    def median(self, what: str, *key: Any) -> float:
        """Return the median over seeds of a field."""
        return median(float(getattr(x, what)) for x in self._records[key])

    def mean(
        self, what: str, point: FactorValue, method: str, mix: str, preset: str = MAIN
    ) -> float:
        """Return the mean over a point's datasets of the medians over seeds."""
        return fmean(
            self.median(what, name, point, preset, method, LEVEL, mix)
            for name in self.datasets(point)
        )

    def matched(self, what: str, *key: Any) -> float | None:
        """Return the size at the level where the agent in question covers `MATCHED`."""
        name, point, preset, method, mix = key
        return size_at(
            {
                level: (
                    1 - self.median(what, name, point, preset, method, level, mix),
                    self.median("size", name, point, preset, method, level, mix),
                )
                for level in self.levels
            },
            1 - MATCHED,
        )


def exact_worst(agents: int, n: int, alpha: float) -> float:
    """Return what the worst agent covers in the median where each agent's own threshold is exact.

    Coverage of an agent's own distribution is Beta(r, n + 1 - r) for continuous scores, and agents
    are independent; test data without end.
    """
    from scipy.stats import beta

    rank = conformal_rank(n, alpha)
    return 1.0 if rank > n else float(beta.ppf(1 - 0.5 ** (1 / agents), rank, n + 1 - rank))


def size_at(levels: Mapping[float, tuple[float, float]], missed: float) -> float | None:
    """Return the size at which an agent misses this share, given miscoverage and size by level.

    Between two levels log size is taken to be linear in log miscoverage; None beyond the levels and
    where one of the two had every label in every set.
    """
    for (low, large), (high, small) in pairwise(levels.values()):
        if low <= missed <= high and low > 0:
            part = (log(missed) - log(low)) / (log(high) - log(low)) if low < high else 1.0
            return exp((1 - part) * log(large) + part * log(small))
    return None


def write_tables(records: Sequence[StressResult], out: Path) -> tuple[Path, ...]:
    """Write the tables and the figure of a study with distinct models."""
    require_matplotlib()
    page = "\n\n".join(f"## {name}\n\n{table}" for name, table in tables(records))
    make_out(out)
    write_atomic(out / "scale.md", f"# Distinct models, own distributions\n\n{page}\n".encode())
    own = [record for record in records if record.preset == MAIN]
    return out / "scale.md", *draw_scale(own, out / "scale")


def draw_scale(records: Sequence[StressResult], stem: Path) -> tuple[Path, ...]:
    """Draw the worst agent's coverage of its own distribution against every factor.

    Medians over seeds, averaged over the datasets that have every value of the factor.
    """
    cells = MedianRecords(records)
    preset = cells.presets[0]
    points_of = {name: [p for p in cells.points if p[0] == name] for name in FACTORS}
    shared = {
        name: set.intersection(*({*cells.datasets(p)} for p in points))
        for name, points in points_of.items()
        if len(points) > 1
    }
    by_factor = {name: points_of[name] for name, datasets in shared.items() if datasets}
    with new_figure(2.1 * len(by_factor) + 1, 3.2) as figure:
        panels = figure.subplots(1, max(1, len(by_factor)), sharey=True, squeeze=False)[0]
        for panel, (factor, points) in zip(panels, by_factor.items(), strict=False):
            panel.axhline(1 - LEVEL, color="0.6", linewidth=0.8)
            names = shared[factor]
            for place, method in enumerate(SCALED):
                there = [p for p in points if names <= {*cells.datasets(p, method)}]
                panel.plot(
                    [p[1] for p in there],
                    [
                        fmean(
                            cells.median("worst", n, p, preset, method, LEVEL, "own")
                            for n in sorted(names)
                        )
                        for p in there
                    ],
                    **line_style(place),
                    label=method,
                )
            panel.set_xscale("log" if factor in LOGARITHMIC else "linear")
            panel.set_xlabel(f"{FACTORS[factor]}\n({len(names)} datasets)")
        panels[0].set_ylabel("coverage of the worst agent")
        handles, shown = panels[0].get_legend_handles_labels()
        figure.legend(handles, shown, loc="outside upper center", ncols=4, frameon=False)
        return save_all(figure, stem, (".svg", ".png"))


def _coverage_rows(cells: MedianRecords) -> Iterator[list[str]]:
    """Show the worst agent on its own distribution and on shared data, and sizes."""
    heads = (f"{m}: own, shared, size" for m in SCALED)
    yield ["varied", "datasets", "points", "exact", *heads]
    for point in cells.points:
        names = cells.datasets(point)
        federations = [cells.federation(name, point) for name in names]
        fewest = min(points for _, points in federations)
        exact = fmean(exact_worst(*each, LEVEL) for each in federations)
        line = [_named(point), str(len(names)), str(fewest), f"{exact:.3f}"]
        for method in SCALED:
            if cells.datasets(point, method) != names:
                line.append("")
                continue
            worst = [f"{cells.mean('worst', point, method, mix):.3f}" for mix in ("own", "shared")]
            line.append(", ".join([*worst, f"{_ratio(cells, point, MAIN, method):.2f}"]))
        yield line


def _matched_rows(cells: MedianRecords) -> Iterator[list[str]]:
    """Show sizes beside split-cp's where each method's worst agent covers `MATCHED`."""
    yield ["varied", "tested on", "agent", *(m for m in SCALED if m != "split-cp")]
    for point in cells.points:
        rows = [("own", "worst", "worst")]
        if point[0] == "agents":
            rows.append(("shared", "worst", "worst"))
        if point[0] == "agents" and point[1] >= LARGE:
            rows.append(("own", "low", "one in twenty"))
        for mix, what, shown in rows:
            line = [_named(point), mix, shown]
            for method in SCALED[1:]:
                pair = (MAIN, method), (MAIN, "split-cp")
                line.append(_matched_ratio(cells, what, point, *pair, mix=mix))
            yield line


def _matched_ratio(
    cells: MedianRecords,
    what: str,
    point: FactorValue,
    row: tuple[str, str],
    base: tuple[str, str],
    *,
    mix: str = "own",
) -> str:
    """Return the ratio of two rows' sizes at equal coverage, and on how many datasets."""
    names = cells.datasets(point, row[1])
    pairs = [
        (cells.matched(what, n, point, *row, mix), cells.matched(what, n, point, *base, mix))
        for n in names
    ]
    ratios = [own / other for own, other in pairs if own is not None and other is not None]
    if not names:
        return ""
    return f"{geometric_mean(ratios):.2f} ({len(ratios)})" if ratios else "none"


def _gap_rows(cells: MedianRecords) -> Iterator[list[str]]:
    """Show the mean distance from the level, own and shared."""
    yield ["varied", *(f"{m}: own, shared" for m in SCALED)]
    for point in cells.points:
        names = cells.datasets(point)
        line = [_named(point)]
        for method in SCALED:
            gaps = []
            if cells.datasets(point, method) == names:
                gaps = [cells.mean("gap", point, method, mix) for mix in ("own", "shared")]
            line.append(", ".join(f"{gap:.3f}" for gap in gaps))
        yield line


def _score_rows(cells: MedianRecords) -> Iterator[list[str]]:
    """Show the worst agent under each score, and sizes beside randomised APS at equal coverage."""
    yield ["varied", "score", *(f"{m}: worst, size, matched" for m in SCORED)]
    for point in cells.points:
        if point not in SHOWN:
            continue
        names = cells.datasets(point)
        for preset in cells.presets:
            line = [_named(point), preset]
            for method in SCORED:
                if cells.datasets(point, method) != names:
                    line.append("")
                    continue
                worst = cells.mean("worst", point, method, "own", preset)
                ratio = _ratio(cells, point, preset, method, (MAIN, method))
                same = _matched_ratio(cells, "worst", point, (preset, method), (MAIN, method))
                line.append(f"{worst:.3f}, {ratio:.2f}, {same}")
            yield line


def _dataset_rows(cells: MedianRecords) -> Iterator[list[str]]:
    """Show the worst agent on its own distribution for every dataset at the points of the page."""
    yield ["dataset", "varied", "points", *(f"{m}: worst, size" for m in SCALED)]
    for name, title in cells.titles.items():
        for point in cells.points:
            if point[0] != "agents" or name not in cells.datasets(point):
                continue
            line = [title, _named(point), str(cells.federation(name, point)[1])]
            for method in SCALED:
                if name not in cells.datasets(point, method):
                    line.append("")
                    continue
                worst, size = (
                    cells.median(what, name, point, MAIN, method, LEVEL, "own")
                    for what in ("worst", "size")
                )
                line.append(f"{worst:.3f}, {size:.2f}")
            yield line


def _ratio(
    cells: MedianRecords,
    point: FactorValue,
    preset: str,
    method: str,
    base: tuple[str, str] = (MAIN, "split-cp"),
) -> float:
    """Return own-mix sizes beside those of another row, geometric mean over datasets."""
    return geometric_mean(
        cells.median("size", n, point, preset, method, LEVEL, "own")
        / cells.median("size", n, point, *base, LEVEL, "own")
        for n in cells.datasets(point)
    )


def _named(point: FactorValue) -> str:
    """Return a point as tables show it."""
    return f"{point[0]} = {point[1]:g}"


def _federations(
    study: StressStudy,
    distinct: DistinctModels,
    todo: Mapping[UnitKey, Sequence[FactorValue]],
    options: RunOptions,
    *,
    heart: Path | None,
    on_progress: OnProgress,
) -> Iterator[tuple[UnitKey, FactorValue, Unit]]:
    """Train the models of each dataset and seed, and yield its federations."""
    experiment = study.experiment
    tasks = [task for plan in experiment.datasets for task in todo if task[0] == plan.name]
    plans = {plan.name: plan for plan in experiment.datasets}
    source: TrainingData | None = None
    read = ""
    for at, (name, seed) in enumerate(tasks):
        tell = part_of(on_progress, at, len(tasks))
        if name == HOSPITALS:
            for point in todo[name, seed]:
                if heart is not None and point == ("agents", 4.0):
                    yield (name, seed), point, hospitals_unit(heart, seed)
            continue
        plan = plans[name]
        small = catalog.find(plan.source).embedded  # with models of scikit-learn
        if source is None or read != name:
            source = embedded_dataset(plan.source) if small else read_images(plan, options.data)
            read = name
        shapes = {point: shape_of(point, study.start) for point in todo[name, seed]}
        shapes = {p: s for p, s in shapes.items() if _allowed(s, source, distinct, seed, small)}
        if not shapes:
            continue
        most = max(shape.agents for shape in shapes.values())
        if small:
            half = (most + 1) // 2
            tell(f"{name}: training seed {seed}", 0.0)
            pool = train_small(source, plan, replace(experiment, strong=half, weak=half), seed)
            for point, shape in shapes.items():
                yield (name, seed), point, federate(pool, shape)
            continue
        models = train_pool(
            source,
            plan,
            experiment,
            seed,
            models=most,
            rows_each=distinct.rows,
            share=distinct.calibration,
            device=options.device,
            on_progress=tell,
        )
        for point, shape in shapes.items():
            yield (name, seed), point, distinct_federation(models, plan, shape, seed)


def _allowed(
    shape: Shape, source: TrainingData, distinct: DistinctModels, seed: int, small: bool
) -> bool:
    """Tell whether the data have points enough for a federation, and its seed is evaluated."""
    share = 1 - TRAIN_SHARE if small else distinct.calibration
    points = LEAST if shape.points == distinct.points else shape.points
    enough = shape.agents * points <= int(len(source.inputs) * share)
    return enough and (shape.agents <= LARGE or seed < distinct.large_seeds)


def _moved(images: Numbers, strength: Floats, shape: Shape) -> Numbers:
    """Turn and blur each image by its site's share of the strongest change."""
    from scipy.ndimage import gaussian_filter, rotate

    found = images.copy()
    for share in np.unique(strength[strength > 0]):
        own = strength == share
        part = images[own].astype(np.float32)
        if shape.rotation:
            part = rotate(part, share * shape.rotation, axes=(1, 2), reshape=False, order=1)
        if shape.blur:
            width = share * shape.blur
            part = gaussian_filter(part, (0, width, width, 0)[: part.ndim])
        found[own] = np.rint(part.clip(0, 255)).astype(images.dtype)
    return found


def _grouped_summary(
    record: GroupedResult,
    point: FactorValue,
    mix: Literal["shared", "own"],
    sent: float,
    seconds: float,
) -> StressResult:
    """Sum up one federation under one mix; four decimals are finer than test noise."""
    covered = np.array(list(record.coverage(mix).values()))
    level = 1 - record.alpha
    counts = np.array(record.counts, dtype=float)
    shares = counts / counts.sum(axis=1, keepdims=True)
    away = np.abs(shares - counts.sum(axis=0) / counts.sum()).sum(axis=1) / 2
    weak = [c for name, c in zip(record.agents, covered, strict=True) if name.startswith("W")]
    return StressResult(
        dataset=record.dataset,
        title=record.title,
        status=record.status,
        seed=record.seed,
        factor=point[0],
        value=point[1],
        alpha=record.alpha,
        preset=record.preset,
        method=record.method,
        agents=len(record.agents),
        fewest=int(counts.sum(axis=1).min()),
        gap=round(float(np.abs(covered - level).mean()), 4),
        short=round(float(np.maximum(0, level - covered).mean()), 4),
        worst=round(float(covered.min()), 4),
        size=round(record.size(mix), 4),
        weak=round(float(np.mean(weak)), 4) if weak else None,
        bytes_up=round(sent),
        mix=mix,
        low=round(float(np.quantile(covered, 0.05)), 4),
        skew=round(float(away.mean()), 3),
        code=record.code,
        device=record.device,
        calibration_s=round(seconds, 1),
    )
