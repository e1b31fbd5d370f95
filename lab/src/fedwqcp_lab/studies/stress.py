"""The stress study: one thing about a federation is varied at a time, to see where methods fail.

Federations of any shape are sampled for a dataset and seed. In ``stress.toml`` they take their
models from one pool of six (`federate`) and are tested on the shared test data. In ``scale.toml``
every agent has a model of its own (`distinct_federation`), is tested on its own distribution too,
and at several levels, so that methods can be compared at equal coverage. The records, one for a
federation, preset, method, level and test mix, become tables and figures.
"""

from __future__ import annotations

import csv
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from itertools import groupby, pairwise, product
from math import ceil, exp, log
from pathlib import Path
from statistics import fmean, geometric_mean, median
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from fedwqcp import methods
from fedwqcp.errors import InputError, RecordError
from fedwqcp.files import write_atomic
from fedwqcp.quantile import conformal_rank
from fedwqcp.report.figures import COLOURS, MARKERS, STYLE, require_matplotlib, save_all
from fedwqcp_lab import unit as units
from fedwqcp_lab.comparison import display_title, markdown_table
from fedwqcp_lab.datasets.embedded import by_label, by_mix, by_quantity, stream
from fedwqcp_lab.datasets.loading import TRAIN_SHARE
from fedwqcp_lab.evaluation import applicable, evaluate, prepare
from fedwqcp_lab.experiment import (
    DatasetPlan,
    Experiment,
    MethodPlan,
    PresetPlan,
    build,
    build_each,
    digest,
    read_toml,
)
from fedwqcp_lab.pipeline import (
    Folder,
    OnStep,
    Task,
    Where,
    evaluate_units,
    read_configs,
    silent,
    workers,
    write_configs,
)
from fedwqcp_lab.results import VERSION, Journal, Result, make_out
from fedwqcp_lab.studies.own import (
    HEART,
    HOSPITALS,
    MAIN,
    GroupedResult,
    evaluate_row,
    hospitals_unit,
)
from fedwqcp_lab.training import (
    ModelPool,
    OnProgress,
    TrainingData,
    check_data,
    embedded_dataset,
    read_images,
    train_pool,
    train_small,
)
from fedwqcp_lab.unit import AgentOutputs, Floats, Labels, Numbers, Unit, UnitSetting

T = TypeVar("T")

Point: TypeAlias = tuple[str, float]
"""A factor and its value."""

FactorName: TypeAlias = Literal[
    "alpha",
    "agents",
    "strong",
    "label",
    "quantity",
    "tiny",
    "draw",
    "points",
    "rotation",
    "blur",
    "temperature",
]
"""What can be varied."""

FEW = 10
"""Points that a tiny agent keeps."""

EVEN = 1e6
"""Dirichlet concentration at which all agents have the same label mix."""

SMALL = ("digits", "breast-cancer")
"""Datasets of scikit-learn, with its models."""

LEAST = 20
"""Fewest calibration points of an agent in a federation of distinct models."""

WITH_DENSITIES = 20
"""Most agents, each with a model of its own, of a method that compares feature densities."""

LARGE = 100
"""Federations of more agents are evaluated on few seeds."""

Key: TypeAlias = tuple[str, int, str, float, str, str, float, str]
"""Dataset, seed, factor, value, preset, method, level and mix."""

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

SHOWN: tuple[Point, ...] = (
    ("agents", 6.0),
    ("agents", 100.0),
    ("rotation", 45.0),
    ("temperature", 1.0),
)
"""Federations of the table of scores."""

FACTORS = {
    "label": "label skew: concentration",
    "quantity": "quantity skew: concentration",
    "agents": "agents",
    "tiny": "agents with ten points",
    "strong": "share of strong models",
    "alpha": "miscoverage level",
    "draw": "random division",
    "points": "calibration points of each agent",
    "rotation": "rotation of the last site (degrees)",
    "blur": "blur of the last site (pixels)",
    "temperature": "temperature fitted",
}
"""Factors in the order of the panels, with their axes."""

LOGARITHMIC = ("label", "quantity", "agents", "points")


