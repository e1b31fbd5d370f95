import zlib
from base64 import b64decode

import pytest

from fedwqcp.report.html.blocks import Bar
from fedwqcp.report.html.coverages import Measured, verdict
from fedwqcp.report.html.examples import picture
from fedwqcp.report.html.words import (
    as_csv,
    counted,
    judge,
    number,
    rate_of,
    thresholds,
)


def measured(agent, coverage, low, high):
    return Measured("fcp", agent, "", coverage, low, high, "an interval", 2.0, (), ())


@pytest.mark.parametrize(
    ("found", "tone", "word"),
    [
        ([("a", 0.8, 0.7, 0.85), ("b", 0.9, 0.85, 0.95)], "bad", "Too low at 1 of 2 agents"),
        (
            [("a", 0.99, 0.95, 1.0), ("b", 0.9, 0.85, 0.95)],
            "caution",
            "Wider than needed at 1 of 2 agents",
        ),
        ([("a", 0.88, 0.84, 0.93), ("b", 0.9, 0.85, 0.95)], "good", "On target"),
        ([("a", 0.8, 0.7, 0.85)], "bad", "Below nominal"),
    ],
)
def test_a_verdict_is_as_grave_as_its_gravest_agent(found, tone, word):
    said = verdict("fcp", [measured(*one) for one in found], 0.9)
    assert (said.tone, said.word) == (tone, word)
    assert "0.9" in said.text
    assert "(an interval)" in said.text


def test_the_worst_agent_and_the_mean_are_told():
    said = verdict("fcp", [measured("a", 0.8, 0.7, 0.85), measured("b", 1.0, 0.97, 1.0)], 0.9).text
    assert "covers 0.900 on average" in said
    assert "its worst agent, a, reaches 0.800" in said


def test_an_interval_that_holds_the_nominal_coverage_is_no_sign():
    assert judge(0.85, 0.95, 0.9)[0] == "good"
    assert judge(0.9, 0.95, 0.9)[0] == "good"
    assert judge(0.91, 0.95, 0.9)[0] == "caution"
    assert judge(0.8, 0.89, 0.9)[0] == "bad"


def test_coverage_has_its_exact_interval_of_99_percent():
    rate = rate_of(0, 10)  # nothing covered: the upper end solves (1 - p)^10 = 0.005
    assert (rate.low, rate.high) == (0, pytest.approx(1 - 0.005**0.1))


def test_no_cell_of_a_download_runs_as_a_formula():
    text = as_csv(("agent", "n"), [("=1+1", 3), ("@x", -3), ('a "b", c', 0.5)])
    assert text == 'agent,n\n\'=1+1,3\n\'@x,-3\n"a ""b"", c",0.5\n'


def test_numbers_are_short():
    assert [number(x) for x in (0.12345, 12.0, 1234.6, float("-inf"))] == [
        "0.123",
        "12",
        "1,235",
        "-infinite",
    ]
    assert thresholds((0.25, 0.75)) == "0.25 to 0.75, by label"
    assert [counted(n, "agent") for n in (1, 2)] == ["1 agent", "2 agents"]


def test_a_bar_is_placed_between_its_start_and_one():
    bar = Bar(0.5, 0.75, 1.0, 0.9, start=0.5)
    assert [bar.at(x) for x in (0.5, 0.75, 1.0, 0.2)] == [0, 50, 100, 0]


def test_a_picture_is_a_png_of_its_pixels_dark_on_light():
    data = b64decode(picture([0, 255, 100, 0]).partition(",")[2])
    assert data.startswith(b"\x89PNG")
    start = data.index(b"IDAT") + 4
    length = int.from_bytes(data[start - 8 : start - 4], "big")
    assert zlib.decompress(data[start : start + length]) == bytes([0, 255, 0, 0, 155, 255])
    assert picture([]) == ""
