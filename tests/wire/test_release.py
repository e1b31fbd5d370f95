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


def test_a_personal_threshold_belongs_to_agents_that_answered():
    each = replace(RELEASE, outcomes=(PerAgentThresholds((0.1, (0.2, inf))),))
    assert each.threshold("a") == 0.1
    np.testing.assert_array_equal(each.threshold("c"), [0.2, inf])
    with pytest.raises(InputError):
        each.threshold("b")


@pytest.mark.parametrize(
    "change", [{"outcomes": ()}, {"agents": RELEASE.agents[:2]}, {"local": {"a": ()}}]
)
def test_a_release_that_contradicts_itself_cannot_be_built(change):
    with pytest.raises(InputError):
        replace(RELEASE, **change)
