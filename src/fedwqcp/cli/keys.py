"""``fedwqcp keys``: make the key that signs a site's answers, and show its public half."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    output.say(f'{key.stem} = "{public}"')
    output.done(key=key, public=public)


@app.command()
def show(
    key: Annotated[Path, typer.Argument(help="A private key.")],
    as_json: AsJson = False,
) -> None:
    """Print the public half of a private key."""
    public, output = SigningKey(key).public, Output(as_json)
    output.say(f'{key.stem} = "{public}"')
    output.done(key=key, public=public)
