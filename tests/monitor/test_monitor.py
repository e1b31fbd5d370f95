"""The monitor: shares of the false-alarm rate, classes, batches, recalibration."""

from __future__ import annotations

from math import exp, fsum

import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp.monitor import Monitor, MonitorTerms, read_batches
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
    assert "class 1: ALARM" in str(drop)
    assert "recalibrate" in str(drop)
    whole, *classes = watch.standings("st-mary")
    assert whole.n == 600 == sum(each.n for each in classes)


def test_a_drop_after_a_long_good_time_is_found_though_the_mean_is_fine():
    watch = monitor(alpha=0.05)
    rng = np.random.default_rng(2)
    watch.update("north", rng.uniform(size=20_000) < 0.96)
    (found,) = watch.update("north", rng.uniform(size=400) < 0.75)
    assert found.coverage > 0.95
    assert found.status == "alarm"
    assert 20_000 < found.alarm <= 20_200
    assert abs(found.before - 20_000) < 30
    assert found.current == pytest.approx(0.75, abs=0.06)


def test_a_new_calibration_starts_anew_and_keeps_the_names_of_batches():
    watch = monitor()
    watch.update("north", [0] * 30, batch="monday")
    assert watch.alarms
    watch.recalibrated("north")
    assert not watch.alarms
    (found,) = watch.standings("north")
    assert (found.n, found.calibration, found.status) == (0, 2, "no rows")
    with pytest.raises(InputError, match="already added"):
        watch.update("north", [1], batch="monday")


def test_a_batch_is_taken_in_once_for_each_agent():
    watch = monitor()
    watch.update("north", [1, 0], batch="monday")
    with pytest.raises(InputError):
        watch.update("north", [1, 0], batch="monday")
    watch.update("st-mary", [1], batch="monday")
    watch.update("north", [1, 0])
    watch.update("north", [1, 0])  # without a name nothing is compared
    assert watch.standings("north")[0].n == 6
    assert watch.updates == 4


def test_remembered_names_are_bounded_and_not_kept_in_words(monkeypatch):
    watch = monitor()
    monkeypatch.setattr("fedwqcp.monitor.monitor.REMEMBERED", 10)
    for day in range(15):
        watch.update("north", [1], batch=f"patients of day {day}")
    kept = watch.sites["north"].batches
    assert len(set(kept)) == 10
    assert not any("patient" in digest for digest in kept)


def test_counts_by_class_are_one_step_of_all_rows():
    by_class, at_once = monitor(n_classes=3), monitor(n_classes=3)
    by_class.update_counts("north", [40, 0, 60], [39, 0, 41], classes=[0, 1, 2])
    at_once.update_counts("north", 100, 80)
    assert by_class.sites["north"].rows == at_once.sites["north"].rows
    assert [each.n for each in by_class.standings("north")] == [100, 40, 0, 60]


def test_no_rows_change_no_track():
    watch = monitor(n_classes=2)
    before = watch.sites["north"]
    watch.update("north", [], [])
    assert watch.sites["north"] == before


def test_a_batch_shows_its_size_alone():
    batch = read_batches(b"covered,label\n1,2\n0,1\n", "a")["a"]
    assert repr(batch) == "CoverageBatch(n=2)"


def test_tolerance_moves_the_floor():
    strict, lenient = monitor(), monitor(tolerance=0.05)
    covered = [1, 1, 1, 1, 1, 1, 0] * 300  # 0.857
    (found,) = strict.update("north", covered)
    (other,) = lenient.update("north", covered)
    assert found.status == "alarm"
    assert found.floor == pytest.approx(0.9)
    assert other.status == "ok"
    assert other.floor == pytest.approx(0.85)


def test_a_large_alpha_is_monitored_where_it_is_meant():
    assert monitor(alpha=0.9, allow_large_alpha=True).terms.limit() == 0.9


