"""Plots of a release, read back from their axes."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError, MissingExtraError

pytest.importorskip("matplotlib", reason="the extra [demo] is not installed")
from matplotlib import pyplot

from fedwqcp import plot
from worked import drawn


@pytest.fixture(autouse=True)
def _agg():
    """Draw without a screen, and forget every figure."""
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def site(seed, n=60):
    rng = np.random.default_rng(seed)
    return fw.Outputs(*drawn(rng, n))


SITES = {"st-mary": site(0), "lakeside": site(1, 40)}
RELEASE = fw.calibrate(SITES, method="fedwq-cp", alpha=[0.1, 0.3], score="lac")
NEW = site(2)
FOUND = [RELEASE.measure(name, NEW.values, NEW.labels, alpha=0.3) for name in SITES]


def marks(ax):
    """Return what is drawn as single marks."""
    return [
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in ax.lines
        if len(line.get_xdata()) == 1
    ]


def test_coverage_by_agent_with_intervals():
    ax = plot.coverage(FOUND, alpha=0.3)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["st-mary", "lakeside"]
    assert marks(ax) == [(one.coverage, row) for row, one in enumerate(FOUND)]
    spans = [tuple(line.get_xdata()) for line in ax.lines if len(set(line.get_ydata())) == 1]
    assert {(one.low, one.high) for one in FOUND} <= set(spans)
    assert list(ax.lines[-1].get_xdata()) == [0.7, 0.7]
    assert "95 %" in ax.get_xlabel()


def test_what_cannot_be_plotted_is_refused(monkeypatch):
    for found in ([], {}):
        with pytest.raises(InputError):
            plot.coverage(found, alpha=0.1)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="demo"):
        plot.coverage(FOUND, alpha=0.3)
