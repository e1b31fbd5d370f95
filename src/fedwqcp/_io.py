"""Files: atomic writes, appends that reach the disk, locks, bounded reads, JSON, TOML, CSV.

Every file of the package that is kept or read whole goes through here, so that none is ever
half-written, none is read without a limit, and every fault is an error that names the file.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import fnmatch
import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, TypeVar

import msgspec

from fedwqcp._validation import in_words, known_hint, shown
from fedwqcp.errors import InputError

T = TypeVar("T")

FILE_BYTES = 64 * 2**20
"""Largest file that is read whole."""
LOG_BYTES = 2**30
"""Largest log of a record or a monitor."""


def write_atomic(path: Path, data: bytes, *, replace: bool = True, shared: bool = False) -> bool:
    """Write a file whole or not at all, and tell whether it was written.

    It is for its owner alone; of a ``shared`` one the umask decides who can read it. Without
    ``replace`` an existing file stands, also where two processes write at the same time.
    """
    check_file_name(path)
    try:
        with _part(path, shared) as (file, part):
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if sys.platform == "win32":  # where an open file cannot be renamed
                file.close()
            if replace:
                os.replace(part, path)
                return True
            return _link(part, path)
    except (OSError, ValueError) as error:
        raise _cannot("write", path, error) from None


def append_line(path: Path, line: bytes) -> None:
    """Add a line to a file and bring it to the disk; a last line that was cut short goes first.

    A new file is for its owner alone.
    """
    try:
        handle = _open_plain(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a+b", buffering=0) as file:
            _lock(handle)
            _end_of_lines(file)
            data = line + b"\n"
            while data:  # a disk that becomes full takes a part, and only then refuses
                data = data[file.write(data) :]
            os.fsync(file.fileno())
    except (OSError, ValueError) as error:
        raise _cannot("write", path, error) from None


def write_key(path: Path, data: bytes, *, shared: bool = False) -> None:
    """Write a key that must not exist; a private one for its owner alone."""
    if not write_atomic(path, data, replace=False, shared=shared):
        raise InputError(f"{path} exists; keys are never replaced: choose another name")


def make_folder(folder: Path, *, private: bool = False) -> None:
    """Make a folder, and those above it, that survive a loss of power; it may exist.

    A private one is for its owner alone, and so are those above it that are new.
    """
    mode = 0o700 if private else 0o777
    try:
        new = [parent for parent in (folder, *folder.parents) if not os.path.lexists(parent)]
        for path in (*reversed(new), folder):
            path.mkdir(mode, exist_ok=True)
        if private:
            with contextlib.suppress(PermissionError):  # another's folder, or a disk without modes
                folder.chmod(mode)
    except FileExistsError:
        raise InputError(f"{folder} must be a folder, there is a file of that name") from None
    except (OSError, ValueError) as error:
        raise _cannot("write", folder, error) from None
    for parent in new or [folder]:
        sync_folder(parent.parent)


def move(path: Path, to: Path) -> bool:
    """Give a file another name, and tell whether there was one; of several movers one succeeds."""
    try:
        os.replace(path, to)
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        raise _cannot("write", to, error) from None
    sync_folder(to.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Bring the names of a folder's files to the disk, where the system can."""
    with contextlib.suppress(OSError):  # some systems open no folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time change the files of a folder; the others wait.

    The lock ends with its process, however that ends: the empty file ``.fedwqcp.lock`` that stays
    behind locks nothing.
    """
    path = folder / ".fedwqcp.lock"
    try:
        handle = _open_plain(path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise InputError(f"there is no folder {folder}") from None
        raise _cannot("write", path, error) from None
    with os.fdopen(handle, "r+b"):
        try:
            _lock(handle)
        except OSError as error:
            raise InputError(
                f"cannot lock {path}: {_why(error)}; keep these files on a disk with file locks"
            ) from None
        yield


def opened(path: Path, most: float = inf) -> BinaryIO:
    """Open a plain file of at most so many bytes to be read.

    Anything else is refused, also where opening it would wait.
    """
    try:
        file = os.fdopen(_open_plain(path, os.O_RDONLY), "rb")
        size = os.fstat(file.fileno()).st_size
    except (OSError, ValueError) as error:
        raise _cannot("read", path, error) from None
    if size > most:
        file.close()
        raise _too_large(path, size, most)
    return file


def open_private(path: Path) -> BinaryIO:
    """Open a file of its owner alone, which is made where it is missing, to read and write."""
    try:
        handle = _open_plain(path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)
    except (OSError, ValueError) as error:
        raise _cannot("write", path, error) from None
    return os.fdopen(handle, "r+b", buffering=0)


def read(path: Path, most: int = FILE_BYTES) -> bytes:
    """Return the bytes of a plain file; one of more than ``most`` bytes is refused unread."""
    try:
        with opened(path, most) as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(size + 1)  # room is made for all that is asked for
            if len(data) > size:  # some systems' own files tell no size
                data += file.read(most + 1 - len(data))
    except OSError as error:
        raise _cannot("read", path, error) from None
    if len(data) > most:
        raise _too_large(path, len(data), most)
    return data


def _too_large(path: Path, size: int, most: float) -> InputError:
    return InputError(f"must be at most {most} bytes, got {size}", field=f"{path}: size")


def exists(path: Path) -> bool:
    """Tell whether a name leads to anything; one that cannot be followed is refused."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        raise _cannot("read", path, error) from None
    return True


