"""``fedwqcp data``: which datasets there are, where they are, and whether they are sound."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from fedwqcp.cli.output import AsJson, Output
from fedwqcp.data import catalog, resolve
from fedwqcp.data.dataset import Dataset
from fedwqcp.data.download import fetch as fetch_files
from fedwqcp.data.load import Loaded, load
from fedwqcp.errors import FedwqcpError, InputError

app = typer.Typer(no_args_is_help=True)

DataFolder = Annotated[
    Path | None, typer.Option("--data", help="Folder with data; else FEDWQCP_DATA.")
]
WIDTH = 160
"""Columns of the tables where the output is no terminal."""


@dataclass(frozen=True)
class Verdict:
    """What became of checking one dataset.

    Parameters
    ----------
    name : str
        The dataset.
    verdict : str
        Status of the copy that was found, else ``missing`` or ``unsound``.
    note : str
        What the copy is, or what is wrong.
    source : str
        Names of its files.
    train : tuple of int
        Training rows of each class or grade.
    test : tuple of int
        Test rows of each class or grade.
    sha256 : str
        Checksum of images and labels.
    """

    name: str
    verdict: str
    note: str
    source: str = ""
    train: tuple[int, ...] = ()
    test: tuple[int, ...] = ()
    sha256: str = ""


@app.command("list")
def list_(data: DataFolder = None, as_json: AsJson = False) -> None:
    """List every dataset and where it was found."""
    found = {dataset.name: _where(dataset, data) for dataset in catalog.CATALOG}
    output = Output(as_json, WIDTH)
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
            Text(" + ".join(found[dataset.name]) or _how(dataset)),
        )
    output.show(table)
    rows = [asdict(dataset) | {"found": found[dataset.name]} for dataset in catalog.CATALOG]
    output.done(datasets=rows)


@app.command()
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
    wanted = catalog.CATALOG if every else [catalog.find(name) for name in names or ()]
    folder = data if data is not None else resolve.cache_folder()
    output, fetched = Output(as_json), {}
    for dataset in wanted:
        if dataset.embedded:
            output.say(f"{dataset.name}: comes with the software, nothing to fetch")
            continue
        files = fetched[dataset.name] = _fetch(dataset, folder, output.console)
        output.say(f"{dataset.name}: {', '.join(str(file) for file in files)}")
        output.say(f"  licence: {dataset.licence}; cite: {dataset.citation}")
    output.done(files=fetched)


@app.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(help="Datasets; by default all.")] = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Read datasets and check them: which known copy is it, and is it whole."""
    wanted = [catalog.find(name) for name in names or catalog.available()]
    verdicts = [_verify(dataset, data) for dataset in wanted]
    output = Output(as_json, WIDTH)
    table = Table("dataset", "verdict", "train", "test", "files", "note")
    for v in verdicts:
        rows = [f"{sum(counts):,}" if counts else "" for counts in (v.train, v.test)]
        table.add_row(v.name, v.verdict, *rows, Text(v.source), Text(v.note))
    output.show(table)
    output.done(verdicts=verdicts)
    bad = {"unsound", "missing"} if names else {"unsound"}
    if any(verdict.verdict in bad for verdict in verdicts):
        raise typer.Exit(2)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A dataset.")],
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Show all that is known of a dataset: source, checksums, licence, citation, known copies."""
    dataset = catalog.find(name)
    found = _where(dataset, data)
    output = Output(as_json, WIDTH)
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
        told = f"\nsha256 {content.sha256}" if content.sha256 else ""
        table.add_row(content.status, content.note + told)
    table.add_row("found", Text(" + ".join(found) or _how(dataset)))
    output.show(table)
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
        return fetch_files(
            dataset,
            folder,
            progress=lambda file, have, total: bars.update(
                lines[file], completed=have, total=total
            ),
        )


def _verify(dataset: Dataset, data: Path | None) -> Verdict:
    """Check one dataset; a wrong data folder still ends the command."""
    if dataset.published.status == "synthetic":
        return Verdict(dataset.name, dataset.published.status, dataset.published.note)
    if not dataset.embedded and resolve.locate(dataset, data) is None:
        return Verdict(dataset.name, "missing", str(resolve.missing(dataset, data)))
    try:
        loaded = load(dataset.name, data)
    except FedwqcpError as error:
        return Verdict(dataset.name, "unsound", str(error))
    return Verdict(
        dataset.name,
        loaded.status,
        loaded.note,
        loaded.source,
        *_counts(loaded),
        sha256=loaded.sha256,
    )


def _counts(loaded: Loaded) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Count the rows of each class, for training and for testing."""
    train, test = np.bincount(loaded.train_labels), np.bincount(loaded.test_labels)
    return tuple(train.tolist()), tuple(test.tolist())


def _where(dataset: Dataset, data: Path | None) -> tuple[str, ...]:
    """Return the files that hold a dataset, as text."""
    if dataset.embedded:
        return ("embedded",) if dataset.name != "digits" or find_spec("sklearn") else ()
    return tuple(str(file) for file in resolve.locate(dataset, data) or ())


def _task(dataset: Dataset) -> str:
    """Write the task and the number of classes."""
    return dataset.task + (f", {dataset.n_classes} classes" if dataset.n_classes else "")


def _shape(dataset: Dataset) -> str:
    """Write the shape of one input."""
    return " x ".join(str(length) for length in dataset.shape)


def _how(dataset: Dataset) -> str:
    """Say how a dataset that was not found is had."""
    need = "needs fedwqcp[demo]" if dataset.embedded else f"fedwqcp data fetch {dataset.name}"
    return f"no; {need}"
