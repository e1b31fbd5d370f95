"""Rounds within one process: worked numbers, several levels, and clear errors."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError

A = np.arange(1, 11) / 10
B = [0.05, 0.15, 0.25, 0.35, 0.45]
C = np.arange(1, 21) / 50


def test_the_example_of_the_specification():
    release = fw.calibrate({"A": A, "B": B, "C": C}, method="fedwq-cp", alpha=0.2)
    assert release.threshold("A") == pytest.approx(18.05 / 35, abs=1e-15)
    assert str(release.guarantee) == "none"
    assert release.rounds == 1
    assert 0 < release.bytes_up("B") < 300
    assert release.refused == {}


def test_several_levels_in_one_call():
    release = fw.calibrate({"A": A, "B": B, "C": C}, alpha=(0.1, 0.2))
    assert release.threshold("A", 0.1) == inf
    assert release.threshold("A", 0.2) == pytest.approx(18.05 / 35)
    assert release.rounds == 1


def test_nothing_is_sent_for_split_cp():
    release = fw.calibrate({"A": A, "B": B, "C": C}, method="split-cp", alpha=0.2)
    assert [release.threshold(name) for name in "ABC"] == [0.9, 0.45, 0.34]
    assert (release.rounds, release.bytes_up("A"), release.bytes_down("A")) == (0, 0, 0)


def test_an_empty_agent_has_no_weight():
    release = fw.calibrate({"A": A, "B": [], "C": C}, alpha=0.2)
    assert release.threshold("B") == pytest.approx((9 + 6.8) / 30)
    assert fw.calibrate({"A": [], "B": []}, alpha=0.2).threshold("A") == inf


def test_the_inputs_are_not_changed():
    scores = np.array([0.3, 0.1, 0.2])
    fw.calibrate({"A": scores}, alpha=0.5)
    np.testing.assert_array_equal(scores, [0.3, 0.1, 0.2])


@pytest.mark.parametrize(
    ("agents", "options", "says"),
    [
        ({}, {}, "at least one"),
        ({"a b": [0.1]}, {}, "letters, digits"),
        ({"a": [0.1, np.nan]}, {}, "row 1 is NaN"),
        ({"a": [[[0.1]]]}, {}, "shape"),
        ({"a": ["x"]}, {}, "array of numbers"),
        ({"a": [0.1]}, {"alpha": 5}, r"for 5 % miscoverage write 0.05"),
        ({"a": [0.1]}, {"alpha": ()}, "at least one"),
        ({"a": [0.1]}, {"method": "fedwqcp"}, r"unknown method 'fedwqcp'; known: .*fedwq-cp"),
        ({"a": [0.1]}, {"score": "lacc"}, "unknown score"),
        ({"a": [1.5]}, {"score": "lac"}, "scores must lie between 0 and 1"),
        ({"a": [0.1]}, {"rule": "top5"}, "rule must be one of"),
        ({"a": [0.1], "b": [[0.1, 0.2]]}, {}, "column"),
    ],
)
def test_bad_input_is_refused(agents, options, says):
    with pytest.raises(InputError, match=says):
        fw.calibrate(agents, **{"alpha": 0.1, **options})


def test_agents_must_agree_on_the_number_of_classes():
    one = fw.Calibration([0.1], labels=[0], n_classes=2)
    other = fw.Calibration([0.1], labels=[0], n_classes=3)
    with pytest.raises(InputError, match=r"the same for all agents, got \[2, 3\]"):
        fw.calibrate({"a": one, "b": other}, alpha=0.1)


def test_the_number_of_classes_is_found_from_all_labels():
    one = fw.Calibration([0.1], labels=[0])
    other = fw.Calibration([0.1], labels=[4])
    release = fw.calibrate({"a": one, "b": other}, alpha=0.5)
    assert release.round.n_classes == 5


def test_a_registered_method_of_ones_own_class_is_needed():
    class Mine(type(fw.methods.get("fedwq-cp"))):
        pass

    with pytest.raises(InputError, match="Mine is not registered"):
        fw.calibrate({"a": [0.1]}, alpha=0.1, method=Mine())


@pytest.mark.parametrize(
    "alpha", ["0.1", b"0.1", None, 1j, {0.1}, [0.1, "x"], 10**400, float("nan"), True]
)
def test_a_level_that_is_no_level_is_refused(alpha):
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        fw.calibrate({"a": [0.1]}, alpha=alpha)


def test_levels_may_come_as_an_array():
    release = fw.calibrate({"A": A}, alpha=np.array([0.2, 0.4]))
    assert release.threshold("A", 0.2) == 0.9


@pytest.mark.parametrize(
    "scores", [[[0.1], [0.1, 0.2]], np.ma.masked_array([0.1], [True]), np.empty((3, 0)), [1j]]
)
def test_scores_that_are_no_scores_are_refused(scores):
    with pytest.raises(InputError, match="scores must"):
        fw.calibrate({"a": scores}, alpha=0.1)


@pytest.mark.parametrize("agents", [None, [[0.1, 0.2]], 3])
def test_agents_must_have_names(agents):
    with pytest.raises(InputError, match="agents must map names to scores"):
        fw.calibrate(agents, alpha=0.1)
