"""``fedwqcp bench``: experiments as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fedwqcp.bench import stress, study
from fedwqcp.bench.experiment import Experiment, embedded, load, paper
from fedwqcp.bench.run import OnStep, Where, run
from fedwqcp.bench.toml import parse_seeds
from fedwqcp.cli.liars import liars
from fedwqcp.cli.output import AsJson, Output
from fedwqcp.data import catalog, resolve
from fedwqcp.report import overview
from fedwqcp.report.compare import Cell, cells
from fedwqcp.report.pages import read, write
from fedwqcp.report.stress import write as write_stress

app = typer.Typer(no_args_is_help=True)

QUICK = ("retinamnist", "dermamnist", "bloodmnist")
"""The small datasets."""

Data = Annotated[Path | None, typer.Option(envvar="FEDWQCP_DATA", help="Folder with datasets.")]
Seeds = Annotated[str | None, typer.Option(help="Such as 0-9 or 0,2,5-7.")]
Datasets = Annotated[str | None, typer.Option(help="Names with commas; by default all.")]
Device = Annotated[str, typer.Option(help="Where models are trained: auto, cpu or cuda.")]
Jobs = Annotated[int, typer.Option(help="Processes that evaluate.")]
Out = Annotated[Path, typer.Option(help="Folder for records, tables and model outputs.")]
Outputs = Annotated[
    Path | None, typer.Option(help="Folder for model outputs; by default OUT/outputs.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the records in OUT.")]
Executor = Annotated[
    Literal["processes", "ray"], typer.Option(help="What evaluates: this machine, or Ray.")
]


@app.command("run")
def run_command(
    config: Annotated[Path, typer.Argument(help="An experiment in TOML.")],
    data: Data = None,
    seeds: Seeds = None,
    datasets: Datasets = None,
    device: Device = "auto",
    jobs: Jobs = 1,
    out: Out = Path("runs"),
    outputs: Outputs = None,
    resume: Resume = False,
    executor: Executor = "processes",
    as_json: AsJson = False,
) -> None:
    """Train what is missing, evaluate every method, and append records to OUT."""
    experiment = _narrowed(load(config), datasets, seeds)
    where = Where(out=out, data=data, outputs=outputs, device=device, jobs=jobs, executor=executor)
    output = Output(as_json)
    units = _run(experiment, where, resume, output.console)
    output.say(f"{units} units done; records: {out / 'records.jsonl'}")
    output.done(units=units, records=out / "records.jsonl")


@app.command()
def reproduce(
    data: Data = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two seeds of the small datasets: minutes on a CPU.")
    ] = False,
    seeds: Seeds = None,
    datasets: Datasets = None,
    device: Device = "auto",
    jobs: Jobs = 1,
    out: Out = Path("runs/paper"),
    outputs: Outputs = None,
    resume: Resume = False,
    executor: Executor = "processes",
    as_json: AsJson = False,
) -> None:
    """Run the paper's comparison and set its published figures beside ours."""
    output = Output(as_json)
    experiment = paper().only(QUICK, (0, 1)) if quick else paper()
    if data is None and not _at_hand(experiment, datasets):
        output.say(
            "No data folder (--data or FEDWQCP_DATA), and not all of the data were fetched: "
            "running on the embedded datasets, for which nothing was published."
        )
        experiment = embedded()
    where = Where(out=out, data=data, outputs=outputs, device=device, jobs=jobs, executor=executor)
    _run(_narrowed(experiment, datasets, seeds), where, resume, output.console)
    files, results = write(out, out / "tables"), read(out)
    _show(cells(results), 1 - results[0].alpha, output)
    output.say(f"Written: {', '.join(str(file) for file in files)}")
    output.done(methods=overview.standings(cells(results)), files=files)


@app.command("stress")
def stress_command(
    config: Annotated[
        Path | None, typer.Argument(help="A study in TOML; by default the one that comes along.")
    ] = None,
    data: Data = None,
    seeds: Seeds = None,
    datasets: Datasets = None,
    device: Device = "auto",
    jobs: Jobs = 1,
    out: Out = Path("runs/stress"),
    outputs: Outputs = None,
    resume: Resume = False,
    executor: Executor = "processes",
    as_json: AsJson = False,
) -> None:
    """Vary one thing about the federation at a time, and show where each method fails."""
    chosen = study.load(config)
    chosen = replace(chosen, experiment=_narrowed(chosen.experiment, datasets, seeds))
    where = Where(out=out, data=data, outputs=outputs, device=device, jobs=jobs, executor=executor)
    output = Output(as_json)
    with _progress(output.console) as on_step:
        done = stress.run(chosen, where, resume=resume, on_step=on_step)
    files = write_stress(stress.journal_of(out).read(), out)
    output.say(f"{done} federations evaluated")
    output.say(f"Written: {', '.join(str(file) for file in files)}")
    output.done(federations=done, files=files)


app.command()(liars)


def _at_hand(experiment: Experiment, datasets: str | None) -> bool:
    """Tell whether data were asked for by name, or all of them are in the system or the cache."""
    known = {plan.name: catalog.find(plan.source) for plan in experiment.datasets}
    if datasets is not None:
        return not known.keys().isdisjoint(_names(datasets))
    return all(resolve.locate(entry) is not None for entry in known.values())


def _names(datasets: str) -> list[str]:
    """Divide names at the commas."""
    return [name.strip() for name in datasets.split(",")]


def _narrowed(experiment: Experiment, datasets: str | None, seeds: str | None) -> Experiment:
    """Keep the datasets and seeds that were asked for."""
    names = None if datasets is None else _names(datasets)
    return experiment.only(names, None if seeds is None else parse_seeds(seeds))


def _run(experiment: Experiment, where: Where, resume: bool, console: Console) -> int:
    """Run an experiment, and show how far it is."""
    with _progress(console) as on_step:
        return run(experiment, where, resume=resume, on_step=on_step)


def _show(found: Sequence[Cell], nominal: float, output: Output) -> None:
    """Print how the methods stand, and what agrees with the paper."""
    for table in overview.tables(found, nominal, ascii=output.console.options.ascii_only):
        output.show(table)
    verdicts = overview.verdicts(found)
    if verdicts is not None:
        output.show(verdicts)


@contextmanager
def _progress(console: Console) -> Iterator[OnStep]:
    """Show a line for each stage: how far it is and how long it will take."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        lines = {}

        def on_step(stage: str, what: str, share: float) -> None:
            if stage not in lines:
                lines[stage] = progress.add_task(stage, total=1.0)
            progress.update(lines[stage], description=f"{stage}: {what}", completed=share)

        yield on_step
