"""States survive restarts, stay small, and are read strictly."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError, RecordError
from fedwqcp.monitor import Monitor, MonitorTerms, changing, load_monitor, save_monitor


def monitor():
    """Return a monitor with some rows."""
    watch = Monitor(MonitorTerms(0.1, ("a", "b"), 2, 0.2, 0.04))
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

    rows = ("sites", "a", "tests", 0)
    return [
        put("terms", "alpha", value=2),
        put("terms", "unknown", value=1),
        put("sites", "a", "inputs", "test", "wealth", value=[0.0] * 7),
        put("sites", "a", "inputs", "cells", value={"x": 1}),
        put("sites", "a", "inputs", "cells", value={"1.0": -1}),
        put("sites", "a", "tolerances", 0, value=0.95),
        put("sites", "a", "inputs", "seed", value=-1),
        put("sites", value={}),
        put("sites", value=[]),
        put("sites", "a", "tests", value=[]),
        put("sites", "a", "batches", value=3),
        put(*rows, "n", value=3.5),
        put("terms", "delta", value=1e-320),
        put(*rows, "hits", value=10**6),
        put(*rows, "runs", value=[0.0]),
        put(*rows, "runs", 0, value=float("nan")),
        put(*rows, "run_hits", 0, value=10**6),
        put(*rows, "wealth", value=None),
        put(*rows, "wealth", 0, value=float("nan")),
        put(*rows, "n", value=2**52),
        put(*rows, "evidence", value=10**400),
        put(*rows, "alarm", value="now"),
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
