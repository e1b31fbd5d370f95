"""The monitor: shares of the false-alarm rate, classes, batches, recalibration."""

from __future__ import annotations

from math import exp, fsum

import numpy as np
import pytest
from scipy.stats import binom

from fedwqcp.errors import InputError
from fedwqcp.monitor import (
    Monitor,
    MonitorTerms,
    calibration_slack,
    load_monitor,
    save_monitor,
)
from fedwqcp.monitor.reading import batch_of_counts
from refusals import raises

AGENTS = ("st-mary", "lakeside", "north")


def monitor(**terms):
    """Return a monitor of three agents."""
    return Monitor(MonitorTerms(**{"alpha": 0.1, "agents": AGENTS, **terms}))


@pytest.mark.parametrize("n_classes", [0, 2, 7])
def test_the_shares_of_all_streams_sum_to_delta(n_classes):
    watch = monitor(n_classes=n_classes, delta=0.08)
    standings = watch.standings()
    assert len(standings) == 3 * (1 + n_classes)
    assert fsum(exp(-each.bar) for each in standings) == pytest.approx(0.08)


def test_it_tells_which_agent_and_which_class():
    watch = monitor(n_classes=2)
    rng = np.random.default_rng(1)
    labels = rng.integers(2, size=600)
    good = rng.uniform(size=600) < 0.93
    watch.update("lakeside", good, labels)
    watch.update("st-mary", good & ((labels == 0) | (rng.uniform(size=600) < 0.5)), labels)
    assert [(each.agent, each.label) for each in watch.alarms] == [
        ("st-mary", None),
        ("st-mary", 1),
    ]
    (drop,) = [each for each in watch.alarms if each.label == 1]
    assert drop.current == pytest.approx(0.47, abs=0.1)
    whole, *classes = watch.standings("st-mary")
    assert whole.n == 600 == sum(each.n for each in classes)


def test_it_tells_which_of_several_overlapping_groups(tmp_path):
    names = ("old", "sex=f", "others")
    watch, rng = monitor(groups=names), np.random.default_rng(1)
    old, female = rng.uniform(size=(2, 600)) < 0.5
    covered = rng.uniform(size=600) < np.where(old, 0.6, 0.95)
    rows = [
        {name for name, own in zip(names[:2], pair, strict=True) if own}
        for pair in zip(old, female, strict=True)
    ]
    watch.update("north", covered, groups=rows, batch="week 1")
    found = {each.label: each for each in watch.standings("north")}
    assert [found[name].n for name in names] == [old.sum(), female.sum(), rows.count(set())]
    assert {each.label for each in watch.alarms} >= {None, "old"}
    assert fsum(exp(-each.bar) for each in watch.standings()) == pytest.approx(0.05)
    save_monitor(watch, tmp_path / "m.json")
    assert load_monitor(tmp_path / "m.json").standings() == watch.standings()
    before = dict(watch.sites)
    for wrong in (None, [{"young"}] * 600, [{"old"}]):
        with raises(InputError, field="groups") if wrong is None else raises(InputError):
            watch.update("north", covered, groups=wrong)
    assert watch.sites == before


def test_each_class_alarms_below_its_own_limit():
    watch = Monitor(MonitorTerms(0.1, ("a",), 2), {"a": (2000, 2000, 20)})
    _, exact, tolerant = (one.floor for one in watch.standings())
    assert tolerant < 0.76 < exact - 0.05
    covered = [1, 1, 1, 0] * 150  # 0.75 in each class
    watch.update("a", np.repeat(covered, 2), [0, 1] * 600)
    assert [one.label for one in watch.alarms] == [None, 0]


def test_classes_at_their_limits_alarm_at_most_as_seldom_as_promised():
    terms = MonitorTerms(0.1, ("a",), 3, delta=0.8)
    points, rng, alarms = {"a": (500, 300, 100, 30)}, np.random.default_rng(3), [0, 0, 0]
    for _ in range(200):
        watch = Monitor(terms, points)
        limits = np.array([one.floor for one in watch.standings()[1:]])
        labels = rng.integers(3, size=600)
        found = watch.update("a", rng.uniform(size=600) < limits[labels], labels)
        for one in found[1:]:
            alarms[one.label] += one.state == "alarm"
    most = binom(200, 0.8 / 2 / 3).ppf(0.999)
    assert 0 < max(alarms) <= most


def test_a_label_beyond_the_classes_is_refused_where_none_is_watched():
    watch = monitor(n_labels=3)
    watch.update("north", [1, 1, 1], [0, 1, 2])
    before = dict(watch.sites)
    for labels in ([0, 3], [1, 3]):
        with raises(InputError, field="labels"):
            watch.update("north", [1, 1], labels)
    assert watch.sites == before


def test_the_threshold_that_is_watched_is_no_new_calibration():
    watch = Monitor(MonitorTerms(0.1, AGENTS), rounds={"north": "r1"})
    watch.update("north", [0] * 30)
    with raises(InputError):
        watch.recalibrated("north", of_round="r1")
    assert watch.alarms
    watch.recalibrated("north", of_round="r2")
    watch.recalibrated("north", calibrated_on=600)  # by hand, of a round that is not known
    with raises(InputError):
        watch.recalibrated("north", of_round="r2")
    assert watch.standings("north")[0].calibration == 3


@pytest.mark.parametrize("points", [[100], 100, {"north": 10**400}, {"north": 2**60}])
def test_points_that_cannot_be_are_refused(points):
    with raises(InputError):
        Monitor(MonitorTerms(0.1, AGENTS), points)


