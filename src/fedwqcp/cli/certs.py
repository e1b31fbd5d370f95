"""``fedwqcp certs``: keys and certificates for trying out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedwqcp.federation.certs import DAYS, make_certs

console = Console(soft_wrap=True, highlight=False)


def certs(
    folder: Annotated[Path, typer.Argument(help="Where to write; nothing is replaced.")],
    agent: Annotated[list[str], typer.Option(help="Name of a site; repeat for each.")],
    host: Annotated[
        list[str] | None, typer.Option(help="Name or address of the server; repeat for several.")
    ] = None,
) -> None:
    """Make a local CA, a server certificate and a key for each site, for trying out."""
    for path in make_certs(folder, agent, host or ["localhost", "127.0.0.1"]):
        console.print(str(path))
    console.print(
        f"for trying out: valid for {DAYS} days. In earnest, every site makes its own key and "
        "hands over keys/NAME.pub alone"
    )
