"""The stress study: one thing about a federation is varied at a time, to see where methods fail.

Federations of any shape are sampled for a dataset and seed. They take their models from one pool of
six (`federate`) and are tested on the shared test data; with models of their own and other tests it
is the study of `scale`. The records, one for a federation, preset, method, level and test mix,
become a table and figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import ceil
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal, TypeAlias

import numpy as np

from fedwqcp import methods
from fedwqcp.errors import InputError
from fedwqcp.files import to_csv, write_atomic
from fedwqcp.quantile import conformal_rank
from fedwqcp.report.figures import COLOURS, method_style, new_figure, require_matplotlib, save_all
from fedwqcp_lab import unit as units
from fedwqcp_lab.datasets.partition import Labels, by_label, by_mix, by_quantity, stream
from fedwqcp_lab.evaluation import applicable, evaluate
from fedwqcp_lab.experiment import Experiment, MethodPlan, PresetPlan, build, build_each, read_toml
from fedwqcp_lab.pipeline import OnStage, RunOptions, UnitKey, evaluate_units, keep_settings, silent
from fedwqcp_lab.results import VERSION, DatasetRecord, Journal, Result
from fedwqcp_lab.unit import AgentOutputs, Unit

FactorValue: TypeAlias = tuple[str, float]
"""A factor and its value."""

FEW = 10
"""Points that a tiny agent keeps."""


LEAST = 20
"""Fewest calibration points of an agent in a federation of distinct models."""

WITH_DENSITIES = 20
"""Most agents, each with a model of its own, of a method that compares feature densities."""

StressKey: TypeAlias = tuple[str, int, str, float, str, str, float, str]
"""Dataset, seed, factor, value, preset, method, level and mix."""


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
    def points(self) -> tuple[FactorValue, ...]:
        """All factors with all their values."""
        return tuple((f.name, float(value)) for f in self.factors for value in f.values)


@dataclass(frozen=True, kw_only=True)
class Factor:
    """What is varied.

    Parameters
    ----------
    name : str
        One of `FACTORS`, a field of `Shape`; "label" and "quantity" are the concentrations of the
        two skews. "points", "rotation", "blur" and "temperature" need distinct models.
    values : tuple of float
        Its values.
    """

    name: str
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

    @property
    def kinds(self) -> dict[str, str]:
        """Names of the agents, S0, S1, ... strong, then W... weak, and what model each has."""
        strong = round(self.strong * self.agents)
        weak = range(strong, self.agents)
        return {f"S{at}": "strong" for at in range(strong)} | {f"W{at}": "weak" for at in weak}


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
        Seeds, the first ones, on which federations of more than `scale.LARGE` agents are evaluated.
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
class StressResult(DatasetRecord):
    """Coverage and size over the agents of one federation.

    Parameters
    ----------
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
    def key(self) -> StressKey:
        """What no two records share."""
        row = self.dataset, self.seed, self.factor, self.value, self.preset, self.method
        return *row, self.alpha, self.mix


def run(
    study: StressStudy, options: RunOptions, *, resume: bool = False, on_step: OnStage = silent
) -> int:
    """Run a study on pools of models; what is there already is not made again."""
    todo, keep = begin(study, options, resume=resume)
    calls = {task: [(study, point) for point in points] for task, points in todo.items()}
    evaluate_units(evaluate_point, study.experiment, calls, options, keep=keep, report=on_step)
    return sum(map(len, calls.values()))


def begin(
    study: StressStudy, options: RunOptions, *, resume: bool
) -> tuple[dict[UnitKey, list[FactorValue]], Callable[[Sequence[StressResult]], str]]:
    """Return what is left to do, and a function that keeps results and says what they are of."""
    journal = journal_of(options.out)
    options.folder.begin(journal, resume=resume)
    keep_settings(study.experiment, options.folder)

    def keep(results: Sequence[StressResult]) -> str:
        journal.append_new(results)
        first = results[0]
        return f"{first.dataset}: seed {first.seed}, {first.factor} {first.value:g}"

    return _pending(study, journal), keep


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


def evaluate_point(path: Path, study: StressStudy, point: FactorValue) -> tuple[StressResult, ...]:
    """Evaluate every preset and method on one federation."""
    shape = shape_of(point, study.start)
    unit = federate(units.load(path), shape)
    return summarize(evaluate(unit, replace(study.experiment, alpha=shape.alpha)), *point)


def shape_of(point: FactorValue, start: Shape) -> Shape:
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
    owners = _owners(pool, shape)
    outputs = []
    for at, (name, kind) in enumerate(shape.kinds.items()):
        models = [agent for agent in pool.outputs if agent.model == kind]
        if not models:
            raise InputError("the pool must hold models of every kind that the federation has")
        model = models[at % len(models)]
        outputs.append(AgentOutputs(name, model.calibration[owners == at], model.test))
    return Unit(replace(setting, agents=tuple(shape.kinds), owners=owners), tuple(outputs))


def summarize(results: Sequence[Result], factor: str, value: float) -> tuple[StressResult, ...]:
    """Sum up what the agents of one federation got."""
    rows = groupby(results, key=lambda result: (result.preset, result.method))
    return tuple(_summary(tuple(row), factor, value) for _, row in rows)


