"""``fedwqcp keys`` and ``fedwqcp certs``: keys that sign answers, and trial certificates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from fedwqcp._io import to_toml
from fedwqcp.cli.output import AsJson, Output
from fedwqcp.federation.signing import SigningKey, new_key

app = typer.Typer(no_args_is_help=True)


@app.command()
def new(
    key: Annotated[Path, typer.Argument(help="Where the private key is written.")],
    as_json: AsJson = False,
) -> None:
    """Make a private key, which stays here, and print its public half for the roster."""
    public, output = new_key(key), Output(as_json)
    output.say(f"{key} is the private key: it stays here. For the roster, under [keys]:")
    output.say(_roster_line(key, public))
    output.done(key=key, public=public)


@app.command()
def show(
    key: Annotated[Path, typer.Argument(help="A private key.")],
    as_json: AsJson = False,
) -> None:
    """Print the public half of a private key."""
    public, output = SigningKey(key).public, Output(as_json)
    output.say(_roster_line(key, public))
    output.done(key=key, public=public)


def _roster_line(key: Path, public: str) -> str:
    """Return what the roster says of a key, under [keys]."""
    plain = re.fullmatch(r"[A-Za-z0-9_-]+", key.stem)
    return f"{key.stem if plain else to_toml(key.stem)} = {to_toml(public)}"


def certs(
    folder: Annotated[Path, typer.Argument(help="Where to write; nothing is replaced.")],
    agent: Annotated[list[str], typer.Option(help="Name of a site; repeat for each.")],
    host: Annotated[
        list[str] | None, typer.Option(help="Name or address of the server; repeat for several.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a local CA, a server certificate and a key for each site, for trials only."""
    from fedwqcp.federation.certs import DAYS, make_certs

    output = Output(as_json)
    files = make_certs(folder, agent, host or ["localhost", "127.0.0.1"])
    for path in files:
        output.say(path)
    output.say(
        f"for trying out: valid for {DAYS} days. In earnest, every site makes its own key and "
        "hands over keys/NAME.pub alone"
    )
    output.done(files=files, days=DAYS)
