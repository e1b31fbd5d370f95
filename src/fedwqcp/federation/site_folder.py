"""The folder that keeps what a site over an engine sent: a person makes it, never the site itself.

A site that lost it would answer everything a second time, with its whole budget. So it answers only
where it finds the marker that was left when the folder was made.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from fedwqcp._io import is_file, make_folder, to_json, write_atomic
from fedwqcp.errors import InputError, RecordError

MARKER = "site.json"
"""Name of the file that says when the folder was made."""


def default_folder(name: str) -> Path:
    """Return where a site of this name keeps its record: one place, wherever it is started."""
    return Path.home() / ".fedwqcp" / name


def make_site_folder(folder: Path) -> bool:
    """Make a site's folder, or renew it after a loss; return whether its marker is new."""
    make_folder(folder)
    made = {"made": datetime.now(UTC).isoformat(timespec="seconds")}
    return write_atomic(folder / MARKER, to_json(made), replace=False)


def check_site_folder(folder: Path) -> None:
    """Refuse a folder that nobody made, or whose content is gone."""
    if not is_file(folder / MARKER):
        raise RecordError(
            f"{folder} must hold {MARKER}: nobody made this folder, or the record of what this "
            "site sent is lost; restore it, or begin a new one: fedwqcp agent folder FOLDER"
        )


def check_outside(folder: Path, kit: Path) -> None:
    """Refuse a folder below a startup kit, where the name of a job can remove it."""
    for place in (os.path.abspath, os.path.realpath):
        if Path(place(folder)).is_relative_to(place(kit)):
            raise InputError(
                f"must lie outside the startup kit {kit}, got {folder}: a job can remove what "
                "lies below it",
                field="folder",
            )
