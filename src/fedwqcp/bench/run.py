"""A benchmark from beginning to end: train what is missing, evaluate what is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from fedwqcp.bench import unit as units
from fedwqcp.bench.executors import Executor, spread
from fedwqcp.bench.experiment import Experiment
from fedwqcp.bench.stages import (
    Folder,
    Keeper,
    Task,
    evaluate_saved,
    pending,
    write_configs,
)
from fedwqcp.bench.training import check_data, train_units

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
    _make_outputs(experiment, folder, todo, where, tell)
    keeper = Keeper(folder)
    arguments = [(folder.unit(experiment, task), experiment) for task in todo]
    tell("records", f"evaluating {len(todo)} units", 0.0)
    found = spread(evaluate_saved, arguments, jobs=where.jobs, executor=where.executor)
    for done, evaluated in enumerate(found, 1):
        keeper.keep(evaluated)
        last = evaluated[1][0]
        tell("records", f"{last.dataset}: seed {last.seed} done", done / len(todo))
    tell("records", "done", 1.0)
    return len(todo)


def _make_outputs(
    experiment: Experiment, folder: Folder, todo: tuple[Task, ...], where: Where, tell: OnStep
) -> None:
    """Train where model outputs are missing, dataset by dataset."""
    lacking = {
        plan: seeds
        for plan in experiment.datasets
        if (
            seeds := [
                seed
                for name, seed in todo
                if name == plan.name and not units.found(folder.unit(experiment, (name, seed)))
            ]
        )
    }
    check_data(lacking, where.data)
    for done, (plan, seeds) in enumerate(lacking.items()):

        def on_share(what: str, share: float, done: int = done) -> None:
            tell("outputs", what, (done + share) / len(lacking))

        made = train_units(
            plan, experiment, seeds, data=where.data, device=where.device, on_share=on_share
        )
        for unit in made:
            units.save(unit, folder.unit(experiment, (plan.name, unit.setting.seed)))
    tell("outputs", "model outputs are there", 1.0)


def _silent(stage: str, what: str, share: float) -> None:
    """Tell nobody."""
    del stage, what, share  # nobody listens
