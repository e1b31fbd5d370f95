"""How a release prints."""

from __future__ import annotations

import fedwqcp as fw
from changed import replace
from fedwqcp.wire.codec import brief
from fedwqcp.wire.messages import Census


def test_a_release_prints_as_a_short_table():
    release = fw.calibrate(
        {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.2, 0.4]}, method="fedwq-cp", alpha=[0.4, 0.45]
    )
    up = release.bytes_up("a")
    assert (
        repr(release)
        == str(release)
        == (
            "fedwq-cp with score custom, alpha 0.4, 0.45; 1 round trip\n"
            "guarantee: none\n"
            "agent  status  points  at 0.4  at 0.45  bytes up\n"
            f"a      used         4  0.3333   0.3333       {up}\n"
            f"b      used         2  0.3333   0.3333       {up}"
        )
    )
    proved = fw.calibrate({"a": [0.1, 0.2, 0.3]}, method="split-cp", alpha=0.5)
    assert "at the site" in str(replace(proved, local={}))


def test_a_release_says_where_nothing_is_proved():
    for overflow in ("propagate", "clip"):
        method = fw.methods.get("split-cp", overflow=overflow)
        release = fw.calibrate({"a": [0.1, 0.2, 0.3]}, method=method, alpha=0.5)
        assert ("nothing is proved" in release.assumption) == (not release.guarantee)


def test_many_agents_are_shown_in_part():
    many = fw.calibrate(
        {f"s{i}": [0.1, 0.2, 0.3] for i in range(300)}, method="fedwq-cp", alpha=0.4
    )
    lines = str(many).splitlines()
    assert (len(lines), lines[-1]) == (24, "and 280 more agents")
    sent = brief(many)
    assert isinstance(sent.census, Census)
    assert str(sent).splitlines()[-1].split() == ["300", "agents", "used", "0.3"]
