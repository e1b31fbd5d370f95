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


def test_fcp_by_group_covers_the_mixture_of_the_agents_that_have_the_group():
    rng = np.random.default_rng(6)
    alpha, runs = 0.2, 1500
    counts = {"a": {"f": 9, "m": 3}, "b": {"m": 14}, "c": {"f": 4, "m": 6}}
    scale = {("a", "f"): 1, ("a", "m"): 3, ("b", "m"): 1, ("c", "f"): 4, ("c", "m"): 2}
    covered = {"f": [], "m": []}
    for _ in range(runs):
        cals = {}
        for name, sizes in counts.items():
            scores = [scale[name, g] * rng.random(n) for g, n in sizes.items()]
            groups = np.repeat([*sizes], [*sizes.values()])
            cals[name] = fw.Calibration(np.concatenate(scores), groups=groups)
        release = fw.calibrate(cals, method="fcp", alpha=alpha, by="group")
        for group, hits in covered.items():
            there = {name: sizes[group] for name, sizes in counts.items() if group in sizes}
            q = release.threshold("a", group=group)
            total = sum(n + 1 for n in there.values())
            coverage = {name: min(q / scale[name, group], 1) for name in there}  # exact
            hits.append(sum((n + 1) * coverage[name] for name, n in there.items()) / total)
    for group, hits in covered.items():
        there = [sizes[group] for sizes in counts.values() if group in sizes]
        mean, error = np.mean(hits), np.std(hits) / np.sqrt(runs)
        assert mean >= 1 - alpha - 4.5 * error
        assert mean <= 1 - alpha + len(there) / (sum(there) + len(there)) + 4.5 * error