def test_labels_counted_from_1_are_refused_where_classes_are_monitored():
    watch = monitor(n_classes=3)
    with pytest.raises(InputError):
        watch.update(AGENTS[0], [1, 0, 1], [1, 2, 3])
    with raises(InputError, row=1):  # its first row is row 1
        watch.update(AGENTS[0], [1, 0], [0, 3])


def test_class_alpha_is_one_number_or_one_for_each():
    assert monitor(n_classes=2, class_alpha=0.2).terms.limit(1) == 0.2
    each = monitor(n_classes=2, class_alpha=(0.2, 0.3), tolerance=0.01).terms
    assert [each.limit(label) for label in (None, 0, 1)] == pytest.approx([0.11, 0.21, 0.31])


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"alpha": 5}, "for 95 % coverage write 0.05"),
        ({"alpha": 0.9}, "must be at most 0.5, got 0.9 .*for 90 % coverage write 0.1"),
        ({"n_classes": 2, "class_alpha": (0.1, 0.9)}, "must be at most 0.5, got 0.9"),
        ({"agents": ()}, "agent"),
        ({"agents": "north"}, "tuple of names"),
        ({"agents": ("a", "a")}, "once"),
        ({"delta": 0.0}, "delta"),
        ({"delta": "x"}, "delta"),
        ({"tolerance": "x"}, "tolerance"),
        ({"tolerance": -0.1}, "tolerance"),
        ({"tolerance": 0.9}, "below 1"),
        ({"n_classes": 1}, "n_classes"),
        ({"n_classes": True}, "n_classes"),
        ({"class_alpha": 0.1}, "needs n_classes"),
        ({"n_classes": 3, "class_alpha": (0.1, 0.2)}, "one number or 3"),
        ({"n_classes": 2, "class_alpha": 1.5}, "alpha"),
    ],
)
def test_terms_that_cannot_be_are_refused(terms, says):
    with pytest.raises(InputError, match=says):
        monitor(**terms)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda m: m.update("nobody", [1]), "not monitored"),
        (lambda m: m.update("north", [1, 2]), "covered must be from 0 to 1"),
        (lambda m: m.update("north", [0.5]), "whole numbers"),
        (lambda m: m.update("north", [float("nan")]), "whole numbers"),
        (lambda m: m.update("north", [[1], [0]]), "flat"),
        (lambda m: m.update("north", ["yes"]), "whole numbers"),
        (lambda m: m.update("north", [[1], [0, 1]]), "whole numbers"),
        (lambda m: m.update("north", [1, 1], [0]), "one for each of the 2 rows"),
        (lambda m: m.update("north", [1, 1], [0, 9]), "from 0 to 2"),
        (lambda m: m.update("north", [1], [-1]), "at least 0"),
        (lambda m: m.update("north", [1], [0], batch=46), "batch must be a name"),
        (lambda m: m.update_counts("north", 2**60, 1), "n must be from 0 to"),
        (lambda m: m.update_counts("north", 3, 4), "at most n"),
        (lambda m: m.update_counts("north", [3, 3], [1]), "one length"),
        (lambda m: m.update_counts("north", [3, 3], [1, 2], [0]), "one for each of the 2 counts"),
        (lambda m: m.recalibrated("nobody"), "not monitored"),
    ],
)
def test_a_refused_update_changes_nothing(call, says):
    watch = monitor(n_classes=3)
    watch.update("north", [1, 0, 1], [0, 1, 2])
    before = (watch.updates, dict(watch.sites))
    with pytest.raises(InputError, match=says):
        call(watch)
    assert (watch.updates, dict(watch.sites)) == before


@pytest.mark.slow
def test_false_alarms_of_a_whole_federation_stay_below_delta():
    rng = np.random.default_rng(3)
    alarmed = 0
    for _ in range(200):
        watch = monitor(n_classes=2, delta=0.2)
        for agent in AGENTS:
            watch.update(agent, rng.uniform(size=600) < 0.9, rng.integers(2, size=600))
        alarmed += bool(watch.alarms)
    assert alarmed / 200 <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / 200)
