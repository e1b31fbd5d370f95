"""A round's guarantee in one plain line, for every kind and strength."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from fedwqcp.theory.advice import advise
from fedwqcp.wire.release import GuaranteeKind, Strength
from fedwqcp.words import rounds as words


@pytest.mark.parametrize(
    ("kind", "strength"), [*product(get_args(GuaranteeKind), get_args(Strength))]
)
def test_every_guarantee_is_one_line(kind: str, strength: str) -> None:
    if (kind == "none") != (strength == "none"):
        return
    line = words.guarantee(kind, strength, (0.9, 0.8), agent="st-mary")
    assert "{" not in line
    assert (kind in ("none", "new-agent-confident")) or "90 or 80 %" in line
    assert ("st-mary" in line) == kind.endswith(("-agent", "-floor"))
    assert words.guarantee(kind, strength) != line or kind in ("none", "new-agent-confident")


FLOOR = ("agent-floor", "finite-sample")
RISK = ("risk-floor", "finite-sample")


def test_a_guarantee_states_no_more_than_points_prove() -> None:
    few = words.guarantee(*FLOOR, (8 / 9,), agent="st-mary", of="set")
    assert few == (
        "at st-mary, at least 88.8 % of future cases like those it calibrated on will have their "
        "label in the set"
    )
    assert words.guarantee(*FLOOR, (0.9,), needed=9).startswith(
        "at each agent with 9 or more calibration points, at least 90 % of"
    )
    assert words.guarantee(*FLOOR, (0.9,), needed=9, by="label").startswith(
        "at each agent, within each label of which it has 9 or more calibration points, at least"
    )
    assert "(n/(n + 1) with few points)" in words.guarantee(*FLOOR)
    assert "at most 11.2 %" in words.guarantee(*RISK, (1 / 9,))


@pytest.mark.parametrize(
    ("level", "text"), [(0.9, "90 %"), (0.9995, "99.95 %"), (6 / 7, "85.7 %"), (0, "0 %")]
)
def test_a_level_is_never_rounded_up(level: float, text: str) -> None:
    assert words.percent(level) == text


def test_advice_names_method_and_settings() -> None:
    assert str(advise("mixture")).startswith("use fcp with sketch=order. ")


def test_progress_names_all_rows_where_they_are_known() -> None:
    assert words.progress(1000, 2000) == "1,000 of 2,000 rows scored"
    assert words.progress(1000, None) == "1,000 rows scored"
