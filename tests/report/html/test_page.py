import re

from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.report.html.page import (
    Bar,
    ExampleSet,
    against_nominal,
    counted,
    distinct,
    number,
    threshold_range,
    verdict_rule,
)


def test_an_interval_that_holds_the_nominal_coverage_is_no_sign():
    assert against_nominal(0.85, 0.95, 0.9)[0] == "good"
    assert against_nominal(0.9, 0.95, 0.9)[0] == "good"
    assert against_nominal(0.91, 0.95, 0.9)[0] == "caution"
    assert against_nominal(0.8, 0.89, 0.9)[0] == "bad"


def test_a_wide_interval_is_no_green_tick():
    assert against_nominal(0.84, 0.97, 0.9) == ("plain", "too few cases to tell")
    assert against_nominal(0.92, 0.97, 0.95) == ("plain", "too few cases to tell")
    assert against_nominal(0.93, 0.97, 0.95)[0] == "good"


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([0.9, 0.95, 0.8]))
def test_the_page_says_the_rule_that_it_follows(low, high, nominal):
    low, high = sorted((low, high))
    rule = verdict_rule(nominal)
    (asked, least) = map(float, re.findall(r"below (?:or above )?([\d.]+\d)", rule)[-2:])
    said = "below nominal" if high < asked else "above nominal" if low > asked else None
    said = said or ("too few cases to tell" if low < least - 1e-9 else "on target")
    assert against_nominal(low, high, nominal)[1] == said
    assert said in rule or said.split()[0] in rule


def test_sets_that_methods_share_are_drawn_once():
    drawn = [
        ExampleSet(("a",), [("0", False)]),
        ExampleSet(("b",), [("1", True)]),
        ExampleSet(("c",), [("0", False)]),
    ]
    assert distinct(drawn) == [
        ExampleSet(("a", "c"), [("0", False)]),
        ExampleSet(("b",), [("1", True)]),
    ]
    assert [one.covered for one in distinct(drawn)] == [False, True]


def test_numbers_are_short():
    assert [number(x) for x in (0.12345, 12.0, 1234.6, float("-inf"))] == [
        "0.123",
        "12",
        "1,235",
        "-infinite",
    ]
    assert threshold_range((0.25, 0.75), "group") == "0.25 to 0.75, by group"
    assert threshold_range((0.25, 0.75), None) == "0.25 to 0.75"
    assert [counted(n, "agent") for n in (1, 2)] == ["1 agent", "2 agents"]


def test_a_bar_is_placed_between_its_start_and_one():
    bar = Bar(0.5, 0.75, 1.0, 0.9, start=0.5)
    assert [bar.at(x) for x in (0.5, 0.75, 1.0, 0.2)] == [0, 50, 100, 0]
