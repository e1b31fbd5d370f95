"""A round's guarantee in one plain line, for every kind and strength."""

from __future__ import annotations

from itertools import product

import pytest

from fedwqcp.theory.advice import advise
from fedwqcp.wire.release import KINDS, STRENGTHS
from fedwqcp.words import rounds as words


@pytest.mark.parametrize(("kind", "strength"), product(KINDS, STRENGTHS))
def test_every_guarantee_is_one_line(kind: str, strength: str) -> None:
    if (kind == "none") != (strength == "none"):
        return
    line = words.guarantee(kind, strength, (0.1, 0.2), agent="st-mary")
    assert "{" not in line
    assert (kind in ("none", "new-agent-confident")) or "20 %" in line or "80 %" in line
    assert ("st-mary" in line) == kind.endswith(("-agent", "-floor"))


def test_an_agents_guarantee_states_what_its_points_prove() -> None:
    line = words.guarantee("agent-floor", "finite-sample", (0.1,), agent="st-mary", proved=8 / 9)
    assert line == (
        "at st-mary, at least 88.9 % of future cases like those it calibrated on will have their "
        "label in the set"
    )


def test_advice_names_method_and_settings() -> None:
    assert str(advise("mixture")).startswith("use fcp with sketch=order. ")


def test_an_unknown_field_of_a_refusal_is_told_too() -> None:
    assert words.refused("n") != words.refused("other")
