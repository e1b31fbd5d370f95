"""``fedwqcp demo``: four real hospitals, from their patients to a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from fedwqcp import methods
from fedwqcp._io import make_folder
from fedwqcp.cli.output import AsJson, Output
from fedwqcp.demo.demo import (
    ALPHA,
    METHODS,
    RESULTS_FILE,
    OnStep,
    over_splits,
    run,
    save_results,
    save_spread,
)
from fedwqcp.report.figures import draw_demo, require_matplotlib
from fedwqcp.report.terminal import demo_text, spread_table

T = TypeVar("T")

WIDTH = 80
"""Columns where the output is no terminal."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for figure, report and numbers.")] = Path("out"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    alpha: Annotated[float, typer.Option(help="Miscoverage level.")] = ALPHA,
    every: Annotated[
        bool, typer.Option("--all", help="Compare all methods instead of five.")
    ] = False,
    splits: Annotated[
        int | None,
        typer.Option(help="Repeat on this many random splits; write only their mean and spread."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show four real hospitals: what each sends, what it gets, and which method to use."""
    output = Output(as_json, WIDTH)
    if splits is not None:
        make_folder(out)
        spread = _watched(lambda on_step: over_splits(splits, alpha, on_step), output.console)
        save_spread(out / "splits.json", spread)
        output.say(spread_table(spread))
        output.done(files=[out / "splits.json"], spread=spread)
        return
    from fedwqcp.report import html

    require_matplotlib()
    html.require_report()
    make_folder(out)
    names = tuple(dict.fromkeys((*METHODS, *methods.available()))) if every else METHODS
    results = _watched(lambda on_step: run(seed, alpha, names, on_step), output.console)
    save_results(out / RESULTS_FILE, results)
    files = (*draw_demo(results, out / "demo"), out / RESULTS_FILE)
    report = html.write(out, out / "report.html")
    output.say(demo_text(results))
    output.say(f"\nFigure: {files[0]}  Numbers: {files[-1]}\nReport: {report}")
    output.done(
        files=files,
        report=report,
        found=results.found,
        advised=results.advised,
        skipped=results.skipped,
    )


def _watched(work: Callable[[OnStep], T], console: Console) -> T:
    """Do some work with a line that shows how far it is."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        line = progress.add_task("training the models", total=1.0)
        return work(lambda what, share: progress.update(line, description=what, completed=share))
