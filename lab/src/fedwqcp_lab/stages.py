"""The stages of a benchmark: model outputs, then records. What is there is not made again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.files import write_atomic
from fedwqcp_lab import unit as units
from fedwqcp_lab.evaluate import applicable, evaluate, shares
from fedwqcp_lab.experiment import Experiment, digest
from fedwqcp_lab.journal import Journal
from fedwqcp_lab.result import Result, Share

Task: TypeAlias = tuple[str, int]
"""A unit of work: dataset and seed."""

Evaluated: TypeAlias = tuple[tuple[Result, ...], tuple[Share, ...]]
"""What one unit gives."""


@dataclass(frozen=True)
class Folder:
    """Where a run keeps its files.

    Parameters
    ----------
    root : Path
        The folder.
    outputs : Path or None, optional
        Where model outputs are kept; by default ``outputs`` inside.
    """

    root: Path
    outputs: Path | None = None

    @property
    def results(self) -> Journal[Result]:
        """The results, ``records.jsonl``."""
        return Journal(self.root / "records.jsonl", Result)

    @property
    def shares(self) -> Journal[Share]:
        """The partitions, ``partitions.jsonl``."""
        return Journal(self.root / "partitions.jsonl", Share)

    def unit(self, experiment: Experiment, task: Task) -> Path:
        """Return where the model outputs of a unit are.

        Parameters
        ----------
        experiment : Experiment
            The experiment; outputs of other training settings lie elsewhere.
        task : tuple
            Dataset and seed.

        Returns
        -------
        Path
            Its folder.
        """
        dataset, seed = task
        settings = training_settings(experiment, dataset)
        root = self.outputs or self.root / "outputs"
        return root / f"{dataset}-{digest(settings)}" / f"seed-{seed}"

    def begin(self, *, resume: bool) -> None:
        """Make the folder, and refuse records of before unless the run goes on from them.

        Parameters
        ----------
        resume : bool
            Whether to go on.

        Raises
        ------
        InputError
            If the folder cannot be made, or holds records and the run does not resume.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError:
            raise InputError(
                f"--out must be a folder that can be written, got {self.root}"
            ) from None
        if not resume and (self.results.exists or self.shares.exists):
            raise InputError(
                f"{self.results.path} is there already: go on with --resume, or choose another "
                "folder with --out"
            )
        self.results.mend()
        self.shares.mend()


def training_settings(experiment: Experiment, dataset: str) -> dict[str, object]:
    """Return what the model outputs of a dataset depend on.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    dataset : str
        Name of the data.

    Returns
    -------
    dict
        Settings by name.
    """
    known: tuple[str, ...] = ("alpha", "beta", "strong", "weak", "held_out", "pool")
    known += ("strong_epochs", "weak_epochs", "clusters")
    plan = next(plan for plan in experiment.datasets if plan.name == dataset)
    return {**{name: getattr(experiment, name) for name in known}, "dataset": asdict(plan)}


def pending(experiment: Experiment, folder: Folder) -> tuple[Task, ...]:
    """Return the units whose records are not all there.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    folder : Folder
        Where the records are.

    Returns
    -------
    tuple of Task
        Dataset by dataset, seed by seed.

    Raises
    ------
    RecordError
        If a record was made with other settings.
    """
    done = {result.key: result for result in folder.results.read()}
    ended = {share.key: share for share in folder.shares.read()}
    _check_settings(experiment, done.values())
    found = []
    for plan in experiment.datasets:
        for seed in experiment.seeds:
            own = [ended.get((plan.name, seed, agent)) for agent in experiment.agents]
            first = own[0]
            if first is None or None in own:
                found.append((plan.name, seed))
                continue
            rows = applicable(experiment, first.task, quantiles=first.quantiles)
            keys = {
                (plan.name, seed, preset.name, method.name, agent)
                for preset, method in rows
                for agent in experiment.agents
            }
            if not keys <= done.keys():
                found.append((plan.name, seed))
    return tuple(found)


def evaluate_saved(path: Path, experiment: Experiment) -> Evaluated:
    """Evaluate one unit from its saved model outputs.

    Parameters
    ----------
    path : Path
        Its folder.
    experiment : Experiment
        What to compare.

    Returns
    -------
    tuple
        Results and shares.
    """
    unit = units.load(path)
    return evaluate(unit, experiment), shares(unit)


class Keeper:
    """Appends what units give, and nothing twice.

    Parameters
    ----------
    folder : Folder
        Where to.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._results = {result.key for result in folder.results.read()}
        self._shares = {share.key for share in folder.shares.read()}

    def keep(self, evaluated: Evaluated) -> None:
        """Append what is not there yet; the shares last, since they end a unit.

        Parameters
        ----------
        evaluated : tuple
            What one unit gave.
        """
        results = [result for result in evaluated[0] if result.key not in self._results]
        self._folder.results.append(results)
        self._results.update(result.key for result in results)
        parts = [share for share in evaluated[1] if share.key not in self._shares]
        self._folder.shares.append(parts)
        self._shares.update(share.key for share in parts)


def write_configs(experiment: Experiment, folder: Folder) -> None:
    """Write down the settings behind every fingerprint.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    folder : Folder
        Where to: ``configs.json``.
    """
    path = folder.root / "configs.json"
    known = json.loads(path.read_bytes()) if path.exists() else {}
    known |= {digest(config): config for _, config in _configs(experiment)}
    write_atomic(path, (json.dumps(known, indent=1, sort_keys=True) + "\n").encode())


def _configs(experiment: Experiment) -> Iterator[tuple[tuple[str, str, str], dict[str, object]]]:
    """Yield dataset, preset and method of every row, and its settings."""
    for dataset in experiment.datasets:
        for preset in experiment.presets:
            for method in experiment.methods:
                row = dataset.name, preset.name, method.name
                yield row, experiment.config(*row)


def _check_settings(experiment: Experiment, results: Iterable[Result]) -> None:
    """Refuse to mix results of different settings in one file."""
    wanted = {row: digest(config) for row, config in _configs(experiment)}
    for result in results:
        row = result.dataset, result.preset, result.method
        if wanted.get(row, result.config) != result.config:
            raise RecordError(
                f"the records of {result.method} on {result.dataset} were made with other settings "
                f"({result.config}, now {wanted[row]}): choose another folder with --out"
            )
