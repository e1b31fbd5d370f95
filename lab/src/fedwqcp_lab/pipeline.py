"""An experiment from beginning to end: train what is missing, and evaluate meanwhile.

`run` trains models (this process), saves their outputs, and has workers evaluate saved units; what
is there already is not made again. Workers are processes of this machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as futures_wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from fedwqcp.errors import InputError, RecordError
from fedwqcp.files import from_json, read, write_atomic
from fedwqcp_lab import unit as units
from fedwqcp_lab.evaluation import applicable, evaluate, partitions
from fedwqcp_lab.experiment import Experiment, digest
from fedwqcp_lab.results import AgentPartition, Journal, Result, make_out
from fedwqcp_lab.training import check_data, part_of, train_units

T = TypeVar("T")

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""A task computes in one thread: its matrices are small, and its numbers then depend on nothing."""

UnitKey: TypeAlias = tuple[str, int]
"""A unit of work: dataset and seed."""

Row: TypeAlias = tuple[str, str, str]
"""Dataset, preset and method."""

Evaluated: TypeAlias = tuple[tuple[Result, ...], tuple[AgentPartition, ...]]
"""What one unit gives."""

OnStage: TypeAlias = Callable[[str, str, float], None]
"""Called with the stage ("outputs" or "records"), what comes next, and the share that is done."""


def silent(stage: str, what: str, share: float) -> None:
    """Report no progress."""
    del stage, what, share  # nobody listens


def run(
    experiment: Experiment, options: RunOptions, *, resume: bool = False, on_step: OnStage = silent
) -> int:
    """Run an experiment; what is there already is not made again."""
    folder = options.folder
    folder.begin(resume=resume)
    todo = {task: [(experiment,)] for task in pending(experiment, folder)}
    write_configs(experiment, folder)
    results, parts = folder.results, folder.partitions

    def keep(evaluated: Evaluated) -> str:
        results.append_new(evaluated[0])
        parts.append_new(evaluated[1])  # last, since they end a unit
        return f"{evaluated[1][0].dataset}: seed {evaluated[1][0].seed} done"

    evaluate_units(evaluate_saved, experiment, todo, options, keep=keep, report=on_step)
    on_step("records", "done", 1.0)
    return len(todo)


def evaluate_units(
    call: Callable[..., T],
    experiment: Experiment,
    todo: Mapping[UnitKey, Sequence[tuple[Any, ...]]],
    options: RunOptions,
    *,
    keep: Callable[[T], str],
    report: OnStage,
) -> None:
    """Call a function of a unit's folder and each of its arguments, once the unit is trained."""

    def ready(report_training: OnStage) -> Iterator[tuple[Any, ...]]:
        for task, path in prepared(experiment, tuple(todo), options, report_training):
            for arguments in todo[task]:
                yield path, *arguments

    calls = sum(map(len, todo.values()))
    evaluate_as_ready(call, ready, options, keep=keep, report=report, calls=calls)


