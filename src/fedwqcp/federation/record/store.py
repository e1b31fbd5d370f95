"""Saving and loading releases: versioned files, readable, free of pickle."""

from __future__ import annotations

from pathlib import Path

from fedwqcp import methods
from fedwqcp.errors import InputError, MalformedMessageError, RecordError
from fedwqcp.federation.files import read, write_atomic
from fedwqcp.federation.plan import kinds_of
from fedwqcp.wire.codec import decode, encode, method_of
from fedwqcp.wire.release import Release


def save(release: Release, path: str | Path) -> None:
    """Write a release to a file, whole or not at all.

    Parameters
    ----------
    release : Release
        What a round ended with.
    path : str or Path
        Where; an existing file is replaced.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    write_atomic(Path(path), encode(release))


def load(path: str | Path) -> Release:
    """Read a release from a file.

    Parameters
    ----------
    path : str or Path
        A file that `save` or a server wrote.

    Returns
    -------
    Release
        What the round ended with.

    Raises
    ------
    InputError
        If there is no such file.
    RecordError
        If it is damaged, or of another version or an unknown method.
    """
    data = read(Path(path))
    try:
        found = methods.find(method_of(data, str(path)))
    except InputError as error:
        raise RecordError(f"{path}: {error}") from None
    try:
        return decode(data, Release, kinds_of(found), str(path))
    except MalformedMessageError as error:
        raise RecordError(f"{path} is damaged: {error.field}: {error.reason}") from None
