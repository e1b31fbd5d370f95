"""The demo's settings of a method follow from its data."""

from types import SimpleNamespace

import pytest

import fedwqcp as fw
from fedwqcp import methods
from fedwqcp.bench.aimed import EPSILON, RANGE, aimed, left_out


def problem(task, law=None):
    return SimpleNamespace(task=task, label_law=law)


def test_methods_that_correct_a_shift_are_aimed_at_the_test_data():
    assert aimed("cphet", problem("regression")).target == "mixture"
    assert aimed("dp-fedcp", problem("classification", (0.5, 0.5))).target == (0.5, 0.5)
    assert aimed("fedwq-cp", problem("regression")) == methods.get("fedwq-cp")


@pytest.mark.parametrize(
    ("task", "bounds"), [("classification", None), ("regression", (0.0, RANGE))]
)
def test_a_private_threshold_takes_the_range_that_the_formula_gives(task, bounds):
    found = aimed("private-fedwq-cp", problem(task))
    assert (found.epsilon, found.overflow, found.bounds) == (EPSILON, "exclude", bounds)


def test_agents_with_too_few_points_are_left_out_where_the_rule_says_so():
    scores = {"few": [0.5] * 3, "many": [k / 100 for k in range(100)]}
    for overflow, out in (("exclude", {"few"}), ("clip", set()), ("propagate", set())):
        method = methods.get("fedwq-cp", overflow=overflow)
        assert left_out(fw.calibrate(scores, method=method, alpha=0.1)) == out
