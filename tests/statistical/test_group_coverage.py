"""Coverage within each label and group, against exact distributions."""

from __future__ import annotations

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.metrics import band

pytestmark = pytest.mark.slow


def test_by_label_hits_follow_the_beta_binomial_of_each_class():
    rng = np.random.default_rng(5)
    m, counts, alpha = 4000, (400, 40, 99), 0.1
    labels = np.repeat(np.arange(3), counts)
    scores = rng.beta(1 + labels, 3)  # hard classes have larger scores
    cal = fw.Calibration(scores, labels, n_classes=3)
    q = fw.calibrate({"a": cal}, method="split-cp", alpha=alpha, by="label").threshold("a")
    for label, n in enumerate(counts):
        hits = int((rng.beta(1 + label, 3, size=m) <= q[label]).sum())
        low, high = band(m, fw.conformal_rank(n, alpha), n, level=1 - 2e-6)
        assert low <= hits <= high
    marginal = fw.calibrate({"a": cal}, method="split-cp", alpha=alpha).threshold("a")
    hits = int((rng.beta(3, 3, size=m) <= marginal).sum())  # one threshold misses the hard class
    assert hits < band(m, fw.conformal_rank(99, alpha), 99, level=1 - 2e-6)[0]
