"""``fedwqcp flower`` and ``fedwqcp nvflare``: an app or a job of one's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fedwqcp.cli.output import AsJson, Output
from fedwqcp.words import commands

flower = typer.Typer(no_args_is_help=True)
nvflare = typer.Typer(no_args_is_help=True)


@flower.command()
def new(
    folder: Annotated[Path, typer.Argument(help="A new folder; it names the app.")],
    sites: Annotated[
        int | None, typer.Option(help="How many sites take part; asked for in a terminal, else 2.")
    ] = None,
    publisher: Annotated[
        str, typer.Option(help="Who publishes it; on Flower Hub the name of your account.")
    ] = "your-organisation",
    as_json: AsJson = False,
) -> None:
    """Write a commented Flower app of your own that runs as it is."""
    from fedwqcp.federation.transport.flower.deployment import new_app

    if sites is None:
        asked = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
        sites = typer.prompt("How many sites take part?", default=2, type=int) if asked else 2
    files = new_app(folder, sites, publisher)
    Output(as_json).done(commands.new_app, files=files, sites=sites)


@nvflare.command("new")
def new_job(
    folder: Annotated[Path, typer.Argument(help="A new folder; it names the job.")],
    as_json: AsJson = False,
) -> None:
    """Write a commented FLARE job: the terms of a round, and no code."""
    from fedwqcp.federation.transport.nvflare.deployment import new_job

    Output(as_json).done(commands.new_job, files=new_job(folder))


@nvflare.command()
def allow(
    kit: Annotated[Path, typer.Argument(help="Startup kit of a site or of the coordinator.")],
    as_json: AsJson = False,
) -> None:
    """Lock a startup kit: it runs no code that a job brings."""
    from fedwqcp.federation.transport.nvflare.deployment import allow

    Output(as_json).done(commands.files, files=allow(kit))
