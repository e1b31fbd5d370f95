"""The demo's settings of a method follow from its data."""

from types import SimpleNamespace

import pytest

from fedwqcp import methods
from fedwqcp.demo.aimed import EPSILON, RANGE, aimed


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
