"""The stress study: train a pool of models, and evaluate federations of many shapes."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from fedwqcp.errors import InputError, RecordError
from fedwqcp_lab import unit as units
from fedwqcp_lab.evaluate import applicable, evaluate
from fedwqcp_lab.executors import Workers, workers
from fedwqcp_lab.experiment import Experiment, digest
from fedwqcp_lab.journal import Journal
from fedwqcp_lab.pool import federate
from fedwqcp_lab.run import OnStep, Where, prepared, silent
from fedwqcp_lab.stages import Folder, Task, write_configs
from fedwqcp_lab.stressed import Key, Stressed, stressed
from fedwqcp_lab.study import Point, Stress, shape_of


def run(study: Stress, where: Where, *, resume: bool = False, on_step: OnStep | None = None) -> int:
    """Run a study; what is there already is not made again.

    Parameters
    ----------
    study : Stress
        What to vary.
    where : Where
        Folders, device and processes; records go to ``stress.jsonl``.
    resume : bool, optional
        Go on from the records that are there.
    on_step : callable, optional
        Told how far it is.

    Returns
    -------
    int
        Federations that were evaluated.

    Raises
    ------
    InputError
        If data are missing, or records are there and the run does not resume.
    RecordError
        If records were made with other settings, or are damaged.
    """
    tell = on_step or silent
    folder, journal = Folder(where.out, where.outputs), journal_of(where.out)
    folder.begin(resume=resume)
    if journal.exists and not resume:
        raise InputError(
            f"{journal.path} is there already: go on with --resume, or choose another folder with "
            "--out"
        )
    journal.mend()
    _check_settings(study.experiment, folder)
    write_configs(study.experiment, folder)
    todo = _pending(study, journal)
    with workers(evaluate_point, jobs=where.jobs, executor=where.executor) as pool:
        collect = _Collector(pool, journal, sum(map(len, todo.values())), tell)
        ready = prepared(study.experiment, folder, tuple(todo), where, tell=tell, meanwhile=collect)
        for task, path in ready:
            for point in todo[task]:
                pool.submit(path, study, point)
        collect(wait=True)
    return collect.done


def journal_of(folder: Path) -> Journal[Stressed]:
    """Return the records of a study.

    Parameters
    ----------
    folder : Path
        Where it was written.

    Returns
    -------
    Journal
        ``stress.jsonl``.
    """
    return Journal(folder / "stress.jsonl", Stressed)


def evaluate_point(path: Path, study: Stress, point: Point) -> tuple[Stressed, ...]:
    """Evaluate every preset and method on one federation.

    Parameters
    ----------
    path : Path
        Folder of the pool.
    study : Stress
        The study.
    point : tuple
        Factor and value.

    Returns
    -------
    tuple of Stressed
        One for each preset and method.
    """
    shape = shape_of(point, study.start)
    unit = federate(units.load(path), shape)
    return stressed(evaluate(unit, replace(study.experiment, alpha=shape.alpha)), *point)


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


def _pending(study: Stress, journal: Journal[Stressed]) -> dict[Task, list[Point]]:
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


@dataclass
class _Collector:
    """Keeps the lines that the workers have made so far."""

    pool: Workers[tuple[Stressed, ...]]
    journal: Journal[Stressed]
    total: int
    tell: OnStep
    done: int = 0

    def __post_init__(self) -> None:
        self._kept = {line.key for line in self.journal.read()}

    def __call__(self, *, wait: bool = False) -> None:
        for lines in self.pool.finished(wait=wait):
            self.journal.append([line for line in lines if line.key not in self._kept])
            self.done += 1
            what = f"{lines[0].dataset}: seed {lines[0].seed}, {lines[0].factor} {lines[0].value:g}"
            self.tell("records", what, self.done / self.total)