def is_absent(path: Path) -> bool:
    """Tell whether nothing has this name, not even a link that leads nowhere."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False  # it may be there: reading it says why it cannot be read
    return False


is_file, is_folder = os.path.isfile, os.path.isdir
"""A name that cannot be followed leads to neither; `Path.is_file` raises where a link is too long.
"""


def same_file(one: Path, other: Path) -> bool:
    """Tell whether two names lead to one file; names that lead nowhere do not."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def same_name(one: Path, other: Path) -> bool:
    """Tell whether two names stand for one file, also for one that is yet to be written."""
    alike = one.name.casefold() == other.name.casefold()
    return same_file(one, other) or (alike and same_file(one.parent, other.parent))


def keep_apart(out: Path, *read: Path | None) -> None:
    """Refuse to write over a file that is read, or over a record in a folder that is read."""
    record = is_file(out) and out.suffix in (".json", ".jsonl", ".toml", ".xz")
    folders = out.absolute().parents if record else ()
    for path in filter(None, read):
        if same_name(out, path) or any(same_file(folder, path) for folder in folders):
            raise InputError(f"{out} is read here, and would be replaced: choose another --out")


def in_folder(folder: Path, pattern: str = "*") -> list[Path]:
    """Return what a folder holds under names of a pattern, in order; nothing if it is not there."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise _cannot("read", folder, error) from None
    return [folder / name for name in sorted(fnmatch.filter(names, pattern))]


def from_json(data: bytes, kind: type[T]) -> T | None:
    """Read JSON into a type, strictly; None where it is anything else."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def parse_json(data: str | bytes, field: str = "") -> Any:
    """Read JSON whose objects have each key once; an error names the field."""

    def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            raise InputError("each key may occur once", field=field)
        return table

    return json.loads(data, object_pairs_hook=_once)


def to_json(value: object, *, indent: int = 0) -> bytes:
    """Write a value as JSON with a final newline: on one line, or indented for people."""
    data = msgspec.json.encode(value, enc_hook=as_plain)
    return (msgspec.json.format(data, indent=indent) if indent else data) + b"\n"


def as_plain(value: object) -> float | str:
    """Return a number or text of NumPy as Python's own; nothing else can be written."""
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    raise InputError(f"cannot travel: {type(value).__name__}")


_FORMULA = re.compile(r"'*(?:[=@\t\r]|[+-](?![\d.]+(?:[eE][+-]?\d+)?\Z))")
"""How a text begins that a spreadsheet runs; ``'`` before it are escapes of ours. No number is."""


