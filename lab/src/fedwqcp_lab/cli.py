"""The command ``fedwqcp-lab``: parse, call one function, print."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from rich.text import Text

from fedwqcp.cli import AsJson, Output, with_help
from fedwqcp.cli import run as run_app
from fedwqcp.errors import FedwqcpError, InputError
from fedwqcp_lab.comparison import cells
from fedwqcp_lab.datasets import catalog
from fedwqcp_lab.datasets import files as dataset_files
from fedwqcp_lab.datasets.catalog import Dataset
from fedwqcp_lab.datasets.loading import load as load_dataset
from fedwqcp_lab.experiment import Experiment, embedded, load, paper, parse_seeds
from fedwqcp_lab.pipeline import RunOptions, run
from fedwqcp_lab.results import read_results
from fedwqcp_lab.studies import byzantine, own, scale, stress
from fedwqcp_lab.tables import (
    explained_rows,
    method_summaries,
    paper_cells,
    terminal_table,
    terminal_tables,
    unexplained_rows,
    verdict_rows,
    write,
)

app = typer.Typer(
    help="The laboratory of fedwqcp: experiments, studies and their tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

QUICK = ("retinamnist", "dermamnist", "bloodmnist")
"""The small datasets."""

WIDTH = 160
"""Columns of the tables where the output is no terminal."""

Data = Annotated[Path | None, typer.Option(envvar="FEDWQCP_DATA", help="Folder with datasets.")]
Seeds = Annotated[str | None, typer.Option(help="Such as 0-9 or 0,2,5-7.")]
Datasets = Annotated[str | None, typer.Option(help="Names with commas; by default all.")]
Device = Annotated[str, typer.Option(help="Where models are trained: auto, cpu or cuda.")]
Jobs = Annotated[int, typer.Option(help="Processes that evaluate.")]
Out = Annotated[Path, typer.Option(help="Folder for records, tables and model outputs.")]
OutputsFolder = Annotated[
    Path | None, typer.Option(help="Folder for model outputs; by default OUT/outputs.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the records in OUT.")]


@app.command("run")
def run_command(
    config: Annotated[Path, typer.Argument(help="An experiment in TOML.")],
    data: Data = None,
    seeds: Seeds = None,
    datasets: Datasets = None,
    device: Device = "auto",
    jobs: Jobs = 1,
    out: Out = Path("runs"),
    outputs: OutputsFolder = None,
    resume: Resume = False,
    as_json: AsJson = False,
) -> None:
    """Train what is missing, evaluate every method, and append records to OUT."""
    experiment = _narrowed(load(config), datasets, seeds)
    options = RunOptions(out=out, data=data, outputs=outputs, device=device, jobs=jobs)
    output = Output(as_json)
    units = _watched(partial(run, experiment, options, resume=resume), output)
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
    outputs: OutputsFolder = None,
    resume: Resume = False,
    as_json: AsJson = False,
) -> None:
    """Run the paper's comparison and set its published figures beside ours."""
    output = _wide(as_json)
    experiment = paper().only(QUICK, (0, 1)) if quick else paper()
    if data is None and not _at_hand(experiment, datasets):
        output.say(
            "No data folder (--data or FEDWQCP_DATA), and not all of the data were fetched: "
            "running on the embedded datasets, for which nothing was published."
        )
        experiment = embedded()
    options = RunOptions(out=out, data=data, outputs=outputs, device=device, jobs=jobs)
    experiment = _narrowed(experiment, datasets, seeds)
    _watched(partial(run, experiment, options, resume=resume), output)
    files = write(out, out / "tables")
    found = cells(read_results(out))
    for table in terminal_tables(found):
        output.console.print(table)
    if (rows := verdict_rows(found))[1:]:
        output.console.print(terminal_table("beside the published figures", rows))
    _written(files, output, methods=method_summaries(found))