def write_figures(records: Sequence[StressResult], out: Path) -> tuple[Path, ...]:
    """Write a figure for each preset, and one table."""
    require_matplotlib()
    files = [write_table(records, out)]
    for preset in dict.fromkeys(record.preset for record in records):
        stem = out / f"stress-{preset.lower().replace(' ', '-')}"
        files += draw_stress([record for record in records if record.preset == preset], stem)
    return tuple(files)


def draw_stress(records: Sequence[StressResult], stem: Path) -> tuple[Path, ...]:
    """Draw what the worst agent's coverage lacks, against every factor, for each dataset."""
    datasets = list(dict.fromkeys(record.dataset for record in records))
    factors = [name for name in FACTORS if any(record.factor == name for record in records)]
    methods = list(dict.fromkeys(record.method for record in records))
    with new_figure(2.3 * len(factors) + 1, 2.1 * len(datasets) + 0.9) as figure:
        panels = figure.subplots(len(datasets), len(factors), sharey="row", squeeze=False)
        for row, dataset in zip(panels, datasets, strict=True):
            for panel, factor in zip(row, factors, strict=True):
                own = [x for x in records if (x.dataset, x.factor) == (dataset, factor)]
                _stress_panel(panel, own, methods)
                panel.set_xscale("log" if factor in LOGARITHMIC else "linear")
            first = next(record for record in records if record.dataset == dataset)
            row[0].set_ylabel(f"{first.display_title}\nworst agent lacks")
        for panel, factor in zip(panels[-1], factors, strict=True):
            panel.set_xlabel(FACTORS[factor])
        handles, names = panels[0][0].get_legend_handles_labels()
        figure.legend(
            handles, names, loc="outside upper center", ncols=ceil(len(names) / 2), frameon=False
        )
        return save_all(figure, stem, (".svg", ".png"))


def _pending(
    study: StressStudy, journal: Journal[StressResult]
) -> dict[UnitKey, list[FactorValue]]:
    """Return the points of each unit whose records are not all there."""
    done = {record.key for record in journal.read()}
    found: dict[UnitKey, list[FactorValue]] = {}
    for plan in study.experiment.datasets:
        for seed in study.experiment.seeds:
            for point in study.points:
                shape = shape_of(point, study.start)
                rows = rows_of(study, shape.agents)
                mixes = ("shared",) if study.distinct is None else ("shared", "own")
                keys: set[StressKey] = {
                    (plan.name, seed, *point, preset.name, method.name, level, mix)
                    for preset, method in rows
                    for level in study.levels or (shape.alpha,)
                    for mix in mixes
                }
                if not keys <= done:
                    found.setdefault((plan.name, seed), []).append(point)
    return found


def rows_of(study: StressStudy, agents: int) -> tuple[tuple[PresetPlan, MethodPlan], ...]:
    """Return presets and methods; with many agents, none that compares feature densities.

    Their cost grows with the points of all agents times the agents: minutes a round for 1,000.
    """
    rows = applicable(study.experiment, "classification", quantiles=False)
    if study.distinct is None or agents <= WITH_DENSITIES:
        return rows
    return tuple(
        (preset, plan)
        for preset, plan in rows
        if methods.get(plan.method, **plan.settings).traits.corrects_shift_of != "features"
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


def _stress_panel(panel: Any, records: Sequence[StressResult], methods: Sequence[str]) -> None:
    """Draw one panel: medians over seeds."""
    panel.axhline(0, color="0.6", linewidth=0.8)
    values = sorted({record.value for record in records})
    for place, method in enumerate(methods):
        lacks = [
            [
                1 - record.alpha - record.worst
                for record in records
                if (record.method, record.value) == (method, value)
            ]
            for value in values
        ]
        panel.plot(
            [value for value, found in zip(values, lacks, strict=True) if found],
            [median(found) for found in lacks if found],
            **line_style(place),
            label=method,
        )


def line_style(place: int) -> dict[str, Any]:
    """Return how the line of the method at a place of the legend is drawn."""
    return {
        **method_style(place),
        "markersize": 4,
        "linewidth": 1.2,
        "linestyle": "-" if place < len(COLOURS) else "--",
    }


def write_table(records: Sequence[StressResult], out: Path) -> Path:
    """Write medians over seeds as ``stress.csv``."""
    columns = ("gap", "short", "worst", "size", "fewest", "bytes_up", "calibration_s")
    rows = [["dataset", "status", "factor", "value", "preset", "method", "seeds", *columns]]
    groups: dict[tuple[str, str, str, float, str, str], list[StressResult]] = {}
    for x in records:
        key = x.dataset, x.status, x.factor, x.value, x.preset, x.method
        groups.setdefault(key, []).append(x)
    for key, own in sorted(groups.items()):
        figures = (f"{median(getattr(x, name) for x in own):.5g}" for name in columns)
        rows.append([*key[:3], f"{key[3]:g}", *key[4:], str(len(own)), *figures])
    table = out / "stress.csv"
    write_atomic(table, to_csv(rows).encode())
    return table