@dataclass(frozen=True, kw_only=True)
class StressStudy:
    """A stress study.

    Parameters
    ----------
    experiment : Experiment
        Datasets, seeds, presets and methods; its models are a pool.
    factors : tuple of Factor
        What is varied, each from the experiment's own alpha, beta and agents.
    distinct : DistinctModels or None, optional
        How agents get models of their own; by default they share a pool of six.
    levels : tuple of float, optional
        With distinct models, the miscoverage levels that each federation is calibrated at.
    """

    experiment: Experiment
    factors: tuple[Factor, ...]
    distinct: DistinctModels | None = None
    levels: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        names = [factor.name for factor in self.factors]
        if not names or len({*names}) < len(names):
            raise InputError(f"factors must have different names, at least one; got {names}")
        if (self.distinct is None) == bool(self.levels):
            raise InputError("levels must be given with a table [distinct], and only then")
        for level in self.levels:
            conformal_rank(1, level)  # refuses what is no level

    @property
    def start(self) -> Shape:
        """The federation that is varied."""
        own = self.experiment
        if self.distinct is not None:
            return Shape(
                alpha=own.alpha,
                agents=self.distinct.agents,
                beta=own.beta,
                points=self.distinct.points,
            )
        agents = own.strong + own.weak
        return Shape(alpha=own.alpha, agents=agents, strong=own.strong / agents, beta=own.beta)

    @property
    def points(self) -> tuple[Point, ...]:
        """All factors with all their values."""
        return tuple((f.name, float(value)) for f in self.factors for value in f.values)

    def quick(self) -> StressStudy:
        """Return one seed of the last dataset, with at most twenty agents."""
        factors = (
            replace(f, values=tuple(v for v in f.values if f.name != "agents" or v <= 20))
            for f in self.factors
        )
        last = self.experiment.datasets[-1].name
        return replace(self, experiment=self.experiment.only([last], (0,)), factors=tuple(factors))


