"""A benchmark from beginning to end: train what is missing, and evaluate meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from fedwqcp.bench import unit as units
from fedwqcp.bench.executors import Executor, Workers, workers
from fedwqcp.bench.experiment import Experiment
from fedwqcp.bench.plans import DatasetPlan
from fedwqcp.bench.stages import (
    Evaluated,
    Folder,
    Keeper,
    Task,
    evaluate_saved,
    pending,
    write_configs,
)
from fedwqcp.bench.training import check_data, train_units
from fedwqcp.bench.unit import Unit

OnStep: TypeAlias = Callable[[str, str, float], None]
"""Told the stage ("outputs" or "records"), what comes next, and the share that is done."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where a run reads, computes and writes.

    Parameters
    ----------
    out : Path
        Folder of the records.
    data : Path or None, optional
        Folder with data.
    outputs : Path or None, optional
        Folder of the model outputs; by default inside ``out``.
    device : str, optional
        Where models are trained: "auto", "cpu" or "cuda".
    jobs : int, optional
        Processes that evaluate.
    executor : {"processes", "ray"}, optional
        What runs them.
    """

    out: Path
    data: Path | None = None
    outputs: Path | None = None
    device: str = "auto"
    jobs: int = 1
    executor: Executor = "processes"


def run(
    experiment: Experiment, where: Where, *, resume: bool = False, on_step: OnStep | None = None
) -> int:
    """Run an experiment; what is there already is not made again.

    Parameters
    ----------
    experiment : Experiment
        What to compare.
    where : Where
        Folders, device and processes.
    resume : bool, optional
        Go on from the records that are there.
    on_step : callable, optional
        Told how far it is.

    Returns
    -------
    int
        Units whose records were made.

    Raises
    ------
    InputError
        If data are missing, or records are there and the run does not resume.
    RecordError
        If records were made with other settings, or are damaged.
    """
    tell = on_step or _silent
    folder = Folder(where.out, where.outputs)
    folder.begin(resume=resume)
    todo = pending(experiment, folder)
    write_configs(experiment, folder)
    lacking = _lacking(experiment, folder, todo)
    check_data(lacking, where.data)
    with workers(evaluate_saved, jobs=where.jobs, executor=where.executor) as pool:
        records = _Records(pool, Keeper(folder), len(todo), tell)
        for dataset, seed in todo:
            if seed not in lacking.get(_plan(experiment, dataset), ()):
                pool.submit(folder.unit(experiment, (dataset, seed)), experiment)
        for unit in _made(experiment, lacking, where, tell, records):
            path = folder.unit(experiment, (unit.setting.dataset, unit.setting.seed))
            units.save(unit, path)
            pool.submit(path, experiment)
        tell("outputs", "model outputs are there", 1.0)
        records.collect(wait=True)
    tell("records", "done", 1.0)
    return len(todo)


@dataclass
class _Records:
    """Keeps what the workers have found so far."""

    pool: Workers[Evaluated]
    keeper: Keeper
    total: int
    tell: OnStep
    done: int = 0

    def collect(self, *, wait: bool = False) -> None:
        """Append the records that are there."""
        for evaluated in self.pool.finished(wait=wait):
            self.keeper.keep(evaluated)
            self.done += 1
            last = evaluated[1][0]
            what = f"{last.dataset}: seed {last.seed} done"
            self.tell("records", what, self.done / self.total)


def _plan(experiment: Experiment, dataset: str) -> DatasetPlan:
    """Return how a dataset is used."""
    return next(plan for plan in experiment.datasets if plan.name == dataset)


def _lacking(
    experiment: Experiment, folder: Folder, todo: tuple[Task, ...]
) -> dict[DatasetPlan, list[int]]:
    """Return the seeds of each dataset that no model outputs are there for."""
    found: dict[DatasetPlan, list[int]] = {}
    for dataset, seed in todo:
        if not units.found(folder.unit(experiment, (dataset, seed))):
            found.setdefault(_plan(experiment, dataset), []).append(seed)
    return found


def _made(
    experiment: Experiment,
    lacking: dict[DatasetPlan, list[int]],
    where: Where,
    tell: OnStep,
    records: _Records,
) -> Iterator[Unit]:
    """Train dataset by dataset; records of earlier ones are kept meanwhile."""
    for done, (plan, seeds) in enumerate(lacking.items()):

        def on_share(what: str, share: float, done: int = done) -> None:
            tell("outputs", what, (done + share) / len(lacking))
            records.collect()

        yield from train_units(
            plan, experiment, seeds, data=where.data, device=where.device, on_share=on_share
        )


def _silent(stage: str, what: str, share: float) -> None:
    """Tell nobody."""
    del stage, what, share  # nobody listens
