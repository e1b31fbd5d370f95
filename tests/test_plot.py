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


@pytest.fixture(autouse=True)
def _agg():
    """Draw without a screen, and forget every figure."""
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def site(seed, n=60):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet([1, 2, 3], size=n)
    return fw.Outputs(probs, [rng.choice(3, p=p) for p in probs])


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


def test_scores_with_their_own_and_the_released_threshold():
    _, ax = pyplot.subplots()
    assert plot.score_ecdf(RELEASE, SITES, alpha=0.3, ax=ax) is ax
    vertical = {
        line.get_xdata()[0] for line in ax.lines if line.get_xdata()[0] == line.get_xdata()[-1]
    }
    scores = {name: fw.LAC().of(own.values, own.labels) for name, own in SITES.items()}
    own = {fw.conformal_quantile(each, 0.3) for each in scores.values()}
    assert vertical == own | {RELEASE.threshold("st-mary", 0.3)}
    curve = next(line for line in ax.lines if line.get_label() == "st-mary")
    for edge, share in zip(*curve.get_data(), strict=True):
        below = (scores["st-mary"] < edge).mean()
        assert below <= share <= (scores["st-mary"] <= edge).mean() or share == 1.0
    assert np.diff(np.rint(curve.get_ydata() * 60)).min() >= 10  # people in a bin


RNG = np.random.default_rng(5)


@pytest.mark.parametrize(
    "scores",
    [
        np.full(10, 0.7),
        np.repeat([0.1, 5.0], [19, 1]),
        RNG.exponential(size=31),
        np.append(RNG.uniform(-9e5, 2e-5, 300), [np.inf] * 9),
    ],
)
def test_nobody_is_lost_from_a_curve_and_nobody_stands_alone(scores):
    release = fw.calibrate({"a": scores}, method="fedwq-cp", alpha=0.3)
    ax = plot.score_ecdf(release, {"a": fw.Calibration(scores)})
    (curve,) = (line for line in ax.lines if line.get_label() == "a")
    edges, finite = curve.get_xdata(), scores[np.isfinite(scores)]
    people = np.rint(curve.get_ydata() * len(scores))
    assert (people[0], people[-1]) == (0, len(finite))
    assert np.diff(people).min() >= 10
    assert (np.diff(edges) > 0).all()
    assert edges[0] <= finite.min() <= finite.max() <= edges[-1]


def test_fewer_than_ten_people_have_no_curve():
    scores = [0.5] * 9 + [np.inf] * 20
    release = fw.calibrate({"a": scores}, method="fedwq-cp", alpha=0.3)
    ax = plot.score_ecdf(release, {"a": fw.Calibration(scores)})
    assert ax.get_legend() is None


def test_what_cannot_be_plotted_is_refused(monkeypatch):
    for found in ([], {}):
        with pytest.raises(InputError):
            plot.coverage(found, alpha=0.1)
    with pytest.raises(InputError):
        plot.score_ecdf(RELEASE, {}, alpha=0.3)
    with pytest.raises(InputError):
        plot.score_ecdf(RELEASE, SITES)
    by_label = fw.calibrate(SITES, method="fedwq-cp", alpha=0.3, score="lac", by="label")
    with pytest.raises(InputError):
        plot.score_ecdf(by_label, SITES)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="demo"):
        plot.coverage(FOUND, alpha=0.3)