def evaluate_as_ready(
    call: Callable[..., T],
    ready: Callable[[OnStage], Iterable[tuple[Any, ...]]],
    options: RunOptions,
    *,
    keep: Callable[[T], str],
    report: OnStage,
    calls: int = 0,
) -> int:
    """Call a function in workers for arguments as they become ready; return how often.

    ``ready`` yields the arguments, and reports how far the training is; with each report results
    are collected. ``keep`` saves a result, and says what it was. ``calls`` is how many there will
    be, if known.
    """
    made = done = 0
    with workers(call, jobs=options.jobs) as pool:

        def collect(*, wait: bool = False) -> None:
            nonlocal done
            for found in pool.finished(wait=wait):
                what = keep(found)
                done += 1
                report("records", what, done / (calls or made))

        def report_training(stage: str, what: str, share: float) -> None:
            report(stage, what, share)
            collect()

        for arguments in ready(report_training):
            pool.submit(*arguments)
            made += 1
        collect(wait=True)
    return made


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Where a run reads, computes and writes."""

    out: Path  # records
    data: Path | None = None
    outputs: Path | None = None  # model outputs; by default inside ``out``
    device: str = "auto"  # or "cpu" or "cuda"
    jobs: int = 1  # processes that evaluate

    @property
    def folder(self) -> Folder:
        """Where the run keeps its files."""
        return Folder(self.out, self.outputs)


def prepared(
    experiment: Experiment, todo: Sequence[UnitKey], options: RunOptions, report: OnStage
) -> Iterator[tuple[UnitKey, Path]]:
    """Yield units as soon as their model outputs are there; where they are not, train."""
    paths = {task: options.folder.unit(experiment, task) for task in todo}
    lacking = [task for task, path in paths.items() if not units.found(path)]
    plans = [plan for plan in experiment.datasets if any(name == plan.name for name, _ in lacking)]
    check_data(plans, options.data)
    for task, path in paths.items():
        if task not in lacking:
            yield task, path
    for done, plan in enumerate(plans):
        seeds = [seed for name, seed in lacking if name == plan.name]
        for unit in train_units(
            plan,
            experiment,
            seeds,
            data=options.data,
            device=options.device,
            on_progress=part_of(partial(report, "outputs"), done, len(plans)),
        ):
            task = plan.name, unit.setting.seed
            units.save(unit, paths[task])
            yield task, paths[task]
    report("outputs", "model outputs are there", 1.0)


@dataclass(frozen=True)
class Folder:
    """Where a run keeps its files; model outputs by default in ``outputs`` inside."""

    root: Path
    outputs: Path | None = None

    @property
    def results(self) -> Journal[Result]:
        """The results, ``records.jsonl``."""
        return Journal(self.root / "records.jsonl", Result)

    @property
    def configs(self) -> Path:
        """The settings of the run, ``configs.json``."""
        return self.root / "configs.json"

    @property
    def partitions(self) -> Journal[AgentPartition]:
        """The partitions, ``partitions.jsonl``."""
        return Journal(self.root / "partitions.jsonl", AgentPartition)

    @property
    def units(self) -> Path:
        """Where the model outputs of all units are."""
        return self.outputs or self.root / "outputs"

    def unit(self, experiment: Experiment, task: UnitKey) -> Path:
        """Return where the model outputs of a unit are."""
        dataset, seed = task
        settings = training_settings(experiment, dataset)
        return self.units / f"{dataset}-{digest(settings)}" / f"seed-{seed}"

    def begin(self, *others: Journal[Any], resume: bool) -> None:
        """Make the folder, and refuse earlier records unless the run goes on from them."""
        make_out(self.root)
        journals: tuple[Journal[Any], ...] = (self.results, self.partitions, *others)
        for journal in journals:
            if journal.exists and not resume:
                raise InputError(
                    f"{journal.path} is there already: go on with --resume, or choose another "
                    "folder with --out"
                )
            journal.repair()


def pending(experiment: Experiment, folder: Folder) -> tuple[UnitKey, ...]:
    """Return the units whose records are not all there."""
    done = {result.key: result for result in folder.results.read()}
    ended = {part.key: part for part in folder.partitions.read()}
    check_settings(experiment, (((r.dataset, r.preset, r.method), r.config) for r in done.values()))
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


def training_settings(experiment: Experiment, dataset: str) -> dict[str, object]:
    """Return what the model outputs of a dataset depend on."""
    known: tuple[str, ...] = ("alpha", "beta", "strong", "weak", "held_out", "pool")
    known += ("strong_epochs", "weak_epochs", "clusters")
    plan = next(plan for plan in experiment.datasets if plan.name == dataset)
    return {**{name: getattr(experiment, name) for name in known}, "dataset": asdict(plan)}


def write_configs(experiment: Experiment, folder: Folder) -> None:
    """Write down the settings behind every fingerprint."""
    known = read_configs(folder)
    known |= {digest(config): config for _, config in _configs(experiment)}
    text = json.dumps(known, indent=1, sort_keys=True) + "\n"
    write_atomic(folder.configs, text.encode())


def read_configs(folder: Folder) -> dict[str, Any]:
    """Return the settings behind every fingerprint of a run, none before it began."""
    if not folder.configs.exists():
        return {}
    known = from_json(read(folder.configs), dict[str, dict[str, Any]])
    if known is None or any(digest(config) != key for key, config in known.items()):
        raise RecordError(
            f"{folder.configs} must hold settings under their fingerprints, as it was written: "
            "restore it, or choose another folder with --out"
        )
    return known


def evaluate_saved(path: Path, experiment: Experiment) -> Evaluated:
    """Evaluate one unit from its saved model outputs."""
    unit = units.load(path)
    return evaluate(unit, experiment), partitions(unit)


@contextmanager
def workers(task: Callable[..., T], *, jobs: int = 1) -> Iterator[Workers[T]]:
    """Start workers, and stop them at the end; calls that have not begun by then are dropped."""
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}")
    pool = ProcessPoolExecutor(jobs, get_context("spawn"))
    try:
        yield Workers(task, pool)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class Workers(Generic[T]):
    """Fresh processes that work off one task for many arguments, one after another."""

    def __init__(self, task: Callable[..., T], pool: ProcessPoolExecutor) -> None:
        self._task, self._pool = task, pool
        self._waiting: set[Future[T]] = set()

    def submit(self, *arguments: Any) -> None:
        """Queue a call."""
        with _environment(ONE_THREAD):  # a call may start a process
            self._waiting.add(self._pool.submit(self._task, *arguments))

    def finished(self, *, wait: bool = False) -> Iterator[T]:
        """Yield what calls returned that was not yielded before, in no fixed order."""
        try:
            while self._waiting:
                limit = None if wait else 0
                done, self._waiting = futures_wait(self._waiting, limit, FIRST_COMPLETED)
                for future in done:
                    yield future.result()
                if not wait:
                    return
        except BrokenProcessPool:
            raise InputError(
                "a process was killed, as by a lack of memory; use fewer --jobs and --resume"
            ) from None


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """Set variables for processes that start meanwhile."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def check_settings(experiment: Experiment, earlier: Iterable[tuple[Row, str]]) -> None:
    """Refuse to mix records of different settings, given rows and fingerprints of earlier ones."""
    expected = {row: digest(config) for row, config in _configs(experiment)}
    for row, config in earlier:
        if expected.get(row, config) != config:
            raise RecordError(
                f"the records of {row[2]} on {row[0]} were made with other settings "
                f"({config}, now {expected[row]}): choose another folder with --out"
            )


def keep_settings(experiment: Experiment, folder: Folder) -> None:
    """Refuse settings other than those that a folder keeps for the same rows; write these down.

    For records that do not name their settings.
    """
    parts = "dataset", "preset", "method"
    before = read_configs(folder).items()
    check_settings(
        experiment, ((tuple(own[part]["name"] for part in parts), key) for key, own in before)
    )
    write_configs(experiment, folder)


def _configs(experiment: Experiment) -> Iterator[tuple[Row, dict[str, object]]]:
    """Yield every row with its settings."""
    for plans in product(experiment.datasets, experiment.presets, experiment.methods):
        dataset, preset, method = (plan.name for plan in plans)
        yield (dataset, preset, method), experiment.config(dataset, preset, method)
