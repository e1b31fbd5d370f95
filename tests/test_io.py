"""Files: what is written reaches the disk whole, or an error says so."""

import resource
from pathlib import Path

import pytest

from fedwqcp._io import append_line
from fedwqcp.errors import InputError


def test_lines_are_appended_and_a_torn_one_goes_first(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append_line(path, b"first")
    with path.open("ab") as file:
        file.write(b"torn")
    append_line(path, b"second")
    assert path.read_bytes() == b"first\nsecond\n"


def test_a_disk_that_takes_a_part_of_a_line_is_full(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append_line(path, b"first")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(InputError, match="cannot write"):
            append_line(path, b"a line of more than four bytes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    append_line(path, b"second")
    assert path.read_bytes() == b"first\nsecond\n"