@dataclass(frozen=True, kw_only=True)
class Factor:
    """What is varied.

    Parameters
    ----------
    name : str
        A field of `Shape`; "label" and "quantity" are the concentrations of the two skews.
        "points", "rotation", "blur" and "temperature" need distinct models.
    values : tuple of float
        Its values.
    """

    name: FactorName
    values: tuple[int | float, ...]

    def __post_init__(self) -> None:
        if self.name not in FACTORS:
            raise InputError(f"a factor must be one of {', '.join(FACTORS)}, got {self.name!r}")
        if not self.values or len({*self.values}) < len(self.values):
            raise InputError(f"values must be different, at least one; got {self.values}")
        for value in self.values:
            shape_of((self.name, float(value)), Shape())


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A federation.

    Parameters
    ----------
    alpha : float
        Miscoverage level.
    agents : int
        How many agents.
    strong : float
        Share of them with strong models, from 0 to 1.
    skew : {"label", "quantity", "site"}
        Whether agents differ in their labels, in how much they hold, or in how their images look.
    beta : float
        Dirichlet concentration of the skew.
    tiny : int
        Agents, the last ones, that keep no more than `FEW` points.
    draw : int
        Which random division of the same points; other numbers give other divisions.
    points : int
        Calibration points of each agent; 0 for as many as the skew gives it.
    rotation, blur : float
        With skew "site": degrees by which images are turned and standard deviation in pixels by
        which they are blurred at the last site; at the first they are as they were, between them in
        equal steps.
    temperature : int
        1 if every model's logits are divided by a temperature fitted on rows held out.
    """

    alpha: float = 0.05
    agents: int = 6
    strong: float = 0.5
    skew: Literal["label", "quantity", "site"] = "label"
    beta: float = 0.3
    tiny: int = 0
    draw: int = 0
    points: int = 0
    rotation: float = 0.0
    blur: float = 0.0
    temperature: int = 0

    def __post_init__(self) -> None:
        conformal_rank(1, self.alpha)  # refuses what is no level
        if self.skew not in ("label", "quantity", "site"):
            raise InputError(f"skew must be 'label', 'quantity' or 'site', got {self.skew!r}")
        if min(self.points, self.rotation, self.blur) < 0 or self.temperature not in (0, 1):
            raise InputError(
                "points, rotation and blur must be at least 0 and temperature 0 or 1, got "
                f"{self.points}, {self.rotation}, {self.blur} and {self.temperature}"
            )
        if self.agents < 1 or not 0 <= self.tiny <= self.agents or not 0 <= self.strong <= 1:
            raise InputError(
                "a federation must have at least one agent, a share of strong ones from 0 to 1 and "
                f"no more tiny ones than agents, got {self.agents}, {self.strong} and {self.tiny}"
            )


@dataclass(frozen=True, kw_only=True)
class DistinctModels:
    """How agents get models of their own.

    Parameters
    ----------
    agents, points : int
        The federation that is varied: agents, and calibration points of each; fewer points, but at
        least `LEAST`, where there are more agents than the data have points for.
    rows : int
        Training rows of each model, drawn at random for it.
    calibration : float
        Share of the official training rows that may calibrate.
    large_seeds : int
        Seeds, the first ones, on which federations of more than `LARGE` agents are evaluated.
    """

    agents: int
    points: int
    rows: int
    calibration: float
    large_seeds: int

    def __post_init__(self) -> None:
        if min(self.agents, self.rows, self.large_seeds) < 1 or self.points < LEAST:
            raise InputError(
                f"distinct: agents, rows and large_seeds must be at least 1 and points {LEAST}"
            )
        if not 0 < self.calibration < 1:
            raise InputError(
                f"distinct: calibration must be strictly between 0 and 1, got {self.calibration}"
            )


@dataclass(frozen=True, kw_only=True)
class StressResult:
    """Coverage and size over the agents of one federation.

    Parameters
    ----------
    dataset, title, status : str
        Name of the data, as tables show it, and how the copy in use stands to the published one.
    seed : int
        Seed of models and partition.
    factor : str
        What was varied.
    value : float
        To which value.
    alpha : float
        Miscoverage level.
    preset, method : str
        Which settings, and which row.
    agents, fewest : int
        Agents, and the calibration points of the one with fewest.
    gap : float
        Mean over agents of the distance of coverage from 1 - alpha.
    short : float
        Mean over agents of what coverage lacks to 1 - alpha.
    worst : float
        Coverage of the worst agent.
    size : float
        Mean number of labels.
    weak : float or None
        Mean coverage of the agents with weak models; None without any, or where not recorded.
    bytes_up : float
        Mean bytes that an agent sent.
    mix : {"shared", "own"}
        Whether agents were tested on the shared test data or on their own distribution.
    low : float or None
        Coverage that one agent in twenty does not reach; None where not recorded.
    skew : float or None
        Mean over agents of the total variation distance between their mix of groups and that of
        all of them; None where not recorded.
    code, device : str
        Versions of the software, and where the models were trained.
    calibration_s : float
        Seconds of scoring and the round.
    version : int
        Version of the format.
    """

    dataset: str
    title: str
    status: str
    seed: int
    factor: str
    value: float
    alpha: float
    preset: str
    method: str
    agents: int
    fewest: int
    gap: float
    short: float
    worst: float
    size: float
    weak: float | None = None
    bytes_up: float
    mix: Literal["shared", "own"] = "shared"
    low: float | None = None
    skew: float | None = None
    code: str
    device: str
    calibration_s: float = field(compare=False)
    version: int = VERSION

    @property
    def key(self) -> Key:
        """What no two lines share."""
        row = self.dataset, self.seed, self.factor, self.value, self.preset, self.method
        return *row, self.alpha, self.mix


def run(
    study: StressStudy, where: Where, *, resume: bool = False, on_step: OnStep | None = None
) -> int:
    """Run a study; what is there already is not made again."""
    report = on_step or silent
    folder, journal = Folder(where.out, where.outputs), journal_of(where.out)
    folder.begin(folder.results, folder.partitions, journal, resume=resume)
    _check_settings(study.experiment, folder)
    write_configs(study.experiment, folder)
    todo = _pending(study, journal)
    kept = {result.key for result in journal.read()}

    def keep(results: Sequence[StressResult]) -> str:
        journal.append([result for result in results if result.key not in kept])
        first = results[0]
        return f"{first.dataset}: seed {first.seed}, {first.factor} {first.value:g}"

    if study.distinct is not None:
        return _run_distinct(study, study.distinct, folder, todo, where, keep=keep, report=report)
    calls = {task: [(study, point) for point in points] for task, points in todo.items()}
    evaluate_units(evaluate_point, study.experiment, folder, calls, where, keep=keep, report=report)
    return sum(map(len, calls.values()))


def load(path: Path = Path("stress.toml")) -> StressStudy:
    """Read a stress study: an experiment and tables ``[[factors]]``."""
    table = read_toml(path)
    factors = build_each(Factor, table.pop("factors", []), f"{path.name}: factors")
    levels = tuple(float(level) for level in table.pop("levels", ()))
    distinct = None
    if "distinct" in table:
        distinct = build(DistinctModels, table.pop("distinct"), f"{path.name}: distinct")
    experiment = build(Experiment, {**table, "pool": True}, path.name)
    return StressStudy(experiment=experiment, factors=factors, distinct=distinct, levels=levels)


def journal_of(folder: Path) -> Journal[StressResult]:
    """Return the records of a study."""
    return Journal(folder / "stress.jsonl", StressResult)


def evaluate_point(path: Path, study: StressStudy, point: Point) -> tuple[StressResult, ...]:
    """Evaluate every preset and method on one federation."""
    shape = shape_of(point, study.start)
    unit = federate(units.load(path), shape)
    return summarize(evaluate(unit, replace(study.experiment, alpha=shape.alpha)), *point)


def shape_of(point: Point, start: Shape) -> Shape:
    """Return the federation of a point."""
    name, value = point
    changed: dict[str, Any] = {name: value}
    if name in ("label", "quantity"):
        changed = {"skew": name, "beta": value}
    elif name in ("rotation", "blur"):
        changed = {"skew": "site", name: value}
    elif name in ("agents", "tiny", "draw", "points", "temperature"):
        if value != int(value):
            raise InputError(f"{name}: must be a whole number, got {value}")
        changed = {name: int(value)}
    return replace(start, **changed)


def federate(pool: Unit, shape: Shape) -> Unit:
    """Divide the calibration points of a pool anew, and give every agent a model of its kind."""
    setting = pool.setting
    strong = round(shape.strong * shape.agents)
    kinds = ["strong"] * strong + ["weak"] * (shape.agents - strong)
    models = {kind: [agent for agent in pool.outputs if agent.model == kind] for kind in {*kinds}}
    if not all(models.values()):
        raise InputError("the pool must hold models of every kind that the federation has")
    names = tuple(f"{kind[0].upper()}{at}" for at, kind in enumerate(kinds))
    owners = _owners(pool, shape)
    outputs = []
    for at, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        model = models[kind][at % len(models[kind])]
        outputs.append(AgentOutputs(name, model.calibration[owners == at], model.test))
    return Unit(replace(setting, agents=names, owners=owners), tuple(outputs))


def distinct_federation(pool: ModelPool, plan: DatasetPlan, shape: Shape, seed: int) -> Unit:
    """Give every agent a model of its own and equally many points, strong models first."""
    source, rows = pool.source, pool.rows
    strong = round(shape.strong * shape.agents)
    kinds = ["strong"] * strong + ["weak"] * (shape.agents - strong)
    names = tuple(f"{kind[0].upper()}{at}" for at, kind in enumerate(kinds))
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
        agents=names,
        owners=owners,
        rows=held,
        labels=source.targets[held].astype(np.int64),
        test_labels=test_labels,
        groups=groups,
        test_groups=test_groups,
        features=pool.components.of(images, np.arange(len(images))),
        label_law=np.bincount(train, minlength=dataset.n_classes or 0) / len(train),
        feature_law=pool.feature_law,
    )
    return Unit(setting, tuple(outputs))


def evaluate_levels(
    path: Path, study: StressStudy, point: Point, preset: PresetPlan
) -> tuple[StressResult, ...]:
    """Evaluate every method and level on one saved federation."""
    unit = units.load(path)
    scored = prepare(unit, preset)
    lines: list[StressResult] = []
    for found, plan in _rows_of(study, len(unit.outputs)):
        for level in study.levels if found.name == preset.name else ():
            began = time.perf_counter()
            record, row = evaluate_row(unit, scored, plan, level)
            sent = fmean(row.release.bytes_up(name) for name in record.agents)
            seconds = time.perf_counter() - began
            lines += [
                _grouped_summary(record, point, mix, sent, seconds) for mix in ("shared", "own")
            ]
    return tuple(lines)


def summarize(results: Sequence[Result], factor: str, value: float) -> tuple[StressResult, ...]:
    """Sum up what the agents of one federation got."""
    rows = groupby(results, key=lambda result: (result.preset, result.method))
    return tuple(_summary(tuple(row), factor, value) for _, row in rows)


def scale_tables(lines: Sequence[StressResult]) -> Iterator[tuple[str, str]]:
    """Yield the tables of a study with distinct models, each with its name."""
    cells = Cells(lines)
    yield "coverage", markdown_table([*_coverage_rows(cells)])
    yield "matched", markdown_table([*_matched_rows(cells)])
    yield "gap", markdown_table([*_gap_rows(cells)])
    yield "scores", markdown_table([*_score_rows(cells)])
    yield "datasets", markdown_table([*_dataset_rows(cells)])


class Cells:
    """Records by dataset, point, preset, method, level and mix; figures are medians over seeds."""

    def __init__(self, lines: Sequence[StressResult]) -> None:
        self._lines: dict[tuple[Any, ...], list[StressResult]] = {}
        self.titles = {x.dataset: display_title(x.title, x.status) for x in lines}
        self.points = _distinct((x.factor, x.value) for x in lines)
        self.points.sort(key=lambda point: ([*FACTORS].index(point[0]), point[1]))
        self.presets = _distinct(x.preset for x in lines)
        self.main = MAIN if MAIN in self.presets else self.presets[0]
        self.levels = sorted({x.alpha for x in lines})
        for x in lines:
            key = x.dataset, (x.factor, x.value), x.preset, x.method, x.alpha, x.mix
            self._lines.setdefault(key, []).append(x)

    def datasets(self, point: Point, method: str = "split-cp") -> tuple[str, ...]:
        """Return the datasets whose records have a point."""
        row = point, self.main, method, LEVEL, "own"
        return tuple(name for name in self.titles if (name, *row) in self._lines)

    def fewest(self, point: Point) -> int:
        """Return the fewest calibration points of an agent."""
        return min(self.federation(name, point)[1] for name in self.datasets(point))

    def federation(self, name: str, point: Point) -> tuple[int, int]:
        """Return the agents of one dataset, and the fewest calibration points of one."""
        own = self._lines[name, point, self.main, "split-cp", LEVEL, "own"]
        return own[0].agents, min(x.fewest for x in own)

    def median(self, what: str, *key: Any) -> float:
        """Return the median over seeds of a field."""
        return median(float(getattr(x, what)) for x in self._lines[key])

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
            part = (log(missed) - log(low)) / (log(high) - log(low))
            return exp((1 - part) * log(large) + part * log(small))
    return None


def write_scale(lines: Sequence[StressResult], out: Path) -> tuple[Path, ...]:
    """Write the tables and the figure of a study with distinct models."""
    require_matplotlib()
    page = "\n\n".join(f"## {name}\n\n{table}" for name, table in scale_tables(lines))
    make_out(out)
    write_atomic(out / "scale.md", f"# Distinct models, own distributions\n\n{page}\n".encode())
    own = [line for line in lines if line.preset == MAIN]
    return out / "scale.md", *draw_scale(own, out / "scale")


def draw_scale(
    lines: Sequence[StressResult], stem: Path, endings: Sequence[str] = (".svg", ".png")
) -> tuple[Path, ...]:
    """Draw the worst agent's coverage of its own distribution against every factor.

    Medians over seeds, averaged over the datasets that have every value of the factor.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    cells = Cells(lines)
    preset = cells.presets[0]
    points_of = {name: [p for p in cells.points if p[0] == name] for name in FACTORS}
    shared = {
        name: set.intersection(*({*cells.datasets(p)} for p in points))
        for name, points in points_of.items()
        if len(points) > 1
    }
    by_factor = {name: points_of[name] for name, datasets in shared.items() if datasets}
    with mpl.rc_context(STYLE):
        figure = Figure((2.1 * len(by_factor) + 1, 3.2), layout="constrained")
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
                    **_style(place),
                    label=method,
                )
            panel.set_xscale("log" if factor in LOGARITHMIC else "linear")
            panel.set_xlabel(f"{FACTORS[factor]}\n({len(names)} datasets)")
        panels[0].set_ylabel("coverage of the worst agent")
        handles, shown = panels[0].get_legend_handles_labels()
        figure.legend(handles, shown, loc="outside upper center", ncols=4, frameon=False)
        return save_all(figure, stem, endings)