@app.command("stress")
def stress_command(
    config: Annotated[
        Path, typer.Argument(help="A study in TOML; by default the one that comes along.")
    ] = Path("stress.toml"),
    data: Data = None,
    seeds: Seeds = None,
    datasets: Datasets = None,
    device: Device = "auto",
    jobs: Jobs = 1,
    out: Out = Path("runs/stress"),
    outputs: OutputsFolder = None,
    resume: Resume = False,
    as_json: AsJson = False,
) -> None:
    """Vary one thing about the federation at a time, and show where each method fails."""
    chosen = stress.load(config)
    chosen = replace(chosen, experiment=_narrowed(chosen.experiment, datasets, seeds))
    options = RunOptions(out=out, data=data, outputs=outputs, device=device, jobs=jobs)
    run_study, write_all = stress.run, stress.write_figures
    if chosen.distinct is not None:
        run_study, write_all = scale.run, scale.write_tables
    _study(
        partial(run_study, chosen, options, resume=resume),
        lambda: write_all(stress.journal_of(out).read(), out),
        Output(as_json),
    )


@app.command("own")
def own_command(
    config: Annotated[
        Path, typer.Argument(help="A study in TOML; by default the one that comes along.")
    ] = Path("own.toml"),
    data: Data = None,
    seeds: Seeds = None,
    datasets: Datasets = None,
    device: Device = "auto",
    jobs: Jobs = 1,
    out: Out = Path("runs/own"),
    outputs: OutputsFolder = None,
    resume: Resume = False,
    as_json: AsJson = False,
) -> None:
    """Test each agent on its own distribution, on the shared test data and on other mixes."""
    chosen = own.load(config)
    chosen = replace(chosen, experiment=_narrowed(chosen.experiment, datasets, seeds))
    options = RunOptions(out=out, data=data, outputs=outputs, device=device, jobs=jobs)
    _study(
        partial(own.run, chosen, options, resume=resume),
        lambda: own.write_tables(out, out),
        Output(as_json),
    )


def _wide(as_json: bool) -> Output:
    """Return an output that tables fit."""
    output = Output(as_json)
    if not output.console.is_terminal and "COLUMNS" not in os.environ:
        output.console.width = WIDTH
    return output


def _study(run: Callable[..., int], write: Callable[[], Iterable[Path]], output: Output) -> None:
    """Run a study, write its tables and figures, and name them."""
    done = _watched(run, output)
    files = tuple(write())
    output.say(f"{done} federations evaluated")
    _written(files, output, federations=done)


def _at_hand(experiment: Experiment, datasets: str | None) -> bool:
    """Tell whether data were asked for by name, or all of them are in the system or the cache."""
    known = {plan.name: catalog.find(plan.source) for plan in experiment.datasets}
    if datasets is not None:
        return not known.keys().isdisjoint(_names(datasets))
    return all(dataset_files.locate(entry) is not None for entry in known.values())


def _names(datasets: str) -> list[str]:
    return [name.strip() for name in datasets.split(",")]


def _narrowed(experiment: Experiment, datasets: str | None, seeds: str | None) -> Experiment:
    """Keep the datasets and seeds that were asked for."""
    names = None if datasets is None else _names(datasets)
    return experiment.only(names, None if seeds is None else parse_seeds(seeds))


