"""A round with groups says which of them have no finite threshold."""

from __future__ import annotations

import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.theory import diagnose_groups

AGENTS = {
    "a": fw.Calibration([0.1, 0.2, 0.3, 0.4, 0.5] * 8, groups=["f"] * 38 + ["m"] * 2),
    "b": fw.Calibration([0.1, 0.2, 0.3, 0.4, 0.5] * 8, groups=["f"] * 40),
}


def test_groups_without_a_finite_threshold_are_named():
    release = fw.calibrate(AGENTS, alpha=(0.1, 0.4), by="group", score="lac")
    found = diagnose_groups(release, 0.1, (0.0, 1.0))
    assert found.infinite == {"m": ("a", "b")}
    assert found.absent == {"m": ("b",)}
    assert set(found.averaged) == {"f", "m"}
    text = str(found)
    assert "by group, alpha=0.1" in text
    assert "m: at a, b" in text
    assert "no point of m at b" in text
    assert "m: overflow: a (n=2) sent +inf" in text
    assert "what to do" in text
    finite = diagnose_groups(release, 0.4)
    assert finite.infinite == {}
    assert "infinite" not in str(finite)


def test_methods_that_do_not_average_are_not_judged_as_if_they_did():
    release = fw.calibrate(AGENTS, method="weighted-median-cp", alpha=0.1, by="group", score="lac")
    found = diagnose_groups(release)
    assert found.averaged == {}
    assert set(found.infinite) == {"m"}


def test_private_groups_are_not_sent_to_a_method_that_is_not():
    method = fw.methods.get("private-fedwq-cp", epsilon=1.0)
    text = str(diagnose_groups(fw.calibrate(AGENTS, method=method, alpha=0.1, by="group")))
    assert "coarser groups, or a larger epsilon" in text
    assert "fcp" not in text


def test_agents_of_their_own_are_told_apart():
    release = fw.calibrate(AGENTS, method="split-cp", alpha=0.4, by="group")
    assert diagnose_groups(release).infinite == {"m": ("b",)}
    assert diagnose_groups(release.public()).infinite == {}  # not known to the server


def test_nothing_to_say():
    cal = fw.Calibration([i / 400 for i in range(400)], groups=["f", "m"] * 200)
    release = fw.calibrate({"a": cal}, method="fcp", alpha=0.1, by="group")
    assert "every group has a finite threshold" in str(diagnose_groups(release))


def test_without_groups_there_is_another_function():
    with pytest.raises(InputError, match="no groups"):
        diagnose_groups(fw.calibrate({"a": [0.1]}, alpha=0.5))
