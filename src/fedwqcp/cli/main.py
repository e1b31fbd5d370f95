"""The command line ``fedwqcp`` and its commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fedwqcp import __version__
from fedwqcp.cli import agent, engines, keys, monitor, report, server
from fedwqcp.cli.demo import demo
from fedwqcp.cli.keys import certs
from fedwqcp.cli.listing import methods, scores, warm_up
from fedwqcp.cli.output import run, without_types
from fedwqcp.cli.server import advise, audit

app = typer.Typer(
    help="Federated conformal prediction: agree on thresholds while data stay where they are.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(server.app, name="server", help="Open and close rounds.")
app.add_typer(agent.app, name="agent", help="Answer rounds and predict, where the data are.")
app.add_typer(monitor.app, name="monitor", help="Watch coverage after release, as labels arrive.")
app.add_typer(report.app, name="report", help="Make figures and pages.")
app.add_typer(
    engines.flower, name="flower", help="Federations over Flower: an app of one's own, a demo."
)
app.add_typer(engines.nvflare, name="nvflare", help="Federations over NVIDIA FLARE: a job, a demo.")
app.add_typer(keys.app, name="keys", help="Keys that sign answers.")
app.command()(demo)
app.command()(advise)
app.command()(audit)
app.command()(certs)
app.command()(methods)
app.command()(scores)
app.command()(warm_up)
without_types(app)

MOVED = {
    "bench run": "run",
    "bench reproduce": "reproduce",
    "bench stress": "stress",
    "bench liars": "byzantine",
    "data": "data",
    "report tables": "tables",
}
"""Commands that moved to the laboratory, by what they are called there."""


def _version(show: bool) -> None:
    """Print the version and stop."""
    if show:
        typer.echo(f"fedwqcp {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Federated conformal prediction: agree on thresholds while data stay where they are."""
    del version, debug  # both are read before a command runs


def main() -> None:
    """Run the command line, or say what a command that moved is called now."""
    for old, new in MOVED.items():
        if sys.argv[1 : 1 + len(words := old.split())] == words:
            typer.echo(
                f"error: `fedwqcp {old}` is now `fedwqcp-lab {new}`: pip install fedwqcp-lab",
                err=True,
            )
            sys.exit(2)
    run(app)


if __name__ == "__main__":
    main()
