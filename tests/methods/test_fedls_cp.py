"""FedLS-CP: sketches by class, shrinkage, thresholds of a label mixture."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.federation.inspection import unseen_labels
from fedwqcp.methods import Terms, UnfitAnswerError
from fedwqcp.methods.fedls_cp import (
    Cell,
    ClassSketches,
    FedLSCP,
    Shrinkage,
    dispersion,
    ranks_of,
    rounded_up,
)
from fedwqcp.wire.messages import Begin
from refusals import raises

sizes = st.integers(0, 400)


@given(n=sizes, alpha=st.sampled_from([0.01, 0.05, 0.3, 0.9]), gap=st.integers(2, 9))
def test_ranks_end_at_n_and_keep_their_gap(n, alpha, gap):
    ranks = ranks_of(n, alpha, 12, gap)
    assert len(ranks) <= 12
    assert (ranks[-1:] == (n,)) == (n > 0)
    gaps = np.diff((0, *ranks))
    assert (gaps >= min(gap, n)).all()


@given(st.floats(1e-12, 1e6))
def test_scores_are_rounded_up_to_five_digits(score):
    found = rounded_up(score)
    assert score <= found <= score * (1 + 1.0001e-4)
    assert found == score or len(repr(found).partition("e")[0].replace(".", "").strip("0")) <= 5


@given(n=st.integers(1, 300), gap=st.integers(2, 9), seed=st.integers(0, 99))
def test_the_server_counts_no_score_too_many_and_few_too_few(n, gap, seed):
    scores = np.round(np.random.default_rng(seed).uniform(size=n), 4)
    cal = fw.Calibration(scores, np.zeros(n, np.int64), n_classes=1)
    method = FedLSCP(points=16, min_gap=gap, min_class=1)
    (cell,) = cells_of(method, method.summarize(cal, 0.1), 0.1)
    q = np.linspace(-0.1, 1.1, 101)
    true = (scores[:, None] <= q).sum(axis=0)
    largest = max(np.diff((0, *cell.ranks)))
    assert (at_least(cell, q) <= true).all()
    assert (true <= at_least(cell, q) + largest - 1).all()
    about = cell.about(q, 0.0)
    assert (at_least(cell, q) <= about).all()
    assert (about <= at_least(cell, q) + largest - 1 + 1e-9).all()
    assert (np.diff(about) >= -1e-9).all()


def cells_of(method, sent, alpha):
    """What the server knows of each class."""
    limits = method.points, method.min_gap, method.min_class
    pairs = zip(sent.counts, sent.values, strict=True)
    return [Cell.of(values, ranks_of(n, alpha, *limits)) for n, values in pairs]


def at_least(cell, q):
    """How many scores are surely at most q: those that sent scores up to q stand for."""
    return np.concatenate(([0], cell.ranks))[np.searchsorted(cell.values, q, side="right")]


def test_shrinkage_by_hand():
    shrinkage = Shrinkage(np.array([[10.0, 0.0, 4.0], [30.0, 6.0, 0.0]]), n0=10)
    np.testing.assert_allclose(shrinkage.worth, [[5, 0, 20 / 7], [7.5, 3.75, 0]])
    np.testing.assert_allclose(shrinkage.prior[:, 0], [7.5 / 1.75, 5 / 1.5])
    known = np.array([[0.5, 0.0, 0.25], [0.9, 0.6, 0.0]])[:, :, None]
    expected = np.array([[0.62, 0.6, 0.25], [0.86, 0.6, 0.25]])
    for c in range(3):
        pi = np.tile(np.eye(3)[c], (2, 1))
        np.testing.assert_allclose(shrinkage.mixed(known, pi)[:, 0], expected[:, c])
    np.testing.assert_allclose(shrinkage.share, [[0.3, 1, 0], [0.1, 0, 1]])


def test_what_an_estimate_rests_on_by_hand():
    shrinkage = Shrinkage(np.array([[10.0, 0.0, 0.0], [30.0, 6.0, 0.0]]), n0=10)
    pi = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])
    # prior: 7.5 / 1.75 = 4.286 and 3.75 / 1.375 = 2.727 points, so that class 1 is all borrowed
    # 0.5 * 0.3 + 0.25 = 0.4; 0.75^2 / (0.25 / 14.286 + 0.0625 / 2.727) = 13.9; of b 0.1 and 33.3
    assert shrinkage.rests_on(pi) == ((0.4, 0.1), (10.0, 30.0))
    assert shrinkage.rests_on(pi, np.array([0.25, 0.0]))[0] == (0.6, 0.1)
    alone = Shrinkage(np.array([[37.0, 5.0]]), n0=1e-9)  # toward one class: its count, to one digit
    assert alone.rests_on(np.array([[1.0, 0.0]])) == ((0.0,), (40.0,))


@pytest.mark.parametrize("others", [(30, 30), (200, 40)])
def test_what_an_estimate_rests_on_does_not_tell_class_counts(others):
    """Of all counts that a site may have, many others give the same figures."""
    seen = {}
    for a in range(10, 60):
        for b in range(10, 60):
            counts = np.array([[a, b], others], dtype=np.float64)
            figures = Shrinkage(counts, 50.0).rests_on(counts / counts.sum(axis=1, keepdims=True))
            seen.setdefault(figures, []).append((a, b))
    assert min(len(alike) for alike in seen.values()) >= 2
    assert np.mean([len(seen[key]) for key in seen for _ in seen[key]]) > 100


def test_dispersion_by_hand():
    counts = np.array([[100.0, 1.0], [100.0, 50.0]])  # one point of a class tells no difference
    assert dispersion(counts, np.array([[0.8, 0.0], [1.0, 1.0]])) == pytest.approx(9 / 1.91 - 1)
    assert dispersion(counts, np.array([[0.9, 0.0], [0.9, 1.0]])) == 300
    assert dispersion(counts, np.array([[0.0, 0.0], [1.0, 1.0]])) == 2
    assert dispersion(counts, np.ones((2, 2))) == 50


FINE = {"min_gap": 2, "min_class": 1}
"""Settings under which a few scores of a class are sent, for examples by hand."""


def agent(scores, labels, n_classes=2):
    return fw.Calibration(scores, labels, n_classes=n_classes)


def test_without_shrinkage_the_classes_add_up_by_hand():
    # class 0: 0.1 0.2 0.3 0.4 (ranks 2, 4), class 1: 0.5 0.6 0.7 0.8 0.9 (ranks 3, 5)
    one = agent([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], np.repeat([0, 1], (4, 5)))
    two = {"method": FedLSCP(n0=0, points=2, **FINE), "target": (3.0, 1.0)}
    release = fw.calibrate({"a": one, "b": one}, **two, alpha=0.3)
    # at 0.4: 0.75 * 4/5 = 0.6; at 0.7: 0.6 + 0.25 * 3/6 = 0.725; at 0.9: 0.6 + 0.25 * 5/6 = 0.808
    assert release.threshold("a") == 0.7
    assert fw.calibrate({"a": one}, **two, alpha=0.41).threshold("a") == 0.4
    assert fw.calibrate({"a": one}, **two, alpha=0.19).threshold("a") == inf
    assert release.guarantee == fw.Guarantee("target-shift", "finite-sample")


@given(n=st.integers(10, 400), score=st.sampled_from([-5.0, 0.5, 5.0]), n0=st.floats(0.1, 60))
@settings(max_examples=30, deadline=None)
def test_other_agents_move_a_distribution_by_the_share_that_is_borrowed(n, score, n0):
    own = np.sort(np.random.default_rng(3).uniform(size=100))
    agents = {"a": agent(own, np.arange(100) % 2), "m": agent(np.full(n, score), np.arange(n) % 2)}
    release = fw.calibrate(agents, method=FedLSCP(n0=n0, target="own"), alpha=0.1)
    b = n0 / (50 + n0)  # own points of a class weigh 50
    q, gap = release.threshold("a"), 5 / 50  # between two scores that it sent lie five of a class
    # (1 - b) own + b others reaches 0.9 at q, and others is anything from 0 to 1
    assert np.mean(own <= q) >= (0.9 - b) / (1 - b) - gap
    assert np.mean(own < q) * (1 - b) <= 0.9 + gap or q == inf


@pytest.mark.guarantee("SECURITY.md", "a `mixture` target by n / (N + n)")
@given(counts=st.tuples(st.integers(0, 150), st.integers(0, 150)))
@settings(max_examples=40, deadline=None)
def test_another_agent_moves_the_mixture_by_its_share_of_the_points(counts):
    """Without shrinkage its counts alone reach another agent: the level moves by n / (N + n)."""
    own, labels = np.random.default_rng(3).uniform(size=(2, 100))
    own, labels = np.where(labels < 0.3, own / 2, own), (labels < 0.3).astype(int)
    n, method = sum(counts), FedLSCP(n0=0)
    m = agent(np.full(n, 0.5), np.repeat([0, 1], counts))
    terms = {"method": method, "target": "mixture", "alpha": 0.2}
    release = fw.calibrate({"a": agent(own, labels), "m": m}, **terms)
    q, sent = release.threshold("a"), release.received["a"][0]
    pi = np.bincount(labels) / 100  # without the other agent
    cells = cells_of(method, sent, 0.2)

    def covered(at):
        return sum(p * at_least(cell, at) / (cell.n + 1) for p, cell in zip(pi, cells, strict=True))

    assert covered(q) >= 0.8 - n / (100 + n) - 1e-9
    assert covered(np.nextafter(q, -inf)) <= 0.8 + n / (100 + n) + 1e-9


def test_a_class_never_seen_is_covered_by_nobody_or_judged_by_others():
    rng = np.random.default_rng(1)
    both = agent(rng.uniform(size=400), np.arange(400) % 2)
    half = agent(rng.uniform(size=400), np.zeros(400, np.int64))
    agents = {"both": both, "half": half}
    alone = fw.calibrate(agents, method=FedLSCP(n0=0), target="mixture", alpha=0.1)
    assert alone.threshold("half") == inf
    assert alone.threshold("both") < 1
    lent = fw.calibrate(agents, method="fedls-cp", target="mixture", alpha=0.1).outcomes[0]
    assert lent.values[1] == pytest.approx(0.9, abs=0.03)
    assert lent.unknown == (0, 0)
    assert (lent.borrowed[1] > lent.borrowed[0] > 0, lent.effective[0] > 100) == (True, True)
    assert alone.outcomes[0].borrowed == (0, 0)
    few = fw.calibrate(agents, method=FedLSCP(n0=0), target=(0.96, 0.04), alpha=0.1)
    assert few.threshold("half") < 1


def test_a_class_of_too_few_points_to_be_sent_counts_as_unseen():
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], [91, 9])
    agents = {name: agent(rng.uniform(size=100), labels) for name in "ab"}
    for least, unseen in ((9, 0.0), (10, 0.09)):
        found = fw.calibrate(agents, method=FedLSCP(min_class=least), alpha=0.1).outcomes[0]
        assert found.unknown == pytest.approx((unseen, unseen))


def test_labels_that_nobody_has_seen_are_named():
    rng = np.random.default_rng(0)
    rare = fw.Calibration(rng.random(40), labels=np.repeat([0, 1, 2], [30, 5, 5]), n_classes=3)
    common = fw.Calibration(rng.random(40), labels=np.zeros(40, int), n_classes=3)
    sites = {"rare": rare, "common": common}
    with pytest.warns(fw.UnseenLabelsWarning) as caught:
        release = fw.calibrate(sites, method="fedls-cp", alpha=0.1)
    assert len(caught) == 1
    outcome = release.outcomes[0]
    assert outcome.unknown == (0.25, 0.0)
    assert unseen_labels(release) == {"rare": 0.25}
    assert (release.threshold("rare"), release.threshold("common") < 1) == (inf, True)
    for each in (release, release.public()):
        assert [(f.code, f.agents) for f in each.findings] == [("unseen-labels", ("rare",))]


def test_answers_that_do_not_fit_are_told_apart():
    method, fit = FedLSCP(**FINE), ClassSketches((2, 0), ((0.5,), ()))
    with pytest.raises(UnfitAnswerError) as error:
        method.aggregate([fit, ClassSketches((2,), ((0.5,),)), fit], 0.1)
    assert error.value.position == 1
    with raises(InputError, field="values"):
        method.check(Begin(), ClassSketches((2, 0), ((0.4, 0.5), ())), None, Terms(0.1))
    with raises(InputError, field="counts"):
        method.check(Begin(), fit, None, Terms(0.1, n_classes=3))
    with pytest.raises(InputError):
        FedLSCP(target=(1.0,), **FINE).aggregate([fit, fit], 0.1)


def test_infinite_scores_travel_and_are_never_covered():
    some = agent([0.1, 0.2, 0.3, inf, inf, inf, 0.4, 0.5, 0.6, 0.7], np.repeat([0, 1], (6, 4)))
    for n0 in (0.0, None):
        terms = {"method": FedLSCP(n0=n0, **FINE), "target": (0.6, 0.4)}
        found = [
            fw.calibrate(
                {"a": some, "b": some}, **terms, alpha=alpha, allow_large_alpha=True
            ).threshold("a")
            for alpha in (0.55, 0.25)
        ]
        assert found[0] < 1
        assert found[1] == inf


def test_a_score_that_rounds_past_its_bound_is_admitted():
    score = fw.RAPS(penalty=0.01234)
    top = score.bounds(10)[1]  # 1.11106, six digits
    cal = agent([*np.linspace(0, 1, 99), top], np.zeros(100, np.int64), 10)
    release = fw.calibrate({"a": cal, "b": cal}, method=FedLSCP(), alpha=0.005, score=score)
    assert release.threshold("a") == rounded_up(top) > top
    assert all(value <= top for value in FedLSCP().summarize(cal, 0.1).scores())


def test_shrinkage_has_no_finite_sample_guarantee():
    """Another agent whose scores of the class are lower draws the threshold below the own quantile.

    Agent a's scores are evenly spaced on (0.9, 1): a threshold q covers (q - 0.9) / 0.1 of them.
    """
    a = fw.Calibration(0.9 + 0.1 * np.arange(1, 201) / 201, labels=np.zeros(200, int), n_classes=2)
    b = fw.Calibration(0.1 * np.arange(1, 10001) / 10001, labels=np.zeros(10000, int), n_classes=2)
    covered = {}
    for n0 in (None, 400.0):
        method = FedLSCP(n0=n0)
        release = fw.calibrate({"a": a, "b": b}, method=method, alpha=0.1, target="own")
        covered[n0] = (release.threshold("a") - 0.9) / 0.1
    assert 0.84 < covered[None] < 0.85  # the page on own distributions says 85 %
    assert 0.82 < covered[400.0] < 0.83


@given(st.lists(st.integers(0, 30), min_size=2, max_size=5), st.sampled_from([0.05, 0.1, 0.3]))
def test_nothing_borrowed_towards_ones_own_labels_is_never_below_split_cp(counts, alpha):
    labels = np.repeat(np.arange(len(counts)), counts)
    scores = np.random.default_rng(len(labels)).uniform(size=len(labels))
    cal = fw.Calibration(scores, labels, n_classes=len(counts))
    method = FedLSCP(n0=0, min_class=1, min_gap=2)
    found = method.aggregate([method.summarize(cal, alpha)], alpha).values[0]
    assert found >= fw.conformal_quantile(scores, alpha)
    with raises(InputError, field="method"):
        fw.calibrate({"a": cal}, method=method, alpha=alpha)
