"""``fedwqcp demo``: the main job, on data that needs no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from fedwqcp.cli.output import AsJson, Output
from fedwqcp.demo.demo import Demo, Results, run
from fedwqcp.demo.records import REPORT_FILE, save_records, save_report
from fedwqcp.errors import InputError
from fedwqcp.report import html
from fedwqcp.report.figures import coverage_against_size, require_matplotlib
from fedwqcp.report.terminal import show

WIDTH = 110
"""Columns that the tables need; used where the output is no terminal."""

EXAMPLES = 12
"""Test points that the report shows: the data are public."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for figure and records.")] = Path("out"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    alpha: Annotated[float, typer.Option(help="Miscoverage level.")] = 0.1,
    as_json: AsJson = False,
) -> None:
    """Compare every method on six unequal agents: digits and a synthetic regression."""
    settings = Demo(seed=seed, alpha=alpha)
    require_matplotlib()
    html.require_report()
    _make_folder(out)
    output = Output(as_json, WIDTH)
    results = _run(settings, output.console)
    main = [r for r in results.records if r.experiment == "methods"]
    save_records(out / "records.jsonl", results.records)
    save_report(out / REPORT_FILE, results.report)
    files = (*coverage_against_size(main, out / "demo"), out / "records.jsonl", out / REPORT_FILE)
    report = html.write(out, out / "report.html", html.ReportOptions(examples=EXAMPLES))
    show(results.records, results.skipped, output.console)
    output.say(f"Written: {', '.join(str(file) for file in files)}")
    output.say(f"Report: {report}", style="bold")
    output.done(files=files, report=report, skipped=results.skipped)


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