def to_csv(rows: Iterable[Sequence[object]]) -> str:
    """Write a table that a spreadsheet opens and runs nothing of."""
    escaped = (
        [f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell for cell in row]
        for row in rows
    )
    lines: list[str] = []
    # it quotes what a line ends with: a text with a lone return would begin a line of its own
    csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n").writerows(escaped)
    return "".join(f"{line[:-2]}\n" for line in lines)


def unescaped(cell: str) -> str:
    """Return a text as it was before `to_csv` wrote it."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def read_toml(path: Path) -> dict[str, object]:
    """Read a TOML file."""
    import tomllib

    data = read(path)
    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        why = f": {error}" if isinstance(error, tomllib.TOMLDecodeError) else "; it is no text"
        why = "; it looks like JSON" if data.lstrip().startswith(b"{") else why
        raise InputError(f"{path} must be a TOML file{why}") from None


def to_toml(value: object) -> str:
    """Write a flag, a number, a text (or what prints as one), or a list of these as TOML does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(to_toml, value))}]"
    # a text of JSON, but for letters beyond 16 bits, which JSON escapes as two
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def load_toml(path: Path, kind: type[T]) -> T:
    """Read a TOML file into a struct."""
    return to_struct(read_toml(path), kind, str(path))


def to_struct(table: Mapping[str, object], kind: type[T], source: str) -> T:
    """Return a struct with the values of a table; an error names the table by its source.

    The description of a field says what it must hold, else its type does.
    """
    known: tuple[str, ...] = kind.__struct_encode_fields__  # type: ignore[attr-defined]  # a struct
    for key in table.keys() - set(known):
        raise InputError(f"{source}: unknown key {key!r}{known_hint(key, known)}")
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        reason, path = reason_and_place(error)
    key = path.partition("[")[0]
    if key not in table:
        raise InputError(f"{source}: {reason}")
    types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}  # type: ignore[arg-type]  # a struct
    about = in_words(types[key]).removesuffix(" or none")
    got = f", got {shown(table[key])}" if path == key else ""
    raise InputError(f"{source}: {key} must be {about}{got}")


def reason_and_place(error: msgspec.ValidationError) -> tuple[str, str]:
    """Split what msgspec says into the reason and the place, which it holds as text alone."""
    reason, _, path = str(error).partition(" - at `$")
    return reason, path.lstrip(".").rstrip("`")


_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
"""Refuse a link in place of the file."""


def _open_plain(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a regular file only: opening a FIFO would block. Of the mode the umask takes away."""
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags, mode)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise OSError(errno.EINVAL, "it is not a regular file")


def _why(error: OSError) -> str:
    """Say what the system said; some errors of Python's own say nothing."""
    return error.strerror or type(error).__name__


def _cannot(do: str, path: Path, error: OSError | ValueError) -> InputError:
    """Say why a file cannot be read or written; ValueError is about names that no file can have."""
    if isinstance(error, OSError):
        return InputError(f"cannot {do} {path}: {_why(error)}")
    return InputError(f"cannot {do} {str(path)!r}: it is not a file name")


def check_file_name(path: Path) -> None:
    """Refuse to write to a folder, such as that of an empty text."""
    if not path.name or is_folder(path):
        raise InputError(f"cannot write {path}: it is a folder; name a file")


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
def _part(path: Path, shared: bool) -> Iterator[tuple[BinaryIO, Path]]:
    """Open the file that becomes another one: new, under a name that nobody can have taken."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0)
    handle = os.open(part, flags, 0o666 if shared else 0o600)
    try:
        with os.fdopen(handle, "r+b") as file:
            yield file, part
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)


def _link(part: Path, path: Path) -> bool:
    """Give a finished file its name, unless another has it."""
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
            raise
        if os.path.lexists(path):  # a disk without links: the lock of the folder keeps others out
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
        newline = file.read(end - begin).rfind(b"\n")
        if newline >= 0:
            end = begin + newline + 1
            break
        end = begin
    if end < size:
        file.truncate(end)
