"""Files for programs on top of this package: written whole or not at all, read with a limit.

Every fault is an `InputError` that names the file.
"""

from pathlib import Path

from fedwqcp import _io
from fedwqcp._io import LOG_BYTES as LOG_BYTES
from fedwqcp._io import append_line as append_line
from fedwqcp._io import from_json as from_json
from fedwqcp._io import make_folder as make_folder
from fedwqcp._io import read as read
from fedwqcp._io import read_toml as read_toml
from fedwqcp._io import to_csv as to_csv
from fedwqcp._validation import known_hint as known_hint


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; the umask decides who can read it."""
    _io.write_atomic(path, data, shared=True)
