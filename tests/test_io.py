"""Files: what is written reaches the disk whole, or an error says so."""

import csv
import io
import os
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp import _io
from fedwqcp._io import append_line, to_toml
from fedwqcp.errors import InputError


def test_lines_are_appended_and_a_torn_one_goes_first(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append_line(path, b"first")
    with path.open("ab") as file:
        file.write(b"torn")
    append_line(path, b"second")
    assert path.read_bytes() == b"first\nsecond\n"


def test_a_full_disk_leaves_no_empty_key(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(InputError):
            _io.write_key(tmp_path / "site.key", b"more than ten bytes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_files_are_their_owner_s_alone_unless_they_are_to_be_shared(tmp_path: Path) -> None:
    _io.write_atomic(tmp_path / "a.json", b"{}")
    append_line(tmp_path / "log.jsonl", b"{}")
    _io.write_atomic(tmp_path / "round.json", b"{}", shared=True)
    lock(tmp_path / "any")
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert modes == {
        "a.json": 0o600, "log.jsonl": 0o600, "round.json": 0o666, ".fedwqcp.lock": 0o600
    }  # fmt: skip


@pytest.mark.usefixtures("open_umask")
def test_a_private_folder_is_its_owner_s_alone_with_those_above_it(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir(mode=0o755)
    for name in ("new/site", "old"):
        _io.make_folder(tmp_path / name, private=True)
        found = tmp_path / name.partition("/")[0]
        assert [each.stat().st_mode & 0o777 for each in (found, tmp_path / name)] == [0o700] * 2
    _io.make_folder(tmp_path / "shared" / "by-all")
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o777


@pytest.mark.parametrize("text", ["=1+1", "@x", "+a", "-2+3", "\ty", "\r=1", "'=1", "-", "+"])
def test_no_cell_of_a_table_runs_as_a_formula(text: str) -> None:
    assert _io.to_csv([[text]]).lstrip('"')[0] == "'"
    (row,) = csv.reader(io.StringIO(_io.to_csv([[text, "2"]]), newline=""))
    assert row == [f"'{text}", "2"]
    assert _io.unescaped(row[0]) == text
    inside = _io.to_csv([[f"a\r{text}\n{text}"]])
    assert inside.startswith('"'), "else a return in a text begins a line of its own"
    assert inside.endswith('"\n')


def test_numbers_and_other_texts_of_a_table_stay_as_they_are() -> None:
    rows = [["-1.5", "+2e-3", -3, -0.5, "a-b", "'a"], ['a "b", c', "", None, True]]
    text = '-1.5,+2e-3,-3,-0.5,a-b,\'a\n"a ""b"", c",,,True\n'
    assert _io.to_csv(rows) == text
    assert _io.unescaped("'a") == "'a"


@contextmanager
def pipe(path: Path) -> Iterator[Path]:
    """A pipe with someone at its other end, so that opening it does not wait."""
    os.mkfifo(path)
    handle = os.open(path, os.O_RDWR)
    try:
        yield path
    finally:
        os.close(handle)


def lock(path: Path) -> None:
    """Lock a folder."""
    with _io.locked(path.parent):
        pass


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("a.json", _io.read),
        ("a.json", _io.opened),
        ("a.json", lambda path: append_line(path, b"x")),
        (".fedwqcp.lock", lock),
    ],
)
def test_a_pipe_is_never_opened(tmp_path: Path, name: str, use: Callable[[Path], object]) -> None:
    with (
        pipe(tmp_path / name) as path,
        pytest.raises(InputError),
    ):
        use(path)


def test_a_lock_behind_a_link_makes_no_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / ".fedwqcp.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError):
        lock(tmp_path / ".fedwqcp.lock")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("fault", [PermissionError(13, "Permission denied"), OSError(36, "long")])
def test_a_name_that_cannot_be_followed_is_an_error_or_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: OSError
) -> None:
    def _fails(*args: object, **more: object) -> None:
        raise fault

    path = tmp_path / "x"
    for name in ("stat", "lstat", "open", "listdir"):
        monkeypatch.setattr(os, name, _fails)
    for use in (_io.exists, _io.in_folder, _io.read):
        with pytest.raises(InputError, match=f"cannot read {path}: {fault.strerror}"):
            use(path)
    asked = (_io.is_absent(path), _io.is_file(path), _io.is_folder(path), _io.same_file(path, path))
    assert asked == (False, False, False, False)
    monkeypatch.undo()
    assert (_io.exists(path), _io.is_absent(path), _io.in_folder(path)) == (False, True, [])


TEXT = st.text(st.characters(codec="utf-8"))
VALUES = TEXT | st.booleans() | st.integers() | st.floats(allow_nan=False)


@given(TEXT, VALUES | st.lists(VALUES))
def test_toml_reads_what_was_written(key: str, value: object) -> None:
    assert tomllib.loads(f"{to_toml(key)} = {to_toml(value)}\n") == {key: value}