def write_table(lines: Sequence[StressResult], out: Path) -> Path:
    """Write the table of a study."""
    table = out / "stress.csv"
    write_atomic(table, _stress_csv(lines).encode())
    return table


def write_figures(lines: Sequence[StressResult], out: Path) -> tuple[Path, ...]:
    """Write a figure for each preset, and one table."""
    require_matplotlib()
    files = [write_table(lines, out)]
    for preset in _distinct(line.preset for line in lines):
        stem = out / f"stress-{preset.lower().replace(' ', '-')}"
        files += draw_stress([line for line in lines if line.preset == preset], stem)
    return tuple(files)


def draw_stress(
    lines: Sequence[StressResult], stem: Path, endings: Sequence[str] = (".svg", ".png")
) -> tuple[Path, ...]:
    """Draw what the worst agent's coverage lacks, against every factor, for each dataset."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    datasets = _distinct(line.dataset for line in lines)
    factors = [name for name in FACTORS if any(line.factor == name for line in lines)]
    methods = _distinct(line.method for line in lines)
    with mpl.rc_context(STYLE):
        figure = Figure((2.3 * len(factors) + 1, 2.1 * len(datasets) + 0.9), layout="constrained")
        panels = figure.subplots(len(datasets), len(factors), sharey="row", squeeze=False)
        for row, dataset in zip(panels, datasets, strict=True):
            for panel, factor in zip(row, factors, strict=True):
                own = [x for x in lines if (x.dataset, x.factor) == (dataset, factor)]
                _stress_panel(panel, own, methods)
                panel.set_xscale("log" if factor in LOGARITHMIC else "linear")
            first = next(line for line in lines if line.dataset == dataset)
            row[0].set_ylabel(f"{display_title(first.title, first.status)}\nworst agent lacks")
        for panel, factor in zip(panels[-1], factors, strict=True):
            panel.set_xlabel(FACTORS[factor])
        handles, names = panels[0][0].get_legend_handles_labels()
        figure.legend(
            handles, names, loc="outside upper center", ncols=ceil(len(names) / 2), frameon=False
        )
        return save_all(figure, stem, endings)


def _coverage_rows(cells: Cells) -> Iterator[list[str]]:
    """Show the worst agent on its own distribution and on shared data, and sizes."""
    heads = (f"{m}: own, shared, size" for m in SCALED)
    yield ["varied", "datasets", "points", "exact", *heads]
    for point in cells.points:
        names = cells.datasets(point)
        exact = fmean(exact_worst(*cells.federation(name, point), LEVEL) for name in names)
        line = [_named(point), str(len(names)), str(cells.fewest(point)), f"{exact:.3f}"]
        for method in SCALED:
            if cells.datasets(point, method) != names:
                line.append("")
                continue
            worst = [
                fmean(cells.median("worst", n, point, MAIN, method, LEVEL, mix) for n in names)
                for mix in ("own", "shared")
            ]
            sizes = _ratio(cells, point, MAIN, method)
            line.append(", ".join([*(f"{x:.3f}" for x in worst), f"{sizes:.2f}"]))
        yield line


def _matched_rows(cells: Cells) -> Iterator[list[str]]:
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
    cells: Cells,
    what: str,
    point: Point,
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


def _gap_rows(cells: Cells) -> Iterator[list[str]]:
    """Show the mean distance from the level, own and shared."""
    yield ["varied", *(f"{m}: own, shared" for m in SCALED)]
    for point in cells.points:
        names = cells.datasets(point)
        line = [_named(point)]
        for method in SCALED:
            gaps = [
                fmean(cells.median("gap", n, point, MAIN, method, LEVEL, mix) for n in names)
                if cells.datasets(point, method) == names
                else None
                for mix in ("own", "shared")
            ]
            line.append("" if None in gaps else ", ".join(f"{gap:.3f}" for gap in gaps))
        yield line


def _score_rows(cells: Cells) -> Iterator[list[str]]:
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
                worst = fmean(
                    cells.median("worst", n, point, preset, method, LEVEL, "own") for n in names
                )
                ratio = _ratio(cells, point, preset, method, (MAIN, method))
                same = _matched_ratio(cells, "worst", point, (preset, method), (MAIN, method))
                line.append(f"{worst:.3f}, {ratio:.2f}, {same}")
            yield line


def _dataset_rows(cells: Cells) -> Iterator[list[str]]:
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
    cells: Cells,
    point: Point,
    preset: str,
    method: str,
    base: tuple[str, str] = ("randomised APS", "split-cp"),
) -> float:
    """Return own-mix sizes beside those of another row, geometric mean over datasets."""
    return geometric_mean(
        cells.median("size", n, point, preset, method, LEVEL, "own")
        / cells.median("size", n, point, *base, LEVEL, "own")
        for n in cells.datasets(point)
    )


def _named(point: Point) -> str:
    """Return a point as tables show it."""
    return f"{point[0]} = {point[1]:g}"


def _check_settings(experiment: Experiment, folder: Folder) -> None:
    """Refuse to mix lines of different settings; what the earlier ones had is written down."""
    parts = "dataset", "preset", "method"
    known = read_configs(folder)
    before = {tuple(own[part]["name"] for part in parts): key for key, own in known.items()}
    for row in product(experiment.datasets, experiment.presets, experiment.methods):
        dataset, preset, method = names = tuple(plan.name for plan in row)
        now = digest(experiment.config(dataset, preset, method))
        if before.get(names, now) != now:
            raise RecordError(
                f"the records of {method} on {dataset} were made with other settings "
                f"({before[names]}, now {now}): choose another folder with --out"
            )


def _pending(study: StressStudy, journal: Journal[StressResult]) -> dict[Task, list[Point]]:
    """Return the points of each unit whose lines are not all there."""
    done = {line.key for line in journal.read()}
    found: dict[Task, list[Point]] = {}
    for plan in study.experiment.datasets:
        for seed in study.experiment.seeds:
            for point in study.points:
                shape = shape_of(point, study.start)
                rows = _rows_of(study, shape.agents)
                mixes = ("shared",) if study.distinct is None else ("shared", "own")
                keys: set[Key] = {
                    (plan.name, seed, *point, preset.name, method.name, level, mix)
                    for preset, method in rows
                    for level in study.levels or (shape.alpha,)
                    for mix in mixes
                }
                if not keys <= done:
                    found.setdefault((plan.name, seed), []).append(point)
    return found


def _run_distinct(
    study: StressStudy,
    distinct: DistinctModels,
    folder: Folder,
    todo: Mapping[Task, Sequence[Point]],
    where: Where,
    *,
    keep: Callable[[tuple[StressResult, ...]], str],
    report: OnStep,
) -> int:
    """Train models of each dataset and seed, and evaluate its federations meanwhile."""
    experiment, made, done = study.experiment, 0, 0
    images = [plan for plan in experiment.datasets if plan.name != HOSPITALS]
    check_data(images, where.data)
    root = folder.outputs or folder.root / "outputs"
    with workers(evaluate_levels, jobs=where.jobs, executor=where.executor) as pool:

        def collect(*, wait: bool = False) -> None:
            nonlocal done
            for found in pool.finished(wait=wait):
                what = keep(found)
                done += 1
                report("records", what, done / made)

        def on_progress(what: str, share: float) -> None:
            report("outputs", what, share)
            collect()

        for task, point, unit in _federations(study, distinct, todo, where, on_progress):
            path = root / f"{task[0]}-{task[1]}-{point[0]}-{point[1]:g}"
            units.save(unit, path)
            for preset in experiment.presets:
                pool.submit(path, study, point, preset)
                made += 1
        collect(wait=True)
    shutil.rmtree(root, ignore_errors=True)
    return made


def _federations(
    study: StressStudy,
    distinct: DistinctModels,
    todo: Mapping[Task, Sequence[Point]],
    where: Where,
    on_progress: OnProgress,
) -> Iterator[tuple[Task, Point, Unit]]:
    """Train the models of each dataset and seed, and yield its federations."""
    experiment = study.experiment
    tasks = [task for plan in experiment.datasets for task in todo if task[0] == plan.name]
    plans = {plan.name: plan for plan in experiment.datasets}
    source: TrainingData | None = None
    read = ""
    for at, (name, seed) in enumerate(tasks):

        def tell(what: str, share: float, at: int = at) -> None:
            on_progress(what, (at + share) / len(tasks))

        plan, small = plans[name], name in SMALL
        if name == HOSPITALS:
            for point in todo[name, seed]:
                if where.data is not None and point == ("agents", 4.0):
                    yield (name, seed), point, hospitals_unit(where.data / HEART, seed)
            continue
        if source is None or read != name:
            source, read = embedded_dataset(name) if small else read_images(plan, where.data), name
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
            device=where.device,
            on_progress=tell,
        )
        for point, shape in shapes.items():
            yield (name, seed), point, distinct_federation(models, plan, shape, seed)


def _rows_of(study: StressStudy, agents: int) -> tuple[tuple[PresetPlan, MethodPlan], ...]:
    """Return presets and methods; every agent's feature density at all points is too much for many.

    Its cost grows with the points of all agents times the agents: minutes a round for 1,000.
    """
    rows = applicable(study.experiment, "classification", quantiles=False)
    if study.distinct is None or agents <= WITH_DENSITIES:
        return rows
    return tuple(
        (preset, plan)
        for preset, plan in rows
        if methods.get(plan.method, **plan.settings).corrects_shift_of != "features"
    )


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
    record: GroupedResult, point: Point, mix: Literal["shared", "own"], sent: float, seconds: float
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


def _owners(pool: Unit, shape: Shape) -> Labels:
    """Return the agent of each calibration point, -1 for nobody."""
    groups = pool.setting.groups
    again = (str(shape.draw),) if shape.draw else ()  # division 0 keeps the stream that it had
    rng = stream(pool.setting.seed, pool.setting.dataset, "federation", shape.skew, *again)
    if shape.points:
        points = min(shape.points, len(groups) // shape.agents)
        parts = by_mix(groups, shape.agents, points, rng, beta=shape.beta)
    elif shape.skew == "label":
        parts = by_label(groups, shape.agents, rng, beta=shape.beta)
    else:
        parts = by_quantity(len(groups), shape.agents, rng, beta=shape.beta)
    owners = np.full(len(groups), -1, dtype=np.int64)
    for at, part in enumerate(parts):
        tiny = at >= shape.agents - shape.tiny
        owners[rng.permutation(part)[:FEW] if tiny else part] = at
    return owners


def _summary(row: Sequence[Result], factor: str, value: float) -> StressResult:
    """Sum up one row."""
    first, level = row[0], 1 - row[0].alpha
    weak = [result.coverage for result in row if result.model == "weak"]
    return StressResult(
        dataset=first.dataset,
        title=first.title,
        status=first.status,
        seed=first.seed,
        factor=factor,
        value=value,
        alpha=first.alpha,
        preset=first.preset,
        method=first.method,
        agents=len(row),
        fewest=min(result.n_cal for result in row),
        gap=fmean(abs(result.coverage - level) for result in row),
        short=fmean(max(0.0, level - result.coverage) for result in row),
        worst=min(result.coverage for result in row),
        size=fmean(result.size for result in row),
        weak=fmean(weak) if weak else None,
        bytes_up=fmean(result.bytes_up for result in row),
        code=first.code,
        device=first.device,
        calibration_s=first.calibration_s,
    )


def _stress_panel(panel: Any, lines: Sequence[StressResult], methods: Sequence[str]) -> None:
    """Draw one panel: medians over seeds."""
    panel.axhline(0, color="0.6", linewidth=0.8)
    values = sorted({line.value for line in lines})
    for place, method in enumerate(methods):
        lacks = [
            [
                1 - line.alpha - line.worst
                for line in lines
                if (line.method, line.value) == (method, value)
            ]
            for value in values
        ]
        there = [
            (value, median(found)) for value, found in zip(values, lacks, strict=True) if found
        ]
        panel.plot(
            *zip(*there, strict=True) if there else ((), ()),
            **_style(place),
            label=method,
        )


def _style(place: int) -> dict[str, Any]:
    """Return how the line of the method at a place of the legend is drawn."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKERS[place % len(MARKERS)],
        "markersize": 4,
        "linewidth": 1.2,
        "linestyle": "-" if place < len(COLOURS) else "--",
    }


def _stress_csv(lines: Sequence[StressResult]) -> str:
    """Return medians over seeds."""
    columns = ("gap", "short", "worst", "size", "fewest", "bytes_up", "calibration_s")
    text = StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["dataset", "status", "factor", "value", "preset", "method", "seeds", *columns])
    groups: dict[tuple[str, str, str, float, str, str], list[StressResult]] = {}
    for line in lines:
        key = line.dataset, line.status, line.factor, line.value, line.preset, line.method
        groups.setdefault(key, []).append(line)
    for key, own in sorted(groups.items()):
        figures = (f"{median(getattr(line, name) for line in own):.5g}" for name in columns)
        rows.writerow([*key[:3], f"{key[3]:g}", *key[4:], len(own), *figures])
    return text.getvalue()


def _distinct(values: Iterable[T]) -> list[T]:
    """Return values once each, in the order in which they came."""
    return list(dict.fromkeys(values))
