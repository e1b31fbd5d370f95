"""The trial of liars from beginning to end, on model outputs that were saved before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fedwqcp.errors import InputError
from fedwqcp_lab import unit as units
from fedwqcp_lab.experiment import Experiment, PresetPlan, embedded, paper
from fedwqcp_lab.liars import evaluate
from fedwqcp_lab.liars_record import Lied, write
from fedwqcp_lab.pipeline import Folder, workers

PRESETS = ("sound", "paper")
"""The presets that are looked at."""

RECORDS = "records.jsonl.xz"
"""The file of the records."""


def run(
    outputs: Path,
    out: Path,
    *,
    datasets: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    jobs: int = 1,
    on_step: Callable[[str, float], None] | None = None,
) -> tuple[Lied, ...]:
    """Try every lie on every method, and write the records.

    Parameters
    ----------
    outputs : Path
        Model outputs, as an experiment left them.
    out : Path
        Folder of the records.
    datasets : sequence of str, optional
        Which; by default all whose outputs are there.
    seeds : sequence of int, optional
        Which; by default all whose outputs are there.
    jobs : int, optional
        Processes.
    on_step : callable, optional
        Told what was done, and the share that is done.

    Returns
    -------
    tuple of Lied
        The records.

    Raises
    ------
    InputError
        If no model outputs are there.
    """
    found = saved(outputs, datasets, seeds)
    records: list[Lied] = []
    with workers(evaluate_saved, jobs=jobs) as pool:
        for folder in found:
            pool.submit(folder)
        for done, made in enumerate(pool.finished(wait=True), 1):
            records += made
            if on_step is not None:
                on_step(f"{made[0].dataset}: seed {made[0].seed} done", done / len(found))
    out.mkdir(parents=True, exist_ok=True)
    write(records, out / RECORDS)
    return tuple(records)


def saved(
    outputs: Path, datasets: Sequence[str] | None = None, seeds: Sequence[int] | None = None
) -> tuple[Path, ...]:
    """Return the units whose model outputs are there.

    Parameters
    ----------
    outputs : Path
        Where an experiment left them.
    datasets : sequence of str, optional
        Which to look for; by default all.
    seeds : sequence of int, optional
        Which to look for; by default all.

    Returns
    -------
    tuple of Path
        Their folders.

    Raises
    ------
    InputError
        If there is none.
    """
    folder = Folder(outputs, outputs)
    known = [
        (experiment, plan.name) for experiment in _experiments() for plan in experiment.datasets
    ]
    found = tuple(
        path
        for experiment, name in known
        for seed in experiment.seeds
        if (datasets is None or name in datasets) and (seeds is None or seed in seeds)
        if units.found(path := folder.unit(experiment, (name, seed)))
    )
    if not found:
        raise InputError(
            f"{outputs} must hold model outputs of the datasets and seeds asked for: make them "
            "with fedwqcp-lab reproduce --quick, and pass its OUT/outputs"
        )
    return found


def evaluate_saved(path: Path) -> tuple[Lied, ...]:
    """Try every lie on every method, on one unit's saved model outputs.

    Parameters
    ----------
    path : Path
        The unit's folder.

    Returns
    -------
    tuple of Lied
        The records.
    """
    experiment = paper()
    return evaluate(units.load(path), presets(experiment), experiment.alpha)


def presets(experiment: Experiment) -> tuple[PresetPlan, ...]:
    """Return the presets that liars are tried under.

    Parameters
    ----------
    experiment : Experiment
        The experiment.

    Returns
    -------
    tuple of PresetPlan
        Those of `PRESETS`, in that order.
    """
    known = {preset.name: preset for preset in experiment.presets}
    return tuple(known[name] for name in PRESETS)


def _experiments() -> tuple[Experiment, ...]:
    """Return the experiments whose outputs are looked for."""
    return paper(), embedded()
