"""``fedwqcp report``: records to tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from fedwqcp.report.pages import write

app = typer.Typer(no_args_is_help=True)


@app.callback()
def report() -> None:
    """Make tables and figures from records."""


@app.command()
def tables(
    results: Annotated[Path, typer.Argument(help="Folder with records.jsonl.")],
    against: Annotated[
        Literal["published", "nothing"], typer.Option(help="What to set beside our figures.")
    ] = "published",
    out: Annotated[
        Path | None, typer.Option(help="Folder for tables and figures; by default RESULTS/tables.")
    ] = None,
) -> None:
    """Write coverage and size tables, verdicts, ablation and partition as files."""
    files = write(results, out or results / "tables", against=against == "published")
    names = ", ".join(str(file) for file in files)
    Console(highlight=False).print(f"Written: {names}", soft_wrap=True)
