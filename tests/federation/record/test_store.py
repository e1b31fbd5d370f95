"""Releases survive a file, and damaged files are told from missing ones."""

from __future__ import annotations

import pytest

from fedwqcp import calibrate, load, save
from fedwqcp.errors import InputError, RecordError


@pytest.mark.parametrize("method", ["split-cp", "fedwq-cp"])
def test_a_release_survives_a_file(tmp_path, method):
    release = calibrate({"a": [0.1, 0.2], "b": [0.3]}, method=method, alpha=(0.4, 0.05))
    save(release, tmp_path / "r.json")
    again = load(tmp_path / "r.json")
    assert again == release
    assert again.threshold("a", 0.4) == release.threshold("a", 0.4)


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b'"version":1', b'"version":9', "must have version 1, got 9"),
        (b'"rounds":1', b'"rounds":"1"', "is damaged: rounds"),
        (b'"name":"fedwq-cp"', b'"name":"nope"', "unknown method 'nope'"),
        (b"{", b"", "cannot be read"),
    ],
)
def test_a_damaged_file_says_so(tmp_path, old, new, says):
    path = tmp_path / "r.json"
    save(calibrate({"a": [0.1, 0.2]}, alpha=0.4), path)
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(RecordError, match=says):
        load(path)