def test_the_first_inputs_are_the_baseline_of_later_ones():
    watch = monitor()
    assert watch.update_inputs("north", [1] * 60 + [9] * 60, batch="w1").inputs == ""
    assert watch.update_inputs("north", [1] * 5, batch="w2").inputs == "ok"
    assert [one.inputs for one in watch.sites["north"].batches] == ["baseline", "ok"]


def test_a_drop_after_a_long_good_time_is_found_though_the_mean_is_fine():
    watch = monitor(alpha=0.05)
    rng = np.random.default_rng(2)
    watch.update("north", rng.uniform(size=20_000) < 0.96)
    (found,) = watch.update("north", rng.uniform(size=400) < 0.75)
    assert found.coverage > 0.95
    assert found.state == "alarm"
    assert 20_000 < found.alarm <= 20_200
    assert abs(found.n - found.since_n - 20_000) < 30
    assert found.current == pytest.approx(0.75, abs=0.06)


def test_a_new_calibration_starts_anew_and_keeps_the_batches():
    watch = monitor()
    watch.update("north", [0] * 30, batch="monday")
    watch.update_inputs("north", [1, 2], batch="tuesday")
    assert watch.alarms
    watch.recalibrated("north", calibrated_on=600)
    assert not watch.alarms
    (found,) = watch.standings("north")
    assert (found.n, found.calibration, found.state, found.inputs) == (0, 2, "too few", "")
    assert found.floor == pytest.approx(0.9 - calibration_slack(600, 0.1, agents=3))
    with raises(InputError):
        watch.update("north", [1], batch="monday")
    watch.update("north", [1], batch="tuesday")
    lines = [(one.name, one.calibration, one.n) for one in watch.sites["north"].batches]
    assert lines == [("monday", 1, 30), ("tuesday", 1, 0), ("tuesday", 2, 1)]


def test_a_batch_is_taken_in_once_for_each_agent_and_the_latest_are_kept(monkeypatch):
    watch = monitor()
    watch.update("north", [1, 0], batch="monday")
    with raises(InputError):
        watch.update("north", [1, 0], batch="monday")
    watch.update("st-mary", [1], batch="monday")
    watch.update("north", [1, 0])
    watch.update("north", [1, 0])  # without a name nothing is compared
    assert watch.standings("north")[0].n == 6
    monkeypatch.setattr("fedwqcp.monitor.monitor.REMEMBERED", 10)
    for day in range(15):
        watch.update("north", [1], batch=f"day {day}")
    assert [one.name for one in watch.sites["north"].batches][::9] == ["day 5", "day 14"]


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        ([(9, 9)], "too few"),  # nothing is told of fewer than ten
        ([(29, 29)], "too few"),  # without any miss the coverage might be 0.9
        ([(30, 30)], "ok"),
        ([(40, 40)] * 8 + [(30, 22)], "watch"),  # the last batch
        ([(40, 40)] * 8 + [(30, 22), (30, 30)], "ok"),
        ([(40, 40)] * 8 + [(9, 3)], "ok"),  # of fewer than ten rows nothing is told
        ([(100, 92)] * 10 + [(40, 33)] * 4, "watch"),  # the last four batches
        ([(100, 60)], "alarm"),
    ],
)
def test_states(rows, state):
    watch = monitor()
    for n, hits in rows:
        watch.absorb("north", batch_of_counts(n, hits))
    (found,) = watch.standings("north")
    assert found.state == state == watch.sites["north"].batches[-1].state


def test_a_class_whose_whole_interval_lies_below_the_limit_is_watched():
    watch = monitor(n_classes=7)
    whole, *_, last = watch.update("north", [1] * 300 + [0, 1] * 8, [0] * 300 + [6] * 16)
    assert (whole.state, last.state) == ("ok", "watch")


@pytest.mark.parametrize(
    "terms",
    [
        {"alpha": 5},
        {"alpha": 0.9},
        {"agents": ()},
        {"agents": "north"},
        {"agents": ("a", "a")},
        {"delta": 0.0},
        {"delta": "x"},
        {"n_classes": 1},
        {"n_classes": True},
        {"class_alpha": 0.1},
        {"n_classes": 3, "class_alpha": "x"},
        {"n_classes": 2, "class_alpha": 1.5},
        {"n_classes": 2, "groups": ("f", "m")},
        {"groups": ("f", "f")},
    ],
)
def test_terms_that_cannot_be_are_refused(terms):
    with raises(InputError):
        monitor(**terms)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.update("nobody", [1]),
        lambda m: m.update("north", [1, 2]),
        lambda m: m.update("north", [0.5]),
        lambda m: m.update("north", [float("nan")]),
        lambda m: m.update("north", [[1], [0]]),
        lambda m: m.update("north", ["yes"]),
        lambda m: m.update("north", [[1], [0, 1]]),
        lambda m: m.update("north", [1, 1], [0]),
        lambda m: m.update("north", [1, 1], [0, 9]),
        lambda m: m.update("north", [1], [-1]),
        lambda m: m.update("north", [1], [0], batch=46),
        lambda m: m.update("north", [1], [0], batch="two\nlines"),
        lambda m: m.update_inputs("north", [1, float("inf")]),
        lambda m: m.update_inputs("north", [[1, 2]]),
        lambda m: m.absorb("north", batch_of_counts(2**60, 1)),
        lambda m: m.absorb("north", batch_of_counts(3, 4)),
        lambda m: m.absorb("north", batch_of_counts([3, 3], [1])),
        lambda m: m.absorb("north", batch_of_counts([3, 3], [1, 2], [0])),
        lambda m: m.recalibrated("nobody"),
    ],
)
def test_a_refused_update_changes_nothing(call):
    watch = monitor(n_classes=3)
    watch.update("north", [1, 0, 1], [0, 1, 2])
    before = dict(watch.sites)
    with raises(InputError):
        call(watch)
    assert watch.sites == before
