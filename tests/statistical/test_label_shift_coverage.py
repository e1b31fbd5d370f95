"""Coverage of FedLS-CP at a target label distribution, with label shift exactly true."""

from __future__ import annotations

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.methods.fedls_cp import FedLSCP

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