def _watched(run: Callable[..., int], output: Output) -> int:
    """Run an experiment or a study, and show how far each stage is and what time is left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=output.console) as progress:
        lines = {}

        def on_step(stage: str, what: str, share: float) -> None:
            if stage not in lines:
                lines[stage] = progress.add_task(stage, total=1.0)
            progress.update(lines[stage], description=f"{stage}: {what}", completed=share)

        return run(on_step=on_step)


@app.command("byzantine")
def byzantine_command(
    outputs: Annotated[
        Path, typer.Option(help="Model outputs, such as reproduce left in OUT/outputs.")
    ] = Path("runs/paper/outputs"),
    out: Annotated[Path, typer.Option(help="Folder for records, tables and figure.")] = Path(
        "runs/byzantine"
    ),
    datasets: Annotated[
        str | None, typer.Option(help="Names with commas; by default all that are there.")
    ] = None,
    seeds: Seeds = None,
    jobs: Jobs = 1,
    as_json: AsJson = False,
) -> None:
    """Let one, two and three agents be Byzantine under every method, and write what it did."""
    output = Output(as_json)
    records = byzantine.run(
        outputs,
        out,
        datasets=None if datasets is None else _names(datasets),
        seeds=None if seeds is None else parse_seeds(seeds),
        jobs=jobs,
        on_step=lambda what, share: output.say(f"{share:4.0%}  {what}"),
    )
    _written(byzantine.write_tables(records, out), output, records=len(records))


@app.command()
def tables(
    results: Annotated[
        Path,
        typer.Argument(help="Folder with records.jsonl, own.jsonl or stress.jsonl of scale.toml."),
    ],
    against: Annotated[
        Literal["published", "nothing"], typer.Option(help="What to set beside our figures.")
    ] = "published",
    out: Annotated[
        Path | None, typer.Option(help="Folder for tables and figures; by default RESULTS/tables.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write coverage and size tables, verdicts, ablation and partition as files."""
    output, out = _wide(as_json), out or results / "tables"
    if own.journal_of(results).exists:
        _written(own.write_tables(results, out), output)
        return
    if stress.journal_of(results).exists:
        records = stress.journal_of(results).read()
        if not any(record.mix == "own" for record in records):
            raise InputError(f"{results} holds a stress study: fedwqcp-lab stress writes its table")
        _written(scale.write_tables(records, out), output)
        return
    files = write(results, out, against=against == "published")
    facts: dict[str, list[dict[str, str]]] = {"explained": [], "outside": []}
    if any(file.name == "explained.md" for file in files):
        found = paper_cells(results)
        for fact, title, rows in (
            ("explained", "published cells and their reading", explained_rows(found)),
            ("outside", "cells outside under that reading", unexplained_rows(found)),
        ):
            output.console.print(terminal_table(title, rows))
            facts[fact] = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    _written(files, output, **facts)


def _written(files: Sequence[Path], output: Output, **facts: object) -> None:
    """Say which files were written; the facts are for scripts."""
    output.say(f"Written: {', '.join(str(file) for file in files)}")
    output.done(files=files, **facts)


data_app = typer.Typer(no_args_is_help=True)

DataFolder = Annotated[
    Path | None, typer.Option("--data", help="Folder with data; else FEDWQCP_DATA.")
]


@dataclass(frozen=True)
class DatasetCheck:
    """The outcome of checking one dataset.

    ``verdict`` is the status of the copy that was found, else ``missing`` or ``unsound``; ``train``
    and ``test`` count the rows of each class.
    """

    name: str
    verdict: str
    note: str
    source: str = ""
    train: tuple[int, ...] = ()
    test: tuple[int, ...] = ()
    sha256: str = ""


@data_app.command("list")
def list_(data: DataFolder = None, as_json: AsJson = False) -> None:
    """List every dataset and where it was found."""
    found = {dataset.name: _where(dataset, data) for dataset in catalog.CATALOG}
    output = _wide(as_json)
    table = Table("dataset", "task", "input", "train", "test", "licence")
    table.add_column("found", overflow="fold")
    for dataset in catalog.CATALOG:
        table.add_row(
            dataset.name,
            _task(dataset),
            _shape(dataset),
            f"{dataset.n_train:,}" if dataset.n_train else "any",
            f"{dataset.n_test:,}" if dataset.n_test else "any",
            dataset.licence,
            Text(_found(dataset, found[dataset.name])),
        )
    output.console.print(table)
    rows = [asdict(dataset) | {"found": found[dataset.name]} for dataset in catalog.CATALOG]
    output.done(datasets=rows)


