"""A benchmark from beginning to end: train what is missing, and evaluate meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from fedwqcp_lab import unit as units
from fedwqcp_lab.executors import Executor, Workers, workers
from fedwqcp_lab.experiment import Experiment
from fedwqcp_lab.stages import (
    Evaluated,
    Folder,
    Keeper,
    Task,
    evaluate_saved,
    pending,
    write_configs,
)
from fedwqcp_lab.training import check_data, train_units

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
    tell = on_step or silent
    folder = Folder(where.out, where.outputs)
    folder.begin(resume=resume)
    todo = pending(experiment, folder)
    write_configs(experiment, folder)
    with workers(evaluate_saved, jobs=where.jobs, executor=where.executor) as pool:
        records = _Records(pool, Keeper(folder), len(todo), tell)
        ready = prepared(experiment, folder, todo, where, tell=tell, meanwhile=records.collect)
        for _, path in ready:
            pool.submit(path, experiment)
        records.collect(wait=True)
    tell("records", "done", 1.0)
    return len(todo)


def prepared(
    experiment: Experiment,
    folder: Folder,
    todo: Sequence[Task],
    where: Where,
    *,
    tell: OnStep,
    meanwhile: Callable[[], None],
) -> Iterator[tuple[Task, Path]]:
    """Yield units as soon as their model outputs are there; where they are not, train.

    Parameters
    ----------
    experiment : Experiment
        What is compared.
    folder : Folder
        Where the outputs are kept.
    todo : sequence of Task
        The units.
    where : Where
        Data and device.
    tell : callable
        Told how far the training is.
    meanwhile : callable
        Called between steps of the training.

    Yields
    ------
    tuple
        A unit, and the folder of its outputs.

    Raises
    ------
    InputError
        If data are missing; before anything is trained.
    """
    paths = {task: folder.unit(experiment, task) for task in todo}
    lacking = [task for task, path in paths.items() if not units.found(path)]
    plans = [plan for plan in experiment.datasets if any(name == plan.name for name, _ in lacking)]
    check_data(plans, where.data)
    for task, path in paths.items():
        if task not in lacking:
            yield task, path
    for done, plan in enumerate(plans):

        def on_share(what: str, share: float, done: int = done) -> None:
            tell("outputs", what, (done + share) / len(plans))
            meanwhile()

        seeds = [seed for name, seed in lacking if name == plan.name]
        for unit in train_units(
            plan, experiment, seeds, data=where.data, device=where.device, on_share=on_share
        ):
            task = plan.name, unit.setting.seed
            units.save(unit, paths[task])
            yield task, paths[task]
    tell("outputs", "model outputs are there", 1.0)


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


def silent(stage: str, what: str, share: float) -> None:
    """Tell nobody how far a run is.

    Parameters
    ----------
    stage, what : str
        What is being done.
    share : float
        The share that is done.
    """
    del stage, what, share  # nobody listens
