"""Lines and bars for the terminal: thresholds of a round, rates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedwqcp as fw
from changed import replace
from fedwqcp.methods import RobustThreshold
from fedwqcp.report.terminal import Scale, always_left_out, released, scale

TEN = np.arange(1, 11) / 10


def test_a_byzantine_agent_is_named_with_what_the_loss_says() -> None:
    rng = np.random.default_rng(0)
    honest = {name: rng.permutation(200)[:40] / 200 for name in "acd"}
    agents = {"a": honest["a"], "b": np.zeros(40), "c": honest["c"], "d": honest["d"]}
    release = fw.calibrate(agents, method=fw.methods.get("rob-fcp", byzantine=1), alpha=0.1)
    (found,) = released(release)
    assert found.left_out == ("b",)
    assert always_left_out([found]) == {"b"}
    robust = replace(release, outcomes=(RobustThreshold(0.5, (0, 3), 0.0123),))
    (found,) = released(robust)
    assert found.left_out == ("a", "d")
    assert "0.0123" in str(found)


def test_places_count_among_the_agents_that_were_used_and_had_points() -> None:
    cals = {
        "a": fw.Calibration(TEN, groups=["f"] * 10),
        "b": fw.Calibration(TEN, groups=["f", "m"] * 5),
        "c": fw.Calibration(TEN, groups=["f", "m"] * 5),
    }
    release = fw.calibrate(cals, method="rob-fcp", alpha=0.3, by="group")
    of_f, of_m = RobustThreshold(0.5, (1,), 1.0), RobustThreshold(0.5, (1,), 1.0)
    found = released(replace(release, outcomes=(of_f, of_m)))
    assert [each.left_out for each in found] == [("b",), ("c",)]
    assert always_left_out(found) == frozenset()


def test_places_are_no_names_where_a_release_hides_who_has_no_point_of_a_group() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2
    agents = {
        name: fw.Calibration(rng.random(80), labels, n_classes=2) for name in ("b", "c", "e")
    } | {
        "a": fw.Calibration(rng.random(40), np.ones(40, dtype=int), n_classes=2),
        "byzantine": fw.Calibration(np.zeros(80), labels, n_classes=2),
    }
    method = fw.methods.get("rob-fcp", byzantine=1)
    release = fw.calibrate(agents, method=method, alpha=0.2, by="label")
    assert released(release)[0].left_out == ("byzantine",)
    assert released(release.public())[0].left_out == ()


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
