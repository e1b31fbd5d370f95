"""A temperature fitted on held-out rows leaves split conformal's exact distribution as it is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import betabinom

import fedwqcp as fw


def rows(rng, n):
    """Return logits that are twice too large, and labels."""
    logits = rng.normal(size=(n, 4))
    labels = (fw.softmax(logits).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return 2 * logits, labels


@pytest.mark.slow
def test_hits_follow_the_exact_distribution_for_the_rows_that_are_left():
    rng = np.random.default_rng(0)
    hits, k = [], fw.conformal_rank(36, 0.1)
    exact = betabinom(20, k, 37 - k)
    for _ in range(2000):
        (logits, labels), (new, truth) = rows(rng, 60), rows(rng, 20)
        T = fw.fit_temperature(logits[:24], labels[:24])
        q = fw.conformal_quantile(fw.LAC().of(fw.softmax(logits[24:], T), labels[24:]), 0.1)
        hits.append(int(fw.LAC().invert(fw.softmax(new, T), q).cover(truth).sum()))
    spread = exact.std() / np.sqrt(len(hits))
    assert abs(np.mean(hits) - exact.mean()) < 5 * spread
    assert np.std(hits) == pytest.approx(exact.std(), rel=0.1)
