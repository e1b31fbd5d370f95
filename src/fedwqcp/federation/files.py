"""Reading and writing small files so that nothing is ever half-written."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from fedwqcp.errors import InputError
from fedwqcp.wire.limits import RELEASE_BYTES, Limit, check_bytes


def write_atomic(path: Path, data: bytes, *, replace: bool = True) -> bool:
    """Write a file whole or not at all.

    Parameters
    ----------
    path : Path
        Where.
    data : bytes
        What.
    replace : bool, optional
        Whether an existing file is replaced, in one step; otherwise it stands, also where two
        processes write at the same time.

    Returns
    -------
    bool
        Whether it was written.

    Raises
    ------
    InputError
        If the folder does not exist or cannot be written.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)  # the umask decides
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(part, path)
        else:
            os.link(part, path)
    except FileExistsError:
        return False
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
    return True


def read(path: Path, most: Limit = RELEASE_BYTES) -> bytes:
    """Return the bytes of a file.

    Parameters
    ----------
    path : Path
        Which file.
    most : Limit, optional
        How large it may be; a larger one is refused by its size, unread.

    Returns
    -------
    bytes
        Its content.

    Raises
    ------
    InputError
        If it is not there, is no plain file, too large or cannot be read.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"cannot read {path}: it is no plain file")
    try:
        with path.open("rb") as file:
            check_bytes(os.fstat(file.fileno()).st_size, most, f"{path}: size")
            data = file.read(int(most.most) + 1)  # a device or pipe tells no size
            check_bytes(len(data), most, f"{path}: size")
            return data
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
