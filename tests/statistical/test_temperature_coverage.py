"""A temperature fitted on held-out rows leaves split conformal's exact distribution as it is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import betabinom

import fedwqcp as fw
from fedwqcp.federation.predict import calibration_of
from fedwqcp.federation.temperature import calibrated, fitted, probabilities
from fedwqcp.outputs import Outputs
from fedwqcp.wire.messages import Choice, Round

ROUND = Round("r", Choice("split-cp"), Choice("lac"), (0.1,), ("a",), 1, key="k")


def rows(rng, n):
    """Return logits that are twice too large, and labels."""
    logits = rng.normal(size=(n, 4))
    labels = (fw.softmax(logits).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return Outputs(2 * logits, labels, np.arange(n), logits=True)


@pytest.mark.slow
def test_hits_follow_the_exact_distribution_for_the_rows_that_are_left():
    rng = np.random.default_rng(0)
    hits, exact = [], None
    for _ in range(2000):
        outputs, new = rows(rng, 60), rows(rng, 20)  # the ids, and so the choice, stay the same
        own = fitted(ROUND, "a", outputs, 0.4)
        cal = calibration_of(ROUND, calibrated(ROUND, outputs, own))
        q = fw.conformal_quantile(cal.scores, 0.1)
        sets = fw.LAC().invert(probabilities(new, own.temperature).values, q)
        hits.append(int(sets.cover(new.labels).sum()))
        k = fw.conformal_rank(cal.n, 0.1)
        exact = betabinom(20, k, cal.n + 1 - k)
    assert cal.n == 60 - own.fitted_on
    spread = exact.std() / np.sqrt(len(hits))
    assert abs(np.mean(hits) - exact.mean()) < 5 * spread
    assert np.std(hits) == pytest.approx(exact.std(), rel=0.1)
