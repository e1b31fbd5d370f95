"""``fedwqcp bench liars``: what liars do to every method."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedwqcp.bench import liars_run
from fedwqcp.bench.toml import parse_seeds
from fedwqcp.cli.output import AsJson, Output
from fedwqcp.report import liars_page


def liars(
    outputs: Annotated[
        Path, typer.Option(help="Model outputs, such as bench reproduce left in OUT/outputs.")
    ] = Path("runs/paper/outputs"),
    out: Annotated[Path, typer.Option(help="Folder for records, tables and figure.")] = Path(
        "runs/liars"
    ),
    datasets: Annotated[
        str | None, typer.Option(help="Names with commas; by default all that are there.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Such as 0-9 or 0,2,5-7.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Let one, two and three agents lie to every method, and write what it did."""
    output = Output(as_json)

    def tell(what: str, share: float) -> None:
        output.say(f"{share:4.0%}  {what}")

    records = liars_run.run(
        outputs,
        out,
        datasets=None if datasets is None else [name.strip() for name in datasets.split(",")],
        seeds=None if seeds is None else parse_seeds(seeds),
        jobs=jobs,
        on_step=tell,
    )
    files = liars_page.write(records, out)
    output.say(f"Written: {', '.join(str(file) for file in files)}")
    output.done(records=len(records), files=files)