@data_app.command()
def fetch(
    names: Annotated[list[str] | None, typer.Argument(help="Datasets to download.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Download all of them.")] = False,
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder to put them into; else the cache.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download published files; what is there already with the right checksum is kept."""
    if bool(names) == every:
        raise InputError(f"name datasets or say --all; known: {', '.join(catalog.available())}")
    chosen = catalog.CATALOG if every else [catalog.find(name) for name in names or ()]
    folder = data if data is not None else dataset_files.cache_folder()
    output, fetched = Output(as_json), {}
    for dataset in chosen:
        if dataset.embedded:
            output.say(f"{dataset.name}: comes with the software, nothing to fetch")
            continue
        files = fetched[dataset.name] = _fetch(dataset, folder, output.console)
        output.say(f"{dataset.name}: {', '.join(str(file) for file in files)}")
        output.say(f"  licence: {dataset.licence}; cite: {dataset.citation}")
    output.done(files=fetched)


@data_app.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(help="Datasets; by default all.")] = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Read datasets and check them: which known copy is it, and is it whole."""
    chosen = [catalog.find(name) for name in names or catalog.available()]
    verdicts = [_verify(dataset, data) for dataset in chosen]
    output = _wide(as_json)
    table = Table("dataset", "verdict", "train", "test", "files", "note")
    for v in verdicts:
        rows = [f"{sum(counts):,}" if counts else "" for counts in (v.train, v.test)]
        table.add_row(v.name, v.verdict, *rows, Text(v.source), Text(v.note))
    output.console.print(table)
    output.done(verdicts=verdicts)
    bad = {"unsound", "missing"} if names else {"unsound"}
    if any(verdict.verdict in bad for verdict in verdicts):
        raise typer.Exit(2)


@data_app.command()
def show(
    name: Annotated[str, typer.Argument(help="A dataset.")],
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Show all that is known of a dataset: source, checksums, licence, citation, known copies."""
    dataset = catalog.find(name)
    found = _where(dataset, data)
    output = _wide(as_json)
    table = Table(title=dataset.title, show_header=False)
    table.add_row("task", _task(dataset))
    table.add_row("input", _shape(dataset))
    table.add_row("rows", f"{dataset.n_train:,} train, {dataset.n_test:,} test")
    table.add_row("licence", dataset.licence)
    table.add_row("cite", dataset.citation)
    table.add_row("homepage", dataset.homepage)
    for remote in dataset.remote:
        table.add_row(remote.path, f"md5 {remote.md5}\n" + "\n".join(remote.urls))
    for content in dataset.contents:
        checksum = f"\nsha256 {content.sha256}" if content.sha256 else ""
        table.add_row(content.status, content.note + checksum)
    table.add_row("found", Text(_found(dataset, found)))
    output.console.print(table)
    output.done(dataset=asdict(dataset) | {"found": found})


def _fetch(dataset: Dataset, folder: Path, console: Console) -> tuple[Path, ...]:
    """Download one dataset with a bar for each file."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        lines = {
            Path(remote.path).name: bars.add_task(remote.path, total=remote.size)
            for remote in dataset.remote
        }
        return dataset_files.fetch(
            dataset,
            folder,
            progress=lambda file, have, total: bars.update(
                lines[file], completed=have, total=total
            ),
        )


def _verify(dataset: Dataset, data: Path | None) -> DatasetCheck:
    """Check one dataset; a wrong data folder still ends the command."""
    if len(dataset.shape) == 1:  # a table, which no file holds
        return DatasetCheck(dataset.name, dataset.published.status, dataset.published.note)
    if not dataset.embedded and dataset_files.locate(dataset, data) is None:
        return DatasetCheck(dataset.name, "missing", str(dataset_files.missing(dataset, data)))
    try:
        loaded = load_dataset(dataset.name, data)
    except FedwqcpError as error:
        return DatasetCheck(dataset.name, "unsound", str(error))
    return DatasetCheck(
        dataset.name,
        loaded.status,
        loaded.note,
        loaded.source,
        train=tuple(np.bincount(loaded.train_labels).tolist()),
        test=tuple(np.bincount(loaded.test_labels).tolist()),
        sha256=loaded.sha256,
    )


def _where(dataset: Dataset, data: Path | None) -> tuple[str, ...]:
    """Return the files that hold a dataset, as text."""
    if dataset.embedded:
        return ("embedded",)
    return tuple(str(file) for file in dataset_files.locate(dataset, data) or ())


def _task(dataset: Dataset) -> str:
    return dataset.task + (f", {dataset.n_classes} classes" if dataset.n_classes else "")


def _shape(dataset: Dataset) -> str:
    return " x ".join(str(length) for length in dataset.shape)


def _found(dataset: Dataset, files: Sequence[str]) -> str:
    """Write the files that hold a dataset, or the command that fetches it."""
    return " + ".join(files) or f"no; fedwqcp-lab data fetch {dataset.name}"


app.add_typer(data_app, name="data", help="Find, fetch and check datasets.")
with_help(app)


def main() -> None:
    """Run ``fedwqcp-lab``; an expected error prints its message and sets the exit code."""
    run_app(app)
