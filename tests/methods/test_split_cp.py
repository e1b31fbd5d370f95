"""SplitCP: each agent's own threshold."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.methods.split_cp import SplitCP
from fedwqcp.wire.messages import Begin, Local
from worked import ABC, EMPTY, A


def test_the_worked_example() -> None:
    release = fw.calibrate(ABC, method="split-cp", alpha=[0.2, 0.1, 0.05])
    assert [release.threshold(a, 0.2) for a in "abc"] == [0.9, 0.45, 0.34]
    assert [release.threshold(a, 0.1) for a in "abc"] == [1.0, inf, 0.38]
    assert [release.threshold(a, 0.05) for a in "abc"] == [inf, inf, 0.40]


def test_clip_takes_the_largest_score_and_loses_the_guarantee() -> None:
    release = fw.calibrate(ABC, method=SplitCP(overflow="clip"), alpha=0.1)
    assert [release.threshold(a) for a in "abc"] == [1.0, 0.45, 0.38]
    assert release.guarantee == fw.methods.get("split-cp", overflow="clip").guarantee
    assert str(release.guarantee) == "none"
    assert str(SplitCP().guarantee) == "marginal-agent, finite-sample"


@pytest.mark.parametrize("overflow", ["propagate", "clip", "exclude"])
def test_an_empty_agent_has_an_infinite_threshold(overflow: str) -> None:
    method = fw.methods.get("split-cp", overflow=overflow)
    release = fw.calibrate({"a": A, "b": EMPTY}, method=method, alpha=0.2)
    assert (release.threshold("a"), release.threshold("b")) == (0.9, inf)


def test_it_refuses_what_it_cannot_do() -> None:
    with pytest.raises(InputError, match="sends nothing"):
        SplitCP().answer(fw.Calibration(A), Begin(), 0.1, np.random.default_rng(0))
    with pytest.raises(InputError):
        SplitCP().localize(Local(), None, 0, 0.1)
