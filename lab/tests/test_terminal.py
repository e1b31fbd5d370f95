"""Lines and bars for the terminal: thresholds of a round, rates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp_lab.terminal import Scale, scale


def test_a_bar_drawn_by_hand():
    bars = Scale(0.5, 1.0, 0.9, width=11, ascii=True)
    assert bars.bar(0.6, 0.75, 0.8) == "..---o-.|.."
    assert bars.bar(0.9, 0.9, 0.9) == "........o.."
    assert bars.bar(0.0, 0.2, 1.0) == "<-------|--"


@pytest.mark.parametrize(
    ("rates", "nominal", "ends"),
    [((0.93,), 0.95, (0.9, 1.0)), ((0.85,), 0.9, (0.8, 0.95)), ((1.0,), 0.9, (0.85, 1.0)),
     ((0.0,), 0.1, (0.0, 0.15)), ((), 0.9, (0.85, 0.95)), ((0.1, 0.97), 0.9, (0.65, 1.0))],
)  # fmt: skip
def test_a_scale_ends_beyond_what_it_shows(rates, nominal, ends):
    found = scale(rates, nominal)
    assert (found.left, found.right) == pytest.approx(ends)


unit = st.floats(0, 1)


@given(st.lists(unit, min_size=3, max_size=3).map(sorted), unit)
def test_every_bar_has_its_width_and_shows_its_rate(ends, nominal):
    low, rate, high = ends
    bars = scale(ends, nominal)
    drawn = bars.bar(low, rate, high)
    assert len(drawn) == bars.width
    assert drawn.count("●") == (rate >= bars.left)
    assert drawn.startswith("◂") == (rate < bars.left)
    assert drawn.count("┃") <= 1
    assert max(0, nominal - 0.25) <= bars.left <= nominal
    assert bars.right >= max(high, nominal)
