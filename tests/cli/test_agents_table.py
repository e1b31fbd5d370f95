"""The table of ``server close``, from a release made in this process."""

from dataclasses import replace
from io import StringIO

import numpy as np
from rich.console import Console

from fedwqcp.cli.output import agents_table
from fedwqcp.federation.transport.local import calibrate


def said(release):
    text = StringIO()
    Console(file=text, width=160).print(agents_table(release, ascii=True))
    return text.getvalue()


def spread(top, n=9):
    """Scores whose largest decides at alpha = 0.1."""
    return np.linspace(0, top, n)


def test_dots_lie_between_the_extreme_thresholds():
    release = calibrate({"a": spread(1.0), "b": spread(3.0), "c": spread(2.0)}, alpha=0.1)
    text = said(release)
    assert "1 to 3" in text
    rows = {line.split()[1]: line for line in text.splitlines() if " used " in line}
    assert "o...........|..........." in rows["a"]
    assert "............|..........o" in rows["b"]
    assert "............o..........." in rows["c"]
    assert [row.split()[5] for row in rows.values()] == ["9", "9", "9"]


def test_no_dots_without_a_common_threshold_or_two_local_ones():
    for cals, method in (
        ({"a": spread(1.0), "b": spread(1.0)}, "fedwq-cp"),
        ({"a": spread(1.0), "b": spread(3.0, n=2)}, "fedwq-cp"),
        ({"a": spread(1.0), "b": spread(3.0)}, "split-cp"),
    ):
        text = said(calibrate(cals, method=method, alpha=0.1))
        assert " to " not in text
        assert "used" in text


def test_of_thousands_of_agents_the_unused_come_first():
    names = tuple(f"a{k:04d}" for k in range(1000))
    release = calibrate({name: [0.1] * 9 for name in names}, alpha=0.1)
    last = replace(release.agents[-1], status="refused", reason="n: too large")
    text = StringIO()
    Console(file=text, width=160).print(
        agents_table(replace(release, agents=(*release.agents[:-1], last), received={}))
    )
    assert "n: too large" in text.getvalue()
    assert "and 800 more agents" in text.getvalue()
    assert "a0500" not in text.getvalue()
