"""A Flower app of the user's own, written from templates."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from fedwqcp.errors import InputError
from fedwqcp.federation.files import write_atomic

_FILES = {
    "pyproject.toml.in": "pyproject.toml",
    "README.md.in": "README.md",
    "LICENSE.in": "LICENSE",
    "gitignore.in": ".gitignore",
    "server_app.py.in": "{package}/server_app.py",
    "client_app.py.in": "{package}/client_app.py",
}


def new_app(folder: Path) -> tuple[Path, ...]:
    """Write a Flower app that runs as it is.

    Parameters
    ----------
    folder : Path
        Where; its last part names the app. It must not exist, or be empty.

    Returns
    -------
    tuple of Path
        What was written.

    Raises
    ------
    InputError
        If the folder holds something, or its name cannot name an app.
    """
    name = folder.resolve().name.lower().replace("_", "-")
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,40}", name):
        raise InputError(
            f"the folder names the app: letters, digits and '-', got {folder.resolve().name!r}"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} must be a new or an empty folder")
    package = name.replace("-", "_")
    words = {"name": name, "package": package, "publisher": "your-organisation"}
    (folder / package).mkdir(parents=True)
    written = [folder / package / "__init__.py"]
    write_atomic(written[0], f'"""The Flower app {name}."""\n'.encode())
    for source, target in _FILES.items():
        text = resources.files(__package__).joinpath("template", source).read_text("utf-8")
        for word, value in words.items():
            text = text.replace(f"@{word}@", value)
        written.append(folder / target.format(package=package))
        write_atomic(written[-1], text.encode())
    return tuple(written)
