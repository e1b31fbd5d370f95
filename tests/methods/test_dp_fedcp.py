"""DP-FedCP against a weighted quantile written from the specification."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.methods._search import ANSWER_SIZE, CountAt
from fedwqcp.methods.dp_fedcp import (
    DescendFrom,
    DPFedCP,
    label_weights,
)
from refusals import raises
from worked import ask_agent, calibrations, refusal_of

# --- the specification, in plain Python and exact fractions ---------------------------------------


def weighted_quantile(scores, weights, alpha, atom):
    """Smallest score that reaches the level; the atom lies at 1."""
    points = [*zip(scores, weights, strict=True), (1.0, atom)]
    total = sum(w for _, w in points)
    if total == 0:
        return inf
    level = (1 - Fraction(str(alpha))) * total
    return min(q for q, _ in points if sum(w for v, w in points if v <= q) >= level)


def thresholds(data, n_classes, alpha, target):
    """One threshold for each label; data holds (scores, labels) of each agent."""
    counts = Counter(y for _, labels in data for y in labels)
    c, c_star = sum(counts.values()), sum(target)
    w = [Fraction(0)] * n_classes
    for y in range(n_classes):
        if counts[y] and c_star:
            w[y] = Fraction(c) * Fraction(target[y]) / (Fraction(c_star) * counts[y])
    points = []
    for scores, labels in data:
        points += zip(scores, labels, strict=True)
    scores, weights = [v for v, _ in points], [w[y] for _, y in points]
    return [weighted_quantile(scores, weights, alpha, w[y]) for y in range(n_classes)]


def counts_of(labels, n_classes):
    return [list(labels).count(y) for y in range(n_classes)]


# --- data -----------------------------------------------------------------------------------------


def skewed(seed, sizes, n_classes):
    """Unequal agents, ties, scores saturated at 1, labels that some agent has never seen."""
    rng = np.random.default_rng(seed)
    data = []
    for i, n in enumerate(sizes):
        mix = rng.dirichlet(np.full(n_classes, 0.4))
        mix[(i + 1) % n_classes] = 0
        y = rng.choice(n_classes, size=n, p=mix / mix.sum())
        v = np.minimum(1.0, np.round(rng.beta(2, 1 + y, size=n) * 1.1, 2))
        data.append((v.tolist(), y.tolist()))
    return data


@st.composite
def federations(draw):
    n_classes = draw(st.integers(2, 4))
    grid = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1))
    label = st.integers(0, n_classes - 1)
    agents = st.lists(st.lists(st.tuples(grid, label), max_size=12), min_size=1, max_size=4)
    data = draw(agents)
    return [([v for v, _ in a], [y for _, y in a]) for a in data], n_classes


# --- the exact solver -----------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(federations(), st.sampled_from([0.05, 0.1, 0.2, 0.5, 0.9]))
def test_exact_gives_the_weighted_quantile_of_each_target(drawn, alpha):
    data, C = drawn
    release = fw.calibrate(
        calibrations(data, C), method=DPFedCP(solver="exact"), alpha=alpha, allow_large_alpha=True
    )
    for i, (_, labels) in enumerate(data):
        expected = thresholds(data, C, alpha, counts_of(labels, C))
        assert release.threshold(f"a{i}").tolist() == expected


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("sizes", [(300, 20, 0, 1), (5, 2), (40, 40, 40)])
def test_exact_on_skewed_federations(alpha, sizes):
    data = skewed(len(sizes), sizes, 5)
    mix = (0.5, 0.25, 0.125, 0.125, 0.0)
    method = DPFedCP(solver="exact")
    release = fw.calibrate(
        calibrations(data, 5), method=method, target=mix, alpha=alpha, allow_large_alpha=True
    )
    assert release.threshold("a0").tolist() == thresholds(data, 5, alpha, mix)
    assert str(release.guarantee) == "target-shift, approximate"
    assert "class-conditional" in release.assumption


def test_pooled_target_is_split_cp_with_one_for_infinity():
    data = skewed(3, (60, 7, 0, 33), 4)
    pooled = [v for scores, _ in data for v in scores]
    alphas = (0.05, 0.1, 0.005)
    release = fw.calibrate(
        calibrations(data, 4), method=DPFedCP(solver="exact"), target="mixture", alpha=alphas
    )
    for alpha in alphas:
        q = fw.conformal_quantile(pooled, alpha)
        assert release.threshold("a1", alpha).tolist() == [min(q, 1.0)] * 4
    assert fw.conformal_quantile(pooled, 0.005) == inf


# --- the rounds -----------------------------------------------------------------------------------


def spread(seed, sizes, n_classes):
    """As `skewed`, with scores spread over the unit interval, where the descent moves quickly."""
    rng = np.random.default_rng(seed)
    return [
        (np.round(rng.random(len(y)) ** (1 + 0.3 * np.array(y)), 3).tolist(), y)
        for _, y in skewed(seed, sizes, n_classes)
    ]


def test_one_local_step_is_central_descent():
    """The shares lambda_i make K = 1 the gradient step on the whole federation's loss."""
    data, mix = skewed(9, (30, 12, 0, 5), 3), (0.5, 0.2, 0.3)
    alpha, gamma, eta, rounds = 0.2, 0.05, 0.01, 40
    method = DPFedCP(rounds=rounds, local_steps=1, step_size=eta, smoothing=gamma, average="last")
    found = fw.calibrate(
        calibrations(data, 3), method=method, target=mix, alpha=alpha, allow_large_alpha=True
    ).threshold("a0")
    labels = [y for _, ys in data for y in ys]
    w = [len(labels) * mix[y] / labels.count(y) for y in range(3)]
    for y in range(3):
        points = [(v, w[c]) for vs, ys in data for v, c in zip(vs, ys, strict=True)] + [(1.0, w[y])]
        q = 1 - alpha
        for _ in range(rounds):
            slope = sum(b * min(max((q - v) / gamma, alpha - 1), alpha) for v, b in points)
            q -= eta * slope / sum(b for _, b in points)
        assert found[y] == pytest.approx(q, abs=1e-9)


