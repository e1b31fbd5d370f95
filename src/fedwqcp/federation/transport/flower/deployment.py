"""A Flower app from templates, and which Flower is fit; it imports no flwr."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fedwqcp._io import to_toml
from fedwqcp.errors import FedwqcpError, InputError, MissingExtraError
from fedwqcp.federation.transport.templates import write_templates

_FILES = {
    "init.py.in": "@package@/__init__.py",
    "pyproject.toml.in": "pyproject.toml",
    "README.md.in": "README.md",
    "LICENSE.in": "LICENSE",
    "gitignore.in": ".gitignore",
    "server_app.py.in": "@package@/server_app.py",
    "client_app.py.in": "@package@/client_app.py",
    "config.toml.in": ".flwr/config.toml",
}


TESTED = "1.40 to 1.41"
"""The oldest and the newest Flower that the tests ran on."""


def unusable_flower(error: ImportError) -> FedwqcpError:
    """Say that Flower is missing, or that this one lacks a name that is used here."""
    try:
        here = version("flwr")
    except PackageNotFoundError:
        return MissingExtraError("a federation over Flower", "flower")
    return InputError(f"must be {TESTED}, got {here}, which lacks a name: {error}", field="flwr")


def new_app(folder: Path, sites: int = 2, publisher: str = "your-organisation") -> tuple[Path, ...]:
    """Write a Flower app that runs as it is into a new or empty folder, which names the app.

    Its roster has so many sites: agent-0, agent-1, ..., as simulated sites are called. Beside the
    app lies the connection ``fed`` for ``flwr``. The app has what Flower Hub asks for; there the
    publisher is the name of an account.
    """
    if sites < 1:
        raise InputError(f"an app needs at least one site, got {sites}")
    name = folder.resolve().name.lower().replace("_", "-")
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,31}", name):
        raise InputError(
            "the folder names the app: at most 32 letters, digits and '-', a letter first, got "
            f"{folder.resolve().name!r}"
        )
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", publisher):
        raise InputError(
            f"publisher must be a name of letters, digits, '.', '_' and '-', got {publisher!r}"
        )
    return write_templates(
        __package__,
        folder,
        _FILES,
        name=name,
        package=name.replace("-", "_"),
        publisher=publisher,
        sites=str(sites),
        agents=",".join(f"agent-{site}" for site in range(sites)),
        last=str(sites - 1),
        address="127.0.0.1:8000",
        authority=to_toml(folder.resolve().parent / "certs" / "server.pem"),
    )
