"""The folder that keeps what a site over an engine sent: a person makes it, never the site itself.

A site that lost it would answer everything a second time, with its whole budget. So it answers only
where it finds the marker that was left when the folder was made, and all that the marker names.
"""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec

from fedwqcp._io import (
    exists,
    from_json,
    in_folder,
    is_file,
    locked,
    make_folder,
    read,
    to_json,
    write_atomic,
)
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.spending_log import COUNT, SpendingLog

MARKER = "site.json"
"""Name of the file that says when the folder was made."""

ROUNDS_KEPT = 64
"""How many rounds a site keeps whole; of older ones it keeps that they were answered, and what."""


def default_folder(name: str) -> Path:
    """Return where a site of this name keeps its record: one place, wherever it is started."""
    return Path.home() / ".fedwqcp" / name


class _Marker(msgspec.Struct):
    """When the folder was made, and which logs of what answers spent it must hold."""

    made: str
    keeps: list[str] = []

    def lost(self, folder: Path) -> list[str]:
        """Return which of them are gone."""
        return [name for name in self.keeps if not is_file(folder / name / COUNT)]


def make_site_folder(folder: Path) -> bool:
    """Make a site's folder, or renew it after a loss; return whether its marker is new."""
    make_folder(folder, private=True)
    with locked(folder):
        marker = _marker(folder) if is_file(folder / MARKER) else _Marker("")
        lost = marker.lost(folder)
        if marker.made and not lost:
            return False
        made = datetime.now(UTC).isoformat(timespec="seconds")
        keeps = [name for name in marker.keeps if name not in lost]
        write_atomic(folder / MARKER, to_json(_Marker(made, keeps)))
    return True


def check_site_folder(folder: Path) -> None:
    """Refuse a folder that nobody made, or whose content is gone."""
    lost = _marker(folder).lost(folder) if is_file(folder / MARKER) else [MARKER]
    if lost:
        raise RecordError(
            f"{folder} must hold {lost[0]}: nobody made this folder, or the record of what this "
            "site sent is lost; restore it, or begin a new one: fedwqcp agent folder FOLDER"
        )


def kept_in(folder: Path, name: str) -> Path:
    """Return where a site counts what answers spent; from now on it must be there."""
    check_site_folder(folder)
    with locked(folder):
        marker = _marker(folder)
        if name not in marker.keeps:
            SpendingLog(folder / name, msgspec.Struct).begin()
            write_atomic(folder / MARKER, to_json(_Marker(marker.made, [*marker.keeps, name])))
    return folder / name


def _marker(folder: Path) -> _Marker:
    marker = from_json(read(folder / MARKER), _Marker)
    if marker is None:
        raise RecordError(f"{folder / MARKER} is damaged: restore it")
    return marker


def check_outside(folder: Path, kit: Path) -> None:
    """Refuse a folder below a startup kit, where the name of a job can remove it."""
    for resolve in (os.path.abspath, os.path.realpath):
        if Path(resolve(folder)).is_relative_to(resolve(kit)):
            raise InputError(
                f"must lie outside the startup kit {kit}, got {folder}: a job can remove what "
                "lies below it",
                field="folder",
            )


def check_open(folder: Path, round: str) -> None:
    """Refuse a round whose answers the site no longer keeps: none of them is given again."""
    if exists(folder / "closed" / f"{round}.json"):
        raise InputError(f"was answered before the last {ROUNDS_KEPT} rounds", field="round")


def close_old_rounds(folder: Path) -> None:
    """Keep the newest rounds whole, and of older ones the digests of what was answered."""
    with locked(folder):
        rounds = sorted(in_folder(folder / "rounds"), key=lambda entry: entry.stat().st_mtime_ns)
        for old in rounds[:-ROUNDS_KEPT]:
            sent = {path.name: sha256(read(path)).hexdigest() for path in in_folder(old, "*.json")}
            if "round.json" in sent:  # else nothing was answered
                make_folder(folder / "closed")
                path = folder / "closed" / f"{old.name}.json"
                write_atomic(path, to_json(sent, indent=1), replace=False)
            shutil.rmtree(old, ignore_errors=True)  # another process may add to it
