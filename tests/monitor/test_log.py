"""A log is read as it was written, and nothing else is."""

from __future__ import annotations

import json

import pytest

from fedwqcp.errors import InputError, RecordError
from fedwqcp.monitor import Monitor, Terms, append_log
from fedwqcp.monitor.log import Entry, read_log


@pytest.fixture
def log(tmp_path):
    """A log of two updates, and what they returned."""
    watch = Monitor(Terms(0.1, ("a", "b"), 2))
    path = tmp_path / "state.json.log"
    entries = []
    for agent in ("a", "b"):
        standings = watch.update(agent, [1, 0, 0, 1], [0, 0, 1, 1])
        append_log(path, watch.updates, "2026-11-15", standings)
        entries.append(Entry(watch.updates, "2026-11-15", standings))
    return path, tuple(entries)


def test_what_was_appended_comes_back(log):
    path, entries = log
    assert read_log(path) == entries


def test_lines_are_given_in_the_order_of_the_updates(log):
    path, entries = log
    path.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True))))
    assert read_log(path) == entries


def test_a_missing_log_is_told(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        read_log(tmp_path / "nothing.log")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "reads version 1, it has 2"),
        ({"update": True}, "whole number"),
        ({"streams": []}, "one agent"),
        ({"streams": 5}, "damaged"),
    ],
)
def test_a_damaged_line_is_named(log, change, message):
    path, _ = log
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{json.dumps(json.loads(second) | change)}\n")
    with pytest.raises(RecordError, match=rf"line 2.*{message}"):
        read_log(path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("hits", 99, "more hits than rows"),
        ("since_hits", 99, "more hits than rows"),
        ("n", -1, "whole number"),
        ("low", 1.5, "from 0 to 1"),
        ("high", float("nan"), "from 0 to 1"),
        ("evidence", float("inf"), "finite"),
        ("agent", "other", "one agent"),
        ("label", "x", "whole number"),
    ],
)
def test_a_stream_is_held_to_what_it_can_be(log, field, value, message):
    path, _ = log
    line = json.loads(path.read_text().splitlines()[0])
    line["streams"][0][field] = value
    path.write_text(json.dumps(line))
    with pytest.raises(RecordError, match=message):
        read_log(path)


@pytest.mark.parametrize("line", ["", "[]", "{", "7"])
def test_other_lines_are_refused(tmp_path, line):
    (tmp_path / "x.log").write_text(f"{line}\n")
    with pytest.raises(RecordError, match="must be a line of a monitor's log"):
        read_log(tmp_path / "x.log")
