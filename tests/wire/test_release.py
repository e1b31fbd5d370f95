"""What a caller reads off a release."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from changed import replace
from fedwqcp.errors import InputError
from fedwqcp.wire.messages import (
    Choice,
    PerAgentThresholds,
    Round,
    SharedThreshold,
)
from fedwqcp.wire.release import NO_GUARANTEE, AgentRecord, ReleaseRecord

ROUND = Round("ab", Choice("m"), Choice("s"), (0.1,), ("a", "b", "c", "d"), 2)
RELEASE = ReleaseRecord(
    ROUND,
    NO_GUARANTEE,
    "none",
    1,
    (
        AgentRecord("a", "used", "", 10, 20),
        AgentRecord("b", "refused", "n: too large", 0, 20),
        AgentRecord("c", "used", "", 11, 20),
        AgentRecord("d", "missing"),
    ),
    (SharedThreshold(0.5),),
)


def test_who_was_used_refused_and_missing():
    assert RELEASE.used == ("a", "c")
    assert RELEASE.refused == {"b": "n: too large"}
    assert RELEASE.missing == ("d",)
    assert (RELEASE.bytes_up("c"), RELEASE.bytes_down("b")) == (11, 20)
    with pytest.raises(InputError):
        RELEASE.bytes_up("z")


def test_a_personal_threshold_belongs_to_agents_that_answered():
    each = replace(RELEASE, outcomes=(PerAgentThresholds((0.1, (0.2, inf))),))
    assert each.threshold("a") == 0.1
    np.testing.assert_array_equal(each.threshold("c"), [0.2, inf])
    with pytest.raises(InputError):
        each.threshold("b")


def test_several_levels_and_columns():
    round = replace(ROUND, alphas=(0.1, 0.2))
    levels = replace(RELEASE, round=round, outcomes=(SharedThreshold(0.5), SharedThreshold(0.4)))
    assert (levels.threshold("a", 0.1), levels.threshold("a", 0.2)) == (0.5, 0.4)
    with pytest.raises(InputError, match="pass alpha"):
        levels.threshold("a")
    with pytest.raises(InputError):
        levels.threshold("a", 0.3)
    columns = replace(
        levels,
        outcomes=(
            SharedThreshold(0.5),
            SharedThreshold(0.6),
            SharedThreshold(0.3),
            SharedThreshold(0.4),
        ),
    )
    np.testing.assert_array_equal(columns.threshold("a", 0.2), [0.3, 0.4])


@pytest.mark.parametrize(
    "change", [{"outcomes": ()}, {"agents": RELEASE.agents[:2]}, {"local": {"a": ()}}]
)
def test_a_release_that_contradicts_itself_cannot_be_built(change):
    with pytest.raises(InputError):
        replace(RELEASE, **change)
