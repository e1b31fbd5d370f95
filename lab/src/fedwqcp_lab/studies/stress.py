"""The stress study: one thing about a federation is varied at a time, to see where methods fail.

One pool of models is trained for a dataset and seed; federations of any shape are sampled from it
(`federate`) and evaluated like an experiment. The study is read from TOML; its records, one for a
federation, preset and method, become a table and figures.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from itertools import groupby, product
from math import ceil
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal, TypeAlias

import numpy as np

from fedwqcp.errors import InputError, RecordError
from fedwqcp.quantile import conformal_rank
from fedwqcp.report.figures import COLOURS, MARKERS, STYLE, require_matplotlib, save_all
from fedwqcp_lab import unit as units
from fedwqcp_lab.comparison import display_title
from fedwqcp_lab.datasets.embedded import by_label, by_quantity, stream
from fedwqcp_lab.evaluation import applicable, evaluate
from fedwqcp_lab.experiment import Experiment, build, build_each, digest, read_toml
from fedwqcp_lab.pipeline import (
    Folder,
    OnStep,
    Task,
    Where,
    evaluate_units,
    silent,
    write_configs,
)
from fedwqcp_lab.results import VERSION, Journal, Result, write_atomic
from fedwqcp_lab.unit import AgentOutputs, Labels, Unit

Point: TypeAlias = tuple[str, float]
"""A factor and its value."""

FEW = 10
"""Points that a tiny agent keeps."""

Key: TypeAlias = tuple[str, int, str, float, str, str]
"""Dataset, seed, factor, value, preset and method."""

FACTORS = {
    "label": "label skew: concentration",
    "quantity": "quantity skew: concentration",
    "agents": "agents",
    "tiny": "agents with ten points",
    "strong": "share of strong models",
    "alpha": "miscoverage level",
    "draw": "random division",
}
"""Factors in the order of the panels, with their axes; the first three are logarithmic."""

LOGARITHMIC = ("label", "quantity", "agents")


@dataclass(frozen=True, kw_only=True)
class StressStudy:
    """A stress study.

    Parameters
    ----------
    experiment : Experiment
        Datasets, seeds, presets and methods; its models are a pool.
    factors : tuple of Factor
        What is varied, each from the experiment's own alpha, beta and agents.
    """

    experiment: Experiment
    factors: tuple[Factor, ...]

    def __post_init__(self) -> None:
        names = [factor.name for factor in self.factors]
        if not names or len({*names}) < len(names):
            raise InputError(f"factors must have different names, at least one; got {names}")

    @property
    def start(self) -> Shape:
        """The federation that is varied."""
        own = self.experiment
        agents = own.strong + own.weak
        return Shape(alpha=own.alpha, agents=agents, strong=own.strong / agents, beta=own.beta)

    @property
    def points(self) -> tuple[Point, ...]:
        """All factors with all their values."""
        return tuple((f.name, float(value)) for f in self.factors for value in f.values)


@dataclass(frozen=True, kw_only=True)
class Factor:
    """What is varied.

    Parameters
    ----------
    name : {"alpha", "agents", "strong", "label", "quantity", "tiny", "draw"}
        A field of `Shape`; "label" and "quantity" are the concentrations of the two skews.
    values : tuple of float
        Its values.
    """

    name: Literal["alpha", "agents", "strong", "label", "quantity", "tiny", "draw"]
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
    skew : {"label", "quantity"}
        Whether agents differ in what they hold, or in how much.
    beta : float
        Dirichlet concentration of the skew.
    tiny : int
        Agents, the last ones, that keep no more than `FEW` points.
    draw : int
        Which random division of the same points; other numbers give other divisions.
    """

    alpha: float = 0.05
    agents: int = 6
    strong: float = 0.5
    skew: Literal["label", "quantity"] = "label"
    beta: float = 0.3
    tiny: int = 0
    draw: int = 0

    def __post_init__(self) -> None:
        conformal_rank(1, self.alpha)  # refuses what is no level
        if self.skew not in ("label", "quantity"):
            raise InputError(f"skew must be 'label' or 'quantity', got {self.skew!r}")
        if self.agents < 1 or not 0 <= self.tiny <= self.agents or not 0 <= self.strong <= 1:
            raise InputError(
                "a federation must have at least one agent, a share of strong ones from 0 to 1 and "
                f"no more tiny ones than agents, got {self.agents}, {self.strong} and {self.tiny}"
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
    code: str
    device: str
    calibration_s: float = field(compare=False)
    version: int = VERSION

    @property
    def key(self) -> Key:
        """What no two lines share."""
        return self.dataset, self.seed, self.factor, self.value, self.preset, self.method


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

    calls = {task: [(study, point) for point in points] for task, points in todo.items()}
    evaluate_units(evaluate_point, study.experiment, folder, calls, where, keep=keep, report=report)
    return sum(map(len, calls.values()))


def load(path: Path = Path("stress.toml")) -> StressStudy:
    """Read a stress study: an experiment and tables ``[[factors]]``."""
    table = read_toml(path, "a stress study")
    factors = build_each(Factor, table.pop("factors", []), f"{path.name}: factors")
    experiment = build(Experiment, {**table, "pool": True}, path.name)
    return StressStudy(experiment=experiment, factors=factors)


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
    elif name in ("agents", "tiny", "draw"):
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


def summarize(results: Sequence[Result], factor: str, value: float) -> tuple[StressResult, ...]:
    """Sum up what the agents of one federation got."""
    rows = groupby(results, key=lambda result: (result.preset, result.method))
    return tuple(_summary(tuple(row), factor, value) for _, row in rows)


def write_figures(lines: Sequence[StressResult], out: Path) -> tuple[Path, ...]:
    """Write a figure for each preset, and one table."""
    require_matplotlib()
    table = out / "stress.csv"
    write_atomic(table, _stress_csv(lines).encode())
    files = [table]
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


def _check_settings(experiment: Experiment, folder: Folder) -> None:
    """Refuse to mix lines of different settings; what those of before had is written down."""
    path = folder.root / "configs.json"
    known = json.loads(path.read_bytes()) if path.exists() else {}
    parts = "dataset", "preset", "method"
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
    rows = applicable(study.experiment, "classification", quantiles=False)
    found: dict[Task, list[Point]] = {}
    for plan in study.experiment.datasets:
        for seed in study.experiment.seeds:
            for point in study.points:
                keys: set[Key] = {
                    (plan.name, seed, *point, preset.name, method.name) for preset, method in rows
                }
                if not keys <= done:
                    found.setdefault((plan.name, seed), []).append(point)
    return found


def _owners(pool: Unit, shape: Shape) -> Labels:
    """Return the agent of each calibration point, -1 for nobody."""
    groups = pool.setting.groups
    again = (str(shape.draw),) if shape.draw else ()  # division 0 keeps the stream that it had
    rng = stream(pool.setting.seed, pool.setting.dataset, "federation", shape.skew, *again)
    if shape.skew == "label":
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
            color=COLOURS[place % len(COLOURS)],
            marker=MARKERS[place % len(MARKERS)],
            markersize=4,
            linewidth=1.2,
            linestyle="-" if place < len(COLOURS) else "--",
            label=method,
        )


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


def _distinct(values: Any) -> list[str]:
    """Return values once each, in the order in which they came."""
    return list(dict.fromkeys(values))
