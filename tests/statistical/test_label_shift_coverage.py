"""Coverage of FedLS-CP at a target label distribution, with label shift exactly true."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.methods.fedls_cp import FedLSCP, ranks_of

pytestmark = pytest.mark.slow

POWERS = np.array([1.0, 0.5, 2.0])
"""Scores of class c are U ** POWERS[c], so that F_c(q) = q ** (1 / POWERS[c])."""


def draw(rng, counts):
    labels = np.repeat(np.arange(len(counts)), counts)
    scores = rng.uniform(size=len(labels)) ** POWERS[labels]
    return fw.Calibration(scores, labels, n_classes=len(counts))


def covered(q, pi):
    """P(V <= q) where classes have shares pi."""
    return float((np.asarray(pi) * min(1.0, q) ** (1 / POWERS)).sum())


def coverages(method, counts, pi, alpha, runs):
    """The true coverage at the target, agent by agent, for each of many draws of the data."""
    rng = np.random.default_rng(11)
    found = []
    for _ in range(runs):
        sent = [method.summarize(draw(rng, row), alpha) for row in counts]
        found.append([covered(q, pi) for q in method.aggregate(sent, alpha).values])
    return np.array(found)


@pytest.mark.guarantee("fedls-cp", "Without ties it is at most 1 - alpha + sum_c pi_c g_c")
@pytest.mark.parametrize("counts", [(60, 25, 9), (200, 3, 40), (35, 35, 35)])
@pytest.mark.parametrize("pi", [(0.2, 0.3, 0.5), (0.9, 0.02, 0.08)])
def test_own_points_cover_a_named_mix_within_the_stated_bounds(counts, pi):
    alpha, runs = 0.2, 3000
    found = coverages(FedLSCP(n0=0, target=pi, min_class=1), [counts], pi, alpha, runs)[:, 0]
    error = 5 * found.std() / np.sqrt(runs)  # a fair test fails by chance once in a million
    gaps = [max(np.diff((0, *ranks_of(n, alpha, 48, 5)))) for n in counts]
    slack = [p / (n + 1) for p, n in zip(pi, counts, strict=True)]
    above = sum(g * s for g, s in zip(gaps, slack, strict=True)) + max(slack)
    assert found.mean() >= 1 - alpha - error
    assert found.mean() <= 1 - alpha + above + 1e-4 + error  # 1e-4 for five digits


def test_a_rare_class_never_seen_costs_its_share_and_keeps_the_promise():
    pi, alpha = (0.5, 0.45, 0.05), 0.1
    found = coverages(FedLSCP(n0=0, target=pi), [(300, 300, 0)], pi, alpha, 1500)
    assert found.mean() >= 1 - alpha - 5 * found.std() / np.sqrt(1500)
    assert found.mean() < 0.96


def test_what_is_never_seen_and_not_rare_gives_no_finite_threshold():
    pi = (0.5, 0.4, 0.1)
    sent = [FedLSCP(target=pi).summarize(draw(np.random.default_rng(1), (300, 300, 0)), 0.05)]
    assert FedLSCP(n0=0, target=pi).aggregate(sent, 0.05).values == (inf,)


@pytest.mark.guarantee("fedls-cp", "With shrinkage coverage is approximate, and right as far as")
def test_shrinkage_among_equal_models_covers_classes_never_seen():
    # each agent lacks a class or has few points of it; all have the same F_c
    counts = [(150, 4, 0), (0, 120, 60), (30, 0, 200), (80, 60, 1)]
    pi = np.sum(counts, axis=0) / np.sum(counts)
    found = coverages(FedLSCP("mixture"), counts, pi, 0.1, 400)
    np.testing.assert_allclose(found.mean(axis=0), 0.9, atol=0.008)
    assert found.std(axis=0).max() < 0.025


def test_split_cp_misses_where_shrinkage_does_not():
    counts = [(150, 4, 0), (0, 120, 60), (30, 0, 200), (80, 60, 1)]
    pi = np.sum(counts, axis=0) / np.sum(counts)
    rng = np.random.default_rng(11)
    own = [
        [covered(fw.conformal_quantile(draw(rng, row).scores, 0.1), pi) for row in counts]
        for _ in range(200)
    ]
    lent = coverages(FedLSCP("mixture"), counts, pi, 0.1, 200)
    gap = [np.abs(np.mean(x, axis=0) - 0.9).max() for x in (own, lent)]
    assert gap[0] > 0.02 > 2 * gap[1]
