import pytest

from fedwqcp.report.html.page import (
    Bar,
    against_nominal,
    counted,
    number,
    threshold_range,
    verdict_rule,
)


@pytest.mark.parametrize(
    ("low", "high", "nominal", "judged"),
    [
        (0.85, 0.95, 0.9, ("good", "on target")),
        (0.91, 0.95, 0.9, ("caution", "above nominal")),
        (0.7, 0.89, 0.9, ("bad", "too low")),
        (0.85, 0.89, 0.9, ("caution", "watch")),
        (0.84, 0.97, 0.9, ("plain", "too few cases to tell")),
        (0.92, 0.97, 0.95, ("plain", "too few cases to tell")),
        (0.93, 0.97, 0.95, ("good", "on target")),
    ],
)
def test_coverages_are_judged(low, high, nominal, judged):
    assert against_nominal(low, (low + high) / 2, high, nominal, 0.82) == judged
    assert judged[1] in verdict_rule(nominal).lower()


def test_numbers_are_short():
    assert [number(x) for x in (0.12345, 12.0, 1234.6, float("-inf"))] == [
        "0.123",
        "12",
        "1,235",
        "-infinite",
    ]
    assert "0.25" in threshold_range((0.25, 0.75), "group")
    assert "0.75" in threshold_range((0.25, 0.75), "group")
    assert threshold_range((0.25, 0.75), None) == "0.25 to 0.75"
    assert [counted(n, "agent") for n in (1, 2)] == ["1 agent", "2 agents"]


def test_a_bar_is_placed_between_its_start_and_one():
    bar = Bar(0.5, 0.75, 1.0, 0.9, start=0.5)
    assert [bar.at(x) for x in (0.5, 0.75, 1.0, 0.2)] == [0, 50, 100, 0]
