"""``fedwqcp report``: rounds and records to tables, figures and pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedwqcp.cli.output import AsJson, Output
from fedwqcp.report import drawn
from fedwqcp.report import html as pages
from fedwqcp.report.pages import write

app = typer.Typer(no_args_is_help=True)


@app.callback()
def report() -> None:
    """Make tables, figures and pages of rounds and records."""


@app.command()
def tables(
    results: Annotated[Path, typer.Argument(help="Folder with records.jsonl.")],
    against: Annotated[
        Literal["published", "nothing"], typer.Option(help="What to set beside our figures.")
    ] = "published",
    out: Annotated[
        Path | None, typer.Option(help="Folder for tables and figures; by default RESULTS/tables.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write coverage and size tables, verdicts, ablation and partition as files."""
    files = write(results, out or results / "tables", against=against == "published")
    output = Output(as_json)
    output.say(f"Written: {', '.join(str(file) for file in files)}")
    output.done(files=files)


@app.command()
def figure(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(drawn.FIGURES)}.")],
    source: Annotated[
        Path, typer.Argument(help="Folder of the demo, a benchmark or a study; or a release.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The figure; it ends in .pdf, .svg or .png.")
    ],
    preset: Annotated[
        str | None,
        typer.Option(help="Which settings, where there are several: by default the first."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(envvar="FEDWQCP_AGENT", help="Whose scores, for a release's ecdf.")
    ] = None,
    outputs: Annotated[
        Path | None, typer.Option(help="That agent's calibration outputs, with labels.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw one figure for a paper; the same records give the same bytes."""
    written = drawn.draw(name, drawn.Asked(source, preset, agent, outputs), out)
    output = Output(as_json)
    output.say(f"Written: {written}")
    output.done(files=[written])


@app.command("html")
def page(
    source: Annotated[
        Path,
        typer.Argument(
            help="A round's record or folder, the demo's or a benchmark's folder, a monitor's file."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("report.html"),
    agent: Annotated[
        str | None,
        typer.Option(envvar="FEDWQCP_AGENT", help="Make this agent's own report of a round."),
    ] = None,
    outputs: Annotated[
        Path | None, typer.Option(help="The agent's labelled test outputs, for its coverage.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Labels in an .npy file, where the outputs carry none.")
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="The agent's calibration outputs, for its scores.")
    ] = None,
    examples: Annotated[
        int, typer.Option(help="Show so many single points; only their owner may ask for this.")
    ] = 0,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Of a benchmark, only this one; once for each.")
    ] = None,
    preset: Annotated[
        list[str] | None, typer.Option(help="Of a benchmark, only these settings; once for each.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write one page that shows who is covered, how large the sets are and what was sent."""
    parts = tuple(dataset or ()), tuple(preset or ())
    wanted = pages.Wanted(examples, agent, outputs, labels, calibration, *parts)
    written = pages.write(source, out, wanted)
    output = Output(as_json)
    output.say(f"Written: {written}")
    output.done(files=[written])
