"""States survive restarts, stay small, and are read strictly."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError, RecordError
from fedwqcp.monitor import Monitor, MonitorTerms, changing, load_monitor, save_monitor
from fedwqcp.monitor.state import RoundEvent, claim_round, note_round, read_rounds


def monitor():
    """Return a monitor with some rows."""
    watch = Monitor(MonitorTerms(0.1, ("a", "b"), 2, (0.1, 0.2), 0.04, 0.01))
    rng = np.random.default_rng(0)
    watch.update("a", rng.uniform(size=50) < 0.6, rng.integers(2, size=50), batch="one")
    watch.update_inputs("a", [1, 2, 0.3333], batch="two")
    return watch


def test_a_restart_changes_nothing(tmp_path):
    watch, path = monitor(), tmp_path / "state.json"
    save_monitor(watch, path)
    again = load_monitor(path)
    assert (again.terms, again.sites) == (watch.terms, watch.sites)
    more = [1, 0, 0, 1]
    assert again.update("a", more) == watch.update("a", more)
    assert again.sites["a"].inputs.seed == watch.sites["a"].inputs.seed > 0
    assert again.update_inputs("a", [2] * 9) == watch.update_inputs("a", [2] * 9)
    again.update("b", [1])
    with pytest.raises(InputError, match="already added"):
        again.update("a", [1], batch="one")


def test_a_failed_change_is_not_kept(tmp_path):
    path = tmp_path / "state.json"
    save_monitor(monitor(), path)
    before = path.read_bytes()

    def change():
        with changing(path) as watch:
            watch.update("b", [1, 1, 0])
            watch.update("nobody", [1])

    with pytest.raises(InputError, match="not monitored"):
        change()
    assert path.read_bytes() == before


def test_changes_at_the_same_time_are_all_kept(tmp_path):
    path = tmp_path / "state.json"
    save_monitor(Monitor(MonitorTerms(0.1, ("a",))), path)

    def change(hit):
        with changing(path) as watch:
            watch.update("a", [hit])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, [1] * 40))
    assert load_monitor(path).standings()[0].n == 40


def damaged():
    """Return ways to damage a state."""

    def put(*where, value):
        def change(state):
            for key in where[:-1]:
                state = state[key]
            state[where[-1]] = value

        return change

    rows = ("sites", "a", "rows")
    return [
        put("terms", "alpha", value=2),
        put("terms", "unknown", value=1),
        put("sites", "a", "inputs", "test", "wealth", value=[0.0] * 7),
        put("sites", "a", "inputs", "cells", value={"x": 1}),
        put("sites", "a", "inputs", "cells", value={"1.0": -1}),
        put("sites", "a", "tolerance", value=0.95),
        put("sites", "a", "batches", 0, "hits", value=51),
        put("sites", "a", "inputs", "seed", value=-1),
        put("sites", value={}),
        put("sites", value=[]),
        put("sites", "a", "classes", value=[]),
        put("sites", "a", "batches", value=3),
        put(*rows, "n", value=3.5),
        put(*rows, "run_n", value=[40] * 7),  # 10 rows since, and more hits
        put("terms", "delta", value=1e-320),
        put(*rows, "hits", value=10**6),
        put(*rows, "runs", value=[0.0]),
        put(*rows, "runs", 0, value=float("nan")),
        put(*rows, "run_n", 0, value=10**6),
        put(*rows, "run_hits", 0, value=10**6),
        put(*rows, "wealth", value=None),
        put(*rows, "wealth", 0, value=float("nan")),
        put(*rows, "n", value=2**52),
        put(*rows, "evidence", value=10**400),
        put(*rows, "alarm", value="now"),
        put(*rows, "alarm", value=None),  # with evidence enough for one
    ]


@pytest.mark.parametrize("change", damaged())
def test_a_damaged_state_is_refused(tmp_path, change):
    path = tmp_path / "state.json"
    save_monitor(monitor(), path)
    state = json.loads(path.read_text())
    change(state)
    path.write_text(json.dumps(state))
    with pytest.raises(RecordError, match="damaged"):
        load_monitor(path)


@given(st.one_of(st.binary(max_size=60), st.sampled_from([b"[]", b"3", b'{"fedwqcp-monitor":2}'])))
def test_other_files_are_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("state") / "state.json"
    path.write_bytes(data)
    with pytest.raises(RecordError):
        load_monitor(path)


START = datetime(2026, 11, 1, tzinfo=UTC)


def test_each_alarm_opens_one_round_and_rounds_keep_their_distance(tmp_path):
    path, day = tmp_path / "m.json.rounds", timedelta(days=1)
    assert claim_round(path, (), START, 7.0) == ((), None)
    assert not path.exists(), "nothing is written where nothing happens"
    assert claim_round(path, {"b", "a"}, START, 7.0) == (("a", "b"), None)
    assert claim_round(path, {"a", "b"}, START + 30 * day, 7.0) == ((), None), "the same alarms"
    assert claim_round(path, {"a", "c"}, START + 6 * day, 7.0) == ((), START + 7 * day)
    assert claim_round(path, {"a", "c"}, START + 7 * day, 7.0) == (("c",), None)
    note_round(path, RoundEvent(START + 8 * day, "recalibrated", ("a", "b")))
    assert claim_round(path, {"a", "c"}, START + 8 * day, 7.0) == ((), START + 14 * day)
    assert claim_round(path, {"a", "c"}, START + 14 * day, 7.0) == (("a",), None)
    events = [line.event for line in read_rounds(path)]
    assert events == ["opened", "opened", "recalibrated", "opened"]


def test_a_round_that_could_not_be_opened_is_tried_again_when_it_is_time(tmp_path):
    path, day = tmp_path / "m.json.rounds", timedelta(days=1)
    claim_round(path, ("a",), START, 7.0)
    for at in (0, 1, 6.9):
        note_round(path, RoundEvent(START + at * day, "failed", ("a",)))
        assert claim_round(path, ("a", "b"), START + at * day, 7.0) == ((), START + 7 * day)
    assert claim_round(path, ("a",), START + 7 * day, 7.0) == (("a",), None)
    assert claim_round(path, ("b",), START, 7.0) == ((), START + 14 * day), "the clock was put back"


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
