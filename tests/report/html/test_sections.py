import pytest

from fedwqcp.report.html.sections import AgentCoverage, coverage_verdict


def measured(agent, coverage, low, high):
    return AgentCoverage("fcp", agent, coverage, low, high, "an interval", 2.0, (), 1, "none")


@pytest.mark.parametrize(
    ("found", "tone", "word"),
    [
        ([("a", 0.8, 0.7, 0.85), ("b", 0.9, 0.85, 0.95)], "bad", "Too low at 1 of 2 agents"),
        (
            [("a", 0.99, 0.95, 1.0), ("b", 0.9, 0.85, 0.95)],
            "plain",
            "Above nominal at 1 of 2 agents",
        ),
        ([("a", 0.88, 0.86, 0.93), ("b", 0.9, 0.85, 0.95)], "good", "On target"),
        (
            [("a", 0.88, 0.84, 0.93), ("b", 0.9, 0.85, 0.95)],
            "plain",
            "Too few cases to tell at 1 of 2 agents",
        ),
        ([("a", 0.88, 0.7, 0.93)], "plain", "Too few cases to tell"),
        ([("a", 0.8, 0.7, 0.85)], "bad", "Below nominal"),
    ],
)
def test_a_verdict_is_as_grave_as_its_gravest_agent(found, tone, word):
    said = coverage_verdict("fcp", [measured(*one) for one in found], 0.9)
    assert (said.tone, said.word) == (tone, word)
    assert "0.9" in said.text
    assert "(an interval)" in said.text
    assert ("calibration points happened" in said.text) == word.startswith("Above")
    assert ("draw of the calibration points adds to that" in said.text) == word.startswith(
        "Too low"
    )


def test_the_worst_agent_and_the_mean_are_shown():
    said = coverage_verdict(
        "fcp", [measured("a", 0.8, 0.7, 0.85), measured("b", 1.0, 0.97, 1.0)], 0.9
    ).text
    assert "covers 0.900 on average" in said
    assert "its worst agent, a, reaches 0.800" in said


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (("a", 0.8, 0.7, 0.85), "The interval lies below at 1 of 2 agents; by chance"),
        (("a", 0.99, 0.95, 1.0), "No interval lies below; it lies above at 1 of 2 agents"),
    ],
)
def test_one_interval_is_counted_as_one(one, says):
    found = [measured(*one), measured("b", 0.9, 0.85, 0.95)]
    assert says in coverage_verdict("fcp", found, 0.9).text
