"""The commands of the monitor."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import fedwqcp as fw
from command_line import call
from fedwqcp.errors import InputError
from fedwqcp.monitor import calibration_slack


def monitor(*words, code=0, stdin=None):
    """Run a command of the monitor."""
    return call("monitor", *words, code=code, stdin=stdin)


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monitor("open", "m.json", "--agent", "a", "--agent", "b", "--alpha", 0.1, "--classes", 2)
    return tmp_path / "m.json"


def streams(state, *words):
    """Return the streams of ``show --json`` by agent and class."""
    found = json.loads(monitor("show", state, "--json", *words))["streams"]
    return {(one["agent"], one["label"]): one for one in found}


GOOD = "covered,label\n" + "1,0\n1,1\n" * 50


def test_a_drop_is_told_by_batch_and_ends_with_a_calibration(state):
    bad = "covered,label\n" + "1,0\n0,1\n" * 30
    words = ("update", state, "-", "--agent", "a", "--check")
    lines = monitor(*words, "--batch", "week-1", stdin=GOOD).splitlines()
    assert len(lines) <= 5
    lines = monitor(*words, "--batch", "week-2", code=5, stdin=bad).splitlines()
    assert len(lines) <= 5
    assert "week-2" in lines[2]
    found = streams(state)
    assert [key for key, one in found.items() if one["state"] == "alarm"] == [("a", None), ("a", 1)]
    assert found["b", None]["state"] == "too few"
    assert "week-2" in monitor("show", state, "--agent", "a")
    monitor("show", state, "--check", code=5)
    monitor("recalibrated", state, "--agent", "a", "--calibrated-on", 600)
    assert streams(state)["a", None]["floor"] < 0.89
    assert json.loads(monitor("show", state, "--check", "--json"))["alarms"] == 0


def test_a_predictor_by_group_has_its_groups_watched_and_reported(tmp_path, monkeypatch):
    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    groups = {"sex": ["f", "m"] * 30, "age": ["old", "", ""] * 20}
    cal = fw.Outputs(np.tile([0.7, 0.3], (60, 1)), [0] * 60, groups=groups)
    own = fw.calibrate({"a": cal, "b": cal}, alpha=0.1, score="lac", by="group").predictor("a")
    own.save("own.json")
    monitor("open", "m.json", "--predictor", "own.json")
    rows = "covered,group:sex,group:age\n" + "1,m,\n1,m,old\n0,f,\n1,f,old\n" * 40
    monitor("update", "m.json", "-", "--agent", "a", "--check", code=5, stdin=rows)
    found = streams("m.json")
    assert {key[1]: one["n"] for key, one in found.items()} == {
        None: 160, "age=old": 80, "sex=f": 80, "sex=m": 80
    }  # fmt: skip
    assert found["a", "sex=f"]["state"] == "alarm"
    assert found["a", "sex=m"]["state"] == "ok"
    with pytest.raises(InputError):
        monitor("update", "m.json", "-", "--agent", "a", stdin="covered\n1\n")
    call("report", "m.json", "--out", "m.html")
    assert "sex=f</" in Path("m.html").read_text()


def test_a_predictor_knows_how_many_points_calibrated_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for n in (60, 300):
        cal = fw.Outputs(np.tile([0.7, 0.3], (n, 1)), [0] * n)
        fw.calibrate({"a": cal}, alpha=0.1, score="lac").predictor("a").save(f"{n}.json")
    monitor("open", "by-hand.json", "--agent", "a", "--alpha", 0.1, "--calibrated-on", 60)
    monitor("open", "m.json", "--predictor", "60.json")
    floor = streams("m.json")["a", None]["floor"]
    assert floor == streams("by-hand.json")["a", None]["floor"] < 0.9
    monitor("update", "m.json", "-", "--check", code=5, stdin="covered\n" + "0\n" * 60)
    replace(fw.load("300.json"), agent="b").save("b.json")
    for nothing_new in (
        [],
        ["--predictor", "60.json"],
        ["--agent", "a", "--predictor", "60.json"],
        ["--agent", "a", "--predictor", "b.json"],  # whose rows are not watched
    ):
        with pytest.raises(InputError):
            monitor("recalibrated", "m.json", *nothing_new)
    assert streams("m.json")["a", None]["state"] == "alarm"
    monitor("recalibrated", "m.json", "--predictor", "300.json")
    with pytest.raises(InputError):  # of two classes
        monitor("update", "m.json", "-", stdin="covered,label\n1,1\n1,2\n")
    (found,) = streams("m.json", "--check").values()
    assert (found["n"], found["floor"] > floor) == (0, True)
    fw.calibrate({"a": cal}, alpha=0.2, score="lac").predictor("a").save("other.json")
    with pytest.raises(InputError):
        monitor("recalibrated", "m.json", "--predictor", "other.json")


def test_a_predictor_of_no_agent_is_of_the_one_that_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cal = fw.Outputs(np.tile([0.7, 0.3], (60, 1)), [0] * 60)
    own = fw.calibrate({"a": cal}, alpha=0.1, score="lac").predictor("a")
    replace(own, agent=None).save("new.json")
    words = ("--agent", "new-clinic", "--predictor", "new.json")
    monitor("open", "m.json", *words)
    assert streams("m.json")["new-clinic", None]["floor"] < 0.9
    with pytest.raises(InputError):
        monitor("recalibrated", "m.json", *words)


def test_a_class_of_few_points_has_a_tolerance_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cal = fw.Outputs(np.tile([0.7, 0.3], (230, 1)), [0] * 200 + [1] * 30)
    release = fw.calibrate({"a": cal}, alpha=0.1, score="lac", by="label")
    release.predictor("a", cal).save("a.json")
    assert fw.load("a.json").calibrated_on == (230, 200, 30)
    monitor("open", "m.json", "--predictor", "a.json")
    floors = [one["floor"] for one in streams("m.json").values()]
    slacks = [calibration_slack(n, 0.1, agents=3) for n in (230, 200, 30)]
    assert floors == pytest.approx([0.9 - slack for slack in slacks])


def test_of_several_agents_one_is_named_and_all_are_one_table(state):
    with pytest.raises(InputError):
        monitor("inputs", state, "-", stdin="size\n1\n")
    with pytest.raises(InputError):
        monitor("update", state, "-", stdin="covered\n1\n")
    rows = "agent,covered\n" + "a,1\nb,0\n" * 50
    first, gravest, other, *_ = monitor("update", state, "-", stdin=rows).splitlines()
    assert [line.split()[0] for line in (first, gravest, other)] == ["agent", "b", "a"]
    assert max(map(len, (first, gravest, other))) <= 80


def test_the_classes_of_a_predictor_keep_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cal = fw.Outputs(np.tile([0.7, 0.3], (60, 1)), [0] * 60)
    terms = {"alpha": 0.1, "score": "lac", "classes": ("nevus", "wart")}
    fw.calibrate({"a": cal, "b": cal}, **terms).predictor("a").save("shared.json")
    monitor("open", "shared-m.json", "--predictor", "shared.json")  # promises nothing by class
    assert list(streams("shared-m.json")) == [("a", None)]
    release = fw.calibrate({"a": cal, "b": cal}, **terms, by="label")
    for agent in "ab":
        release.predictor(agent).save(f"{agent}.json")
    monitor("open", "m.json", "--predictor", "a.json", "--predictor", "b.json")
    assert {key: one["name"] for key, one in streams("m.json").items()} == {
        (agent, label): name
        for agent in "ab"
        for label, name in ((None, ""), (0, "nevus"), (1, "wart"))
    }


def test_predictors_of_other_classes_or_levels_take_a_monitor_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cal = fw.Outputs(np.tile([0.7, 0.3], (60, 1)), [0] * 60)
    for alpha, classes in ((0.1, ("nevus", "wart")), (0.1, ("wart", "nevus")), (0.2, None)):
        release = fw.calibrate({"a": cal, "b": cal}, alpha=alpha, score="lac", classes=classes)
        release.predictor("a").save(f"{alpha}-{classes and classes[0]}.json")
    for other in ("0.1-wart.json", "0.2-None.json"):
        with pytest.raises(InputError):
            monitor("open", "m.json", "--predictor", "0.1-nevus.json", "--predictor", other)


def test_inputs_that_change_exit_with_the_code_of_an_alarm(state):
    words = ("inputs", state, "-", "--agent", "a")
    same = "size\n" + "1\n2\n1\n" * 60
    monitor(*words, "--baseline", stdin=same)
    assert "inputs ok" in monitor(*words, "--check", "--batch", "week-1", stdin=same)
    facts = json.loads(
        monitor(
            *words, "--check", "--json", "--batch", "week-2", code=5, stdin="size\n" + "3\n" * 40
        )
    )
    assert (facts["alarms"], facts["input_alarms"]) == (0, 1)
    assert facts["streams"][0]["inputs_since"] == "week-2"
    monitor("show", state, "--openmetrics", "--check", code=5)
    assert Path(state).stat().st_mode & 0o777 == 0o600


def test_gauges_follow_the_streams_and_tell_nothing_of_fewer_than_ten(state):
    monitor(
        "update", state, "-", "--agent", "a", stdin="covered,label\n" + "1,0\n" * 95 + "0,1\n" * 5
    )
    families = text_string_to_metric_families(monitor("show", state, "--openmetrics"))
    found = {
        (one.name, one.labels["agent"], one.labels["class"]): one.value
        for family in families
        for one in family.samples
    }
    assert found["fedwqcp_coverage", "a", ""] == pytest.approx(0.95)
    assert found["fedwqcp_coverage", "a", "0"] == 1
    assert ("fedwqcp_coverage", "a", "1") not in found
    assert ("fedwqcp_rows", "a", "1") not in found
    assert found["fedwqcp_alarm", "b", ""] == 0


def test_labels_that_come_late_are_said_of_their_own_batch(state):
    for week in ("week-1", "week-2"):
        said = monitor("inputs", state, "-", "--agent", "a", "--batch", week, stdin="size\n1\n2\n")
        assert week in said
    said = monitor("update", state, "-", "--agent", "a", "--batch", "week-1", stdin=GOOD)
    assert "week-1" in said
    assert "week-2" not in said


def test_a_repeated_batch_is_refused_whole(state, tmp_path):
    (tmp_path / "rows.csv").write_text("agent,covered\na,1\nb,0\n")
    monitor("update", state, "rows.csv", "--batch", "monday")
    before = state.read_bytes()
    with pytest.raises(InputError):
        monitor("update", state, "rows.csv", "--batch", "monday")
    assert state.read_bytes() == before
    with pytest.raises(InputError):
        monitor("open", state, "--agent", "a", "--alpha", 0.1)


def test_an_alarm_stands_whoever_brings_rows(state, tmp_path):
    (tmp_path / "bad.csv").write_text("covered\n" + "0\n" * 60)
    (tmp_path / "good.csv").write_text("covered\n" + "1\n" * 60)
    (tmp_path / "none.csv").write_text("covered\n")
    monitor("update", state, "bad.csv", "--agent", "a")
    for rows in ("good.csv", "none.csv"):
        facts = monitor("update", state, rows, "--agent", "b", "--check", "--json", code=5)
        alarmed = [s["agent"] for s in json.loads(facts)["streams"] if s["state"] == "alarm"]
        assert alarmed == ["a"]
    monitor("recalibrated", state, "--agent", "a")
    monitor("update", state, "none.csv", "--agent", "b", "--check")
    for batch in ([], ["--batch", "batch 1"]):  # no rows, of no batch
        said = monitor("update", state, "-", "--agent", "a", *batch, stdin="n,hits\n0,0\n")
        assert "batch 1" not in said


def test_a_batch_has_one_interval_in_all_commands(state):
    words = ("update", state, "-", "--agent", "a")
    monitor(*words, "--batch", "week-1", stdin=GOOD)
    said = monitor(*words, "--batch", "week-2", stdin=GOOD + "0,0\n" * 4)
    table = monitor("show", state, "--agent", "a").splitlines()
    (row,) = (line.split() for line in table if line.startswith("week-2"))
    assert row[2] in said
    assert " ".join(row[3:6]) in said
