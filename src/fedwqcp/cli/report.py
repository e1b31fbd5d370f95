"""``fedwqcp report``: a page of a round or a monitor."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Annotated

import typer

from fedwqcp._io import keep_apart
from fedwqcp.cli.output import AsJson, LabelsFile, Output
from fedwqcp.words import commands


def report(
    source: Annotated[
        Path,
        typer.Argument(
            help="What is shown: the server's record of a round (round-ID.record.json) or a folder "
            "with one; with --agent the release that the agent got; "
            "a monitor's state."
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
    labels: LabelsFile = None,
    calibration: Annotated[
        Path | None, typer.Option(help="The agent's calibration outputs, which auto needs.")
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "",
    as_json: AsJson = False,
) -> None:
    """Write one page: who is covered, sizes of sets, what was sent."""
    from fedwqcp.report import html as pages

    keep_apart(out, source, outputs, labels, calibration)
    agent = None if agent is None else unicodedata.normalize("NFC", agent)
    data = {"outputs": outputs, "labels": labels, "calibration": calibration}
    page = pages.load_page(source, agent=agent, title=title, **data)
    written = pages.save(page, out)
    output = Output(as_json)
    output.tell(page.findings)
    output.done(commands.files, files=[written], notes=page.findings)
