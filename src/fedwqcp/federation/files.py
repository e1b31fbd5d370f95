"""Reading and writing small files so that nothing is ever half-written."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

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
    try:
        with _part(path) as (file, part):
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if sys.platform == "win32":  # where an open file cannot be renamed
                file.close()
            if replace:
                os.replace(part, path)
                return True
            return _link(part, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


def append_line(path: Path, line: bytes) -> None:
    """Add a line to a file and bring it to the disk; a last line that was cut short goes first.

    Parameters
    ----------
    path : Path
        The file; it need not exist.
    line : bytes
        The line, without its end.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    try:
        with path.open("a+b", buffering=0) as file:
            _lock(file.fileno())
            _end_of_lines(file)
            file.write(line + b"\n")
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time change the files of a folder; the others wait.

    The lock ends with its process, however that ends: the empty file ``.fedwqcp.lock`` that stays
    behind locks nothing.

    Parameters
    ----------
    folder : Path
        The folder.

    Yields
    ------
    None
        While the lock is held.

    Raises
    ------
    InputError
        If the folder does not exist, cannot be written, or lies on a disk without locks.
    """
    path = folder / ".fedwqcp.lock"
    try:
        file = path.open("ab")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    with file:
        try:
            _lock(file.fileno())
        except OSError as error:
            raise InputError(
                f"cannot lock {path}: {error.strerror}; keep these files on a disk with file locks"
            ) from None
        yield


def sync_folder(folder: Path) -> None:
    """Bring the names of a folder's files to the disk, where the system can."""
    with contextlib.suppress(OSError):  # some systems open no folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _lock(handle: int) -> None:
    """Wait for the lock of an open file; closing the file gives it back."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(handle, 0, os.SEEK_SET)
        while True:
            try:
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)  # gives up after ten tries of a second
                return
            except OSError as error:
                if error.errno != errno.EDEADLOCK:
                    raise
    else:
        try:
            import fcntl
        except ImportError:  # such as in a browser, where there is one process
            return
        fcntl.flock(handle, fcntl.LOCK_EX)


@contextlib.contextmanager
def _part(path: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """Open the file that becomes another one, empty and for this process alone.

    It has one name for each target, so that the next writer takes over what a killed one left.
    """
    part = path.with_name(f".{path.name}.part")
    flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    while True:
        handle = os.open(part, flags, 0o666)  # the umask decides
        with os.fdopen(handle, "r+b") as file:
            _lock(handle)
            if not _is(part, handle):
                continue  # who held it before has renamed it: it is the target by now
            if os.fstat(handle).st_nlink > 1:  # another name of a file that is not ours to empty
                os.unlink(part)
                continue
            os.truncate(handle, 0)
            try:
                yield file, part
            finally:
                if _is(part, handle):
                    os.unlink(part)
            return


def _is(path: Path, handle: int) -> bool:
    """Tell whether a name still stands for an open file."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False))
    except OSError:  # no such name, or closed already
        return False


def _link(part: Path, path: Path) -> bool:
    """Give a finished file its name, unless another has it."""
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
            raise
        if path.exists():  # a disk without links: the lock of the folder keeps others out
            return False
        os.replace(part, path)
        return True
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
    return True


def _end_of_lines(file: BinaryIO) -> None:
    """Cut what follows the last whole line: a writer was stopped in the middle of it."""
    size = end = file.seek(0, os.SEEK_END)
    while end:
        begin = max(0, end - 4096)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            end = begin + found + 1
            break
        end = begin
    if end < size:
        file.truncate(end)


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
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"cannot read {path}: it is no plain file")
        with path.open("rb") as file:
            check_bytes(os.fstat(file.fileno()).st_size, most, f"{path}: size")
            data = file.read(int(most.most) + 1)  # a device or pipe tells no size
            check_bytes(len(data), most, f"{path}: size")
            return data
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except InputError:
        raise
    except ValueError:  # a name that no file can have
        raise InputError(f"cannot read {str(path)!r}: it is no name of a file") from None
