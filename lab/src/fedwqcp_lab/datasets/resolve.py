"""Where the files of a dataset are: a given folder, a folder of the system, or the cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fedwqcp.errors import InputError
from fedwqcp_lab.datasets.dataset import Dataset

SYSTEM_FOLDERS = (Path("/usr/share/datasets"),)
"""Where distributions install datasets; Debian's ``dataset-fashion-mnist`` does."""


def cache_folder() -> Path:
    """Return the folder that downloads are kept in.

    Returns
    -------
    Path
        ``FEDWQCP_CACHE`` where it is set, else the folder for caches of this system; it need not
        exist.
    """
    if chosen := os.environ.get("FEDWQCP_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fedwqcp"


def places(data: Path | None = None) -> tuple[Path, ...]:
    """Return the folders that are searched, in this order.

    Parameters
    ----------
    data : Path, optional
        A folder with data; by default the one that ``FEDWQCP_DATA`` names, if it is set.

    Returns
    -------
    tuple of Path
        The given folder, the folders of the system, the cache.

    Raises
    ------
    InputError
        If the given folder is none.
    """
    named = "the data folder" if data is not None else "FEDWQCP_DATA"
    if data is None and (chosen := os.environ.get("FEDWQCP_DATA")):
        data = Path(chosen)
    if data is not None and not data.is_dir():
        raise InputError(f"{named} must be a folder that exists, got {data}")
    given = () if data is None else (data,)
    return (*given, *SYSTEM_FOLDERS, cache_folder())


def locate(dataset: Dataset, data: Path | None = None) -> tuple[Path, ...] | None:
    """Return the files of a dataset from the first place that has all of them.

    Parameters
    ----------
    dataset : Dataset
        An entry of the catalogue that is not embedded.
    data : Path, optional
        A folder with data, as in `places`.

    Returns
    -------
    tuple of Path or None
        Files that belong together; None if no place has them.

    Raises
    ------
    InputError
        If the given folder is none.
    """
    for place in places(data):
        for names in dataset.file_sets:
            files = tuple(place / name for name in names)
            if all(file.is_file() for file in files):
                return files
    return None


def missing(dataset: Dataset, data: Path | None = None) -> InputError:
    """Return the error that says which files were looked for, where, and how to get them.

    Parameters
    ----------
    dataset : Dataset
        An entry that `locate` did not find.
    data : Path, optional
        A folder with data, as in `places`.

    Returns
    -------
    InputError
        To be raised.
    """
    folders = places(data)
    wanted = " or ".join(_shown(names) for names in dataset.file_sets)
    return InputError(
        f"{dataset.name}: no data found; looked for {wanted} in "
        + ", ".join(str(folder) for folder in folders)
        + "".join(_incomplete(dataset, folder) for folder in folders)
        + f"; get it with: fedwqcp-lab data fetch {dataset.name}"
    )


def _shown(names: tuple[str, ...]) -> str:
    """Name a set of files briefly."""
    return names[0] if len(names) == 1 else f"{names[0]} with {len(names) - 1} more"


def _incomplete(dataset: Dataset, folder: Path) -> str:
    """Say which files lack where a part of a set is there."""
    lacking = [
        name
        for names in dataset.file_sets
        if any((folder / name).is_file() for name in names)
        for name in names
        if not (folder / name).is_file()
    ]
    return f"; {folder} lacks {', '.join(lacking)}" if lacking else ""