@pytest.mark.parametrize(("average", "error"), [("last", 0.02), ("half", 0.02), ("all", 0.06)])
def test_rounds_end_near_the_quantile(average, error):
    data, mix = spread(7, (120, 60, 0, 9), 3), (0.3, 0.3, 0.4)
    method = DPFedCP(step_size=5e-3, local_steps=6, average=average, start=0.5)
    found = fw.calibrate(calibrations(data, 3), method=method, target=mix, alpha=0.2).threshold(
        "a0"
    )
    assert found == pytest.approx(thresholds(data, 3, 0.2, mix), abs=error)


# --- counts ---------------------------------------------------------------------------------------


def test_weights_by_hand():
    counts = np.array([[3.0, 1.0, 0.0], [1.0, 3.0, 0.0]])
    found = label_weights(counts, np.array([[3.0, 1.0, 4.0], [0.0, 0.0, 0.0]]))
    assert found.tolist() == [[0.75, 0.25, 0.0], [0.0, 0.0, 0.0]]


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scores", [[0.2, 1.5], [-0.1, 0.2], [0.2, inf]])
def test_scores_outside_the_unit_interval_are_refused(scores):
    agents = {"a": fw.Calibration(scores, labels=[0, 1])}
    with pytest.raises(InputError):
        fw.calibrate(agents, method="dp-fedcp", alpha=0.1)


def test_a_target_has_a_number_for_each_class():
    with raises(InputError, field="target"):
        fw.calibrate(
            {"a": fw.Calibration([0.1, 0.2], labels=[0, 1])},
            method="dp-fedcp", target=(1.0, 1.0, 1.0), alpha=0.1,
        )  # fmt: skip


FEW, MANY = (
    tuple(np.linspace(0, 1, ANSWER_SIZE // 2).tolist()),
    tuple(np.linspace(0, 1, 1001).tolist()),
)
ONES = (1.0, 1.0)


@pytest.mark.parametrize(
    ("method", "question"),
    [
        (DPFedCP(), CountAt(MANY)),
        (DPFedCP(), CountAt((0.5,))),
        (DPFedCP(solver="exact"), DescendFrom(ONES, ONES, 0.5)),
        (DPFedCP(solver="exact", target="mixture"), CountAt((*FEW, 2.0))),
        (DPFedCP(target="mixture"), DescendFrom(ONES * 2, ONES * 2, 0.5)),
        (DPFedCP(), DescendFrom((1.0,), (1.0,), 0.5)),
        (DPFedCP(), DescendFrom((), (), 0.5)),
    ],
)
def test_an_agent_answers_only_what_the_settings_need(method, question):
    cal = fw.Calibration([0.25, 0.75], labels=[0, 1], n_classes=2)
    with pytest.raises(refusal_of(method, question, 2)):
        ask_agent(method, cal, question)
