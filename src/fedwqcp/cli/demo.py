"""``fedwqcp demo``: the main job, on data that needs no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from fedwqcp.bench.demo import Demo, Results, run
from fedwqcp.bench.record import save
from fedwqcp.errors import InputError
from fedwqcp.report.figures import coverage_against_size, require_matplotlib
from fedwqcp.report.tables import show

WIDTH = 110
"""Columns that the tables need; used where the output is no terminal."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for figure and records.")] = Path("out"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    alpha: Annotated[float, typer.Option(help="Miscoverage level.")] = 0.1,
) -> None:
    """Compare every method on six unequal agents: digits and a synthetic regression."""
    settings = Demo(seed=seed, alpha=alpha)
    require_matplotlib()
    _make_folder(out)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    results = _run(settings, console)
    main = [r for r in results.records if r.experiment == "methods"]
    save(out / "records.jsonl", results.records)
    files = (*coverage_against_size(main, out / "demo"), out / "records.jsonl")
    show(results.records, results.skipped, console)
    console.print(f"Written: {', '.join(str(file) for file in files)}", soft_wrap=True)


def _run(settings: Demo, console: Console) -> Results:
    """Run the demo with a line that shows how far it is."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        line = progress.add_task("", total=1.0)
        return run(
            settings,
            lambda what, share: progress.update(line, description=what, completed=share),
        )


def _make_folder(out: Path) -> None:
    """Make the folder before the work begins."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out must be a folder that can be written, got {out}") from error
