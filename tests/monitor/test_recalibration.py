"""When an alarm may open a round."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fedwqcp.errors import InputError, RecordError
from fedwqcp.monitor.recalibration import OpenedRound, claim_round, note_round, read_rounds

START = datetime(2026, 11, 1, tzinfo=UTC)


def test_each_alarm_opens_one_round_and_rounds_keep_their_distance(tmp_path):
    path, day = tmp_path / "m.json.rounds", timedelta(days=1)
    assert claim_round(path, (), START, 7.0) == ((), None)
    assert not path.exists(), "nothing is written where nothing happens"
    assert claim_round(path, {"b", "a"}, START, 7.0) == (("a", "b"), None)
    assert claim_round(path, {"a", "b"}, START + 30 * day, 7.0) == ((), None), "the same alarms"
    assert claim_round(path, {"a", "c"}, START + 6 * day, 7.0) == ((), START + 7 * day)
    assert claim_round(path, {"a", "c"}, START + 7 * day, 7.0) == (("c",), None)
    note_round(path, OpenedRound(START + 8 * day, "recalibrated", ("a", "b")))
    assert claim_round(path, {"a", "c"}, START + 8 * day, 7.0) == ((), START + 14 * day)
    assert claim_round(path, {"a", "c"}, START + 14 * day, 7.0) == (("a",), None)
    events = [line.event for line in read_rounds(path)]
    assert events == ["opened", "opened", "recalibrated", "opened"]


def test_a_round_that_could_not_be_opened_is_tried_again(tmp_path):
    path = tmp_path / "m.json.rounds"
    claim_round(path, ("a",), START, 7.0)
    note_round(path, OpenedRound(START, "failed", ("a",)))
    assert claim_round(path, ("a",), START, 7.0) == (("a",), None)


@pytest.mark.parametrize(
    "line",
    [
        "not JSON",
        '{"when": "2026-11-01T00:00:00", "event": "opened", "agents": ["a"]}',
        '{"when": "2026-11-01T00:00:00Z", "event": "closed", "agents": ["a"]}',
        '{"when": "2026-11-01T00:00:00Z", "event": "opened", "agents": "a"}',
    ],
)
def test_a_damaged_file_opens_nothing(tmp_path, line):
    path = tmp_path / "m.json.rounds"
    path.write_text(line + "\n")
    with pytest.raises(RecordError, match="damaged"):
        claim_round(path, ("a",), START, 7.0)


@pytest.mark.parametrize("days", [-1.0, float("nan"), float("inf")])
def test_days_are_a_number(tmp_path, days):
    with pytest.raises(InputError, match="days between two rounds"):
        claim_round(tmp_path / "m.json.rounds", ("a",), START, days)
