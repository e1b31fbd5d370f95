"""``fedwqcp certs``: keys and certificates for trying out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedwqcp.cli.output import AsJson, Output
from fedwqcp.federation.certs import DAYS, make_certs


def certs(
    folder: Annotated[Path, typer.Argument(help="Where to write; nothing is replaced.")],
    agent: Annotated[list[str], typer.Option(help="Name of a site; repeat for each.")],
    host: Annotated[
        list[str] | None, typer.Option(help="Name or address of the server; repeat for several.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a local CA, a server certificate and a key for each site, for trying out."""
    output = Output(as_json)
    files = make_certs(folder, agent, host or ["localhost", "127.0.0.1"])
    for path in files:
        output.say(path)
    output.say(
        f"for trying out: valid for {DAYS} days. In earnest, every site makes its own key and "
        "hands over keys/NAME.pub alone"
    )
    output.done(files=files, days=DAYS)
